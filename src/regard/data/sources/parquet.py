"""Read a parquet file as columns: numbers as float64 with nan for null, times as datetime64[s] in UTC, all else as texts.

It needs pyarrow, which comes with the extra `data`. An index of times that pandas wrote is a column called `date`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import UserError

MOST_CELLS = 2**28
INDEX = "__index_level_0__"  # as pandas writes an index without a name


def read_parquet(path: Path) -> dict[str, np.ndarray | list[str]]:
    """Return the columns of a file by name."""
    if not path.is_file():
        raise UserError(f"There is no file {path}. Check the path.")
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise UserError(f'{path} needs the package `pyarrow`. Type: pip install "regard[data]"') from error
    try:
        with parquet.ParquetFile(path) as file:
            rows, names = file.metadata.num_rows, file.schema_arrow.names
            if len({*names}) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise UserError(f"{path} has two columns called {twice!r}; give each a name of its own.")
            if rows * len(names) > MOST_CELLS:
                raise UserError(
                    f"{path} has {rows:,} rows of {len(names):,} columns, and {MOST_CELLS:,} cells are the most; write fewer "
                    "columns or rows."
                )
            table = file.read()
    except (ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as parquet: {reason[:200]}. Copy it again, or write the table as CSV.") from error
    if not rows:
        raise UserError(f"{path} has no rows; give a row for each time.")
    found = {name: _column(table[name]) for name in names}
    index = found.pop(INDEX, None)
    if isinstance(index, np.ndarray) and index.dtype.kind == "M" and "date" not in found:
        found = {"date": index, **found}
    if not found:
        raise UserError(f"{path} has no columns; give times and what is to be forecast.")
    return found


def _column(column: Any) -> np.ndarray | list[str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        whole = pc.cast(column, pa.timestamp("s"), safe=False)
        return np.asarray(whole.to_numpy()).astype("datetime64[s]")
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = pc.cast(pc.cast(column, pa.int8()) if pa.types.is_boolean(kind) else column, pa.float64(), safe=False)
        return np.asarray(numbers.to_numpy(), np.float64)
    return ["" if value is None else str(value) for value in column.to_pylist()]

"""Parquet files as pandas and pyarrow write them: types, nulls, an index, and what is no such file."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from regard.core.errors import UserError
from regard.data.series_config import SeriesConfig
from regard.data.sources.parquet import read_parquet
from regard.data.sources.series import read_series


def written(path: Path, **columns: object) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_columns_have_their_types(tmp_path):
    zone = timezone(timedelta(hours=2))
    path = written(
        tmp_path / "a.parquet",
        when=pa.array([datetime(2024, 1, 1, 2, tzinfo=zone), datetime(2024, 1, 2, 2, tzinfo=zone)]),
        day=[date(2024, 1, 1), date(2024, 1, 2)],
        whole=pa.array([1, None], pa.int32()),
        part=pa.array([0.5, None], pa.float32()),
        price=[Decimal("1.25"), Decimal("2.50")],
        yes=[True, False],
        name=pa.array(["x", "y"]).dictionary_encode(),
        none=pa.array(["x", None]),
    )
    found = read_parquet(path)
    assert found["when"].tolist() == [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    assert found["day"].tolist() == [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    np.testing.assert_array_equal(found["whole"], [1, np.nan])
    np.testing.assert_array_equal(found["part"], [0.5, np.nan])
    assert found["price"].tolist() == [1.25, 2.5]
    assert found["yes"].tolist() == [1, 0]
    assert (found["name"], found["none"]) == (["x", "y"], ["x", ""])


def test_a_parquet_table_is_the_same_as_a_csv_table(tmp_path):
    lines = ["shop,date,y,promo,size"]
    rows = [(shop, datetime(2024, 1, day, tzinfo=UTC), day * shop, day % 2, 10 * shop) for shop in (2, 1) for day in range(1, 9)]
    lines += [f"{shop},{when:%Y-%m-%d},{y},{promo},{size}" for shop, when, y, promo, size in rows]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    columns = dict(zip(("shop", "date", "y", "promo", "size"), zip(*rows)))
    written(tmp_path / "a.parquet", **{name: list(column) for name, column in columns.items()})
    config = SeriesConfig(train=("a",), series="shop", known=("promo",), static=("size",), calendar=("weekday",))
    one, other = (read_series((str(tmp_path / name),), config) for name in ("a.csv", "a.parquet"))
    assert (one.channels, one.known, one.static, one.time) == (other.channels, other.known, other.static, other.time)
    for mine, theirs in zip(one.series, other.series, strict=True):
        assert (mine.name, mine.static_S) == (theirs.name, theirs.static_S)
        for part in ("values_TC", "known_TE", "dates"):
            np.testing.assert_array_equal(getattr(mine, part), getattr(theirs, part))


def test_an_index_of_times_is_the_date(tmp_path):
    path = written(tmp_path / "a.parquet", x=[1.0, 2.0], __index_level_0__=[datetime(2024, 1, 1), datetime(2024, 1, 2)])
    assert [*read_parquet(path)] == ["date", "x"]
    written(path, x=[1.0, 2.0], __index_level_0__=[0, 1])
    assert [*read_parquet(path)] == ["x"]


def test_what_is_no_parquet_table_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    with pytest.raises(UserError, match="There is no file"):
        read_parquet(path)
    path.write_text("date,x\n2024-01-01,1\n")
    with pytest.raises(UserError, match="cannot be read as parquet"):
        read_parquet(path)
    with pytest.raises(UserError, match="has no rows"):
        read_parquet(written(path, x=pa.array([], pa.float64())))
    whole = written(path, x=[1.0] * 500).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cannot be read as parquet"):
        read_parquet(path)


def test_cells_that_are_no_numbers_are_told_by_their_row(tmp_path):
    path = written(tmp_path / "a.parquet", date=pa.array([datetime(2024, 1, 1), None]), x=["1", "one"], y=[1, 2])
    for columns, told in ((("x",), "row 2: x is 'one', which is no number"), (("y",), "row 2: date is empty")):
        with pytest.raises(UserError, match=told):
            read_series((str(path),), SeriesConfig(train=(str(path),), columns=columns))

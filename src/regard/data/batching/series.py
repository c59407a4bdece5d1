"""Windows of time series become batches: numbers of first rows alone, while the values stay where the model computes.

All series of a table lie end to end in one tensor, which is copied to a device once. A window is its first row: what is read,
`lookback` rows, and what is forecast, the `horizon` rows behind them, are gathered by index on the device, within a captured
step. So there are as many windows as rows, and none of them takes memory.

`Scaling` has the mean and the standard deviation of each channel over the training part; a constant channel is left undivided.
Static numbers are scaled over series, and a category is a 1 among zeros, whose linear map is an embedding.

Dims: T times, B batch, L look-back, H horizon, M = L + H, C channels, E covariates, N series, S static numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import read_bounded, write_whole
from regard.core.packing import to_device
from regard.core.rng import generator
from regard.data.batching.pairs import digest
from regard.data.sources.series import Series, SeriesTable

SCALING = "scaling.json"


class Static(NamedTuple):
    """A static number of a series: a column of numbers, or one category of a column."""

    column: str
    category: str = ""  # empty: the column has numbers
    mean: float = 0.0
    deviation: float = 1.0


@dataclass(frozen=True)
class Scaling:
    """Names of the channels and covariates of a run, with the mean and deviation of each."""

    channels: tuple[str, ...]
    known: tuple[str, ...]
    mean: tuple[float, ...]  # of channels, then covariates
    deviation: tuple[float, ...]
    season_error: tuple[float, ...]  # mean absolute error of the seasonal naive forecast in training, of each channel
    static: tuple[Static, ...] = ()

    def __len__(self) -> int:
        return len(self.channels)

    @classmethod
    def of(cls, table: SeriesTable, ends: Sequence[int], season: int, *, plain: bool = False) -> Scaling:
        """Measure the first rows of each series, up to its end of training; channels that are `plain` stay as they are."""
        parts = [np.concatenate([one.values_TC, one.known_TE], 1)[:end] for one, end in zip(table.series, ends)]
        rows_TX = np.concatenate(parts)
        count, mean, deviation = len(table.channels), rows_TX.mean(0), rows_TX.std(0)
        if plain:
            mean[:count], deviation[:count] = 0.0, 1.0
        errors = [np.abs(part[season:] - part[:-season]) for part in parts if len(part) > season]
        error = np.concatenate(errors).mean(0) if errors else np.full(rows_TX.shape[1], np.nan)
        return cls(
            table.channels,
            table.known,
            tuple(mean.tolist()),
            tuple(np.where(deviation > 0, deviation, 1.0).tolist()),
            tuple(error[:count].tolist()),
            measure_static(table),
        )

    @classmethod
    def unnamed(cls, channels: int, known: int = 0) -> Scaling:
        """Return the scale of a model that takes values as they are, of any table with so many channels and known columns."""
        both = channels + known
        return cls(("",) * channels, ("",) * known, (0.0,) * both, (1.0,) * both, (0.0,) * channels)

    def suits(self, table: SeriesTable) -> bool:
        channels, known = table.channels, table.known
        if not any(self.channels):
            channels, known = ("",) * len(channels), ("",) * len(known)
        static = tuple(dict.fromkeys(one.column for one in self.static))
        return (channels, known, table.static) == (self.channels, self.known, static)

    def scaled(self, one: Series) -> tuple[np.ndarray, np.ndarray]:
        """Return values_TC and known_TE with mean 0 and deviation 1, as they are over training."""
        count, mean, deviation = len(self.channels), np.array(self.mean), np.array(self.deviation)
        values = (one.values_TC - mean[:count]) / deviation[:count], (one.known_TE - mean[count:]) / deviation[count:]
        return values[0].astype(np.float32), values[1].astype(np.float32)

    def static_of(self, one: Series, columns: Sequence[str], where: str = "") -> np.ndarray:
        """Return the static numbers of a series."""
        cells, found = dict(zip(columns, one.static_S)), np.zeros(len(self.static), np.float32)
        for column, cell in cells.items():
            places = [n for n, static in enumerate(self.static) if static.column == column]
            categories = {self.static[n].category: n for n in places}
            if cell in categories:
                found[categories[cell]] = 1
                continue
            number = _number(cell)
            if "" not in categories or number is None:
                asked = "a number" if "" in categories else f"one of {', '.join(sorted(categories)[:8])}"
                raise UserError(
                    f"{where}: {column} of series {one.name!r} is {cell!r}, and training had {asked}; write one "
                    "that it had, or train again."
                )
            static = self.static[categories[""]]
            found[categories[""]] = (number - static.mean) / static.deviation
        return found

    def units(self, scaled: np.ndarray) -> np.ndarray:
        """Return values_..C in the units of the data."""
        count = len(self.channels)
        return scaled * np.array(self.deviation)[:count] + np.array(self.mean)[:count]

    def zero(self) -> np.ndarray:
        """Return what 0 in units is on the scale of each channel."""
        count = len(self.channels)
        return -np.array(self.mean)[:count] / np.array(self.deviation)[:count]

    def must_suit(self, table: SeriesTable, where: str) -> None:
        if not any(self.channels) and not self.suits(table):
            raise UserError(
                f"{where} has {len(table.channels)} columns of numbers to forecast and {len(table.known)} that are known in "
                f"advance, and this model needs {len(self)} and {len(self.known)}; name as many in data.columns and data.known."
            )
        if not self.suits(table):
            static = tuple(dict.fromkeys(one.column for one in self.static))
            wanted, given = (*self.channels, *self.known, *static), (*table.channels, *table.known, *table.static)
            missing = [name for name in wanted if name not in given]
            told = f"has no column {missing[0]!r}" if missing else f"has the columns {', '.join(table.channels[:5])}"
            raise UserError(
                f"{where} {told}, and this run forecasts {', '.join(self.channels[:5])}; give a table with the same "
                f"columns, or name them "
                "in data.columns."
            )
        for one in table.series if self.static else ():
            self.static_of(one, table.static, where)

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Scaling:
        if not path.is_file():
            raise UserError(f"There is no scaling at {path}. Copy it back, or make it again by the same 'regard train' command.")
        try:
            tables = json.loads(read_bounded(path, within=path.parent).decode())
            tables["static"] = [Static(*one) for one in tables.get("static", ())]
            found = cls(**{key: tuple(value) for key, value in tables.items()})
            count = len(found.channels) + len(found.known)
            good = len(found.mean) == len(found.deviation) == count > 0 and bool(
                np.isfinite([*found.mean, *found.deviation]).all()
            )
        except (ValueError, RecursionError, TypeError, AttributeError):
            good = False
        if not good:
            raise UserError(f"{path} is damaged; copy it again from where the run was made, or train another run.")
        return found


def measure_static(table: SeriesTable) -> tuple[Static, ...]:
    """Return the static numbers of a table's series: one of a column of numbers, as many as there are categories of another."""
    found = list[Static]()
    for n, column in enumerate(table.static):
        cells = [one.static_S[n] for one in table.series]
        numbers = [_number(cell) for cell in cells]
        if all(number is not None for number in numbers):
            x = np.array(numbers, np.float64)
            found.append(Static(column, "", float(x.mean()), float(x.std()) or 1.0))
        else:
            found += [Static(column, category) for category in sorted({*cells})]
    return tuple(found)


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


class Window(NamedTuple):
    """Input windows of a batch and the values to forecast."""

    past_BLC: Tensor
    future_BHC: Tensor
    known_BME: Tensor | None
    static_BS: Tensor | None = None

    @property
    def given(self) -> tuple[Tensor | None, ...]:
        """Return the inputs of a model."""
        if self.static_BS is not None:
            return self.past_BLC, self.known_BME, self.static_BS
        return (self.past_BLC,) if self.known_BME is None else (self.past_BLC, self.known_BME)


class Stored(NamedTuple):
    values_TC: Tensor
    known_TE: Tensor
    static_NS: Tensor
    ends_N: Tensor  # the row behind the last one of each series


class SeriesStore:
    """All series, scaled, end to end: on the host, and on each device that has asked for them, once."""

    def __init__(
        self, values_TC: np.ndarray, known_TE: np.ndarray, static_NS: np.ndarray | None = None, ends: Sequence[int] = ()
    ) -> None:
        static_NS = np.zeros((len(ends), 0), np.float32) if static_NS is None else static_NS
        given = (values_TC, known_TE, static_NS, np.array(ends, np.int64))
        self.rows = Stored(*(torch.from_numpy(np.ascontiguousarray(part)) for part in given))
        self._copies: dict[torch.device, Stored] = {}

    def on(self, device: torch.device) -> Stored:
        """Return all rows on this device."""
        if device.type == "cpu":
            return self.rows
        if device not in self._copies:
            self._copies[device] = Stored(*(part.to(device) for part in self.rows))
        return self._copies[device]


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Windows of a batch, by their first rows in a store."""

    starts_B: Tensor
    tokens: int  # windows
    store: SeriesStore
    lookback: int
    horizon: int

    to = to_device

    def window(self) -> Window:
        """Gather the windows where the batch is."""
        rows = self.store.on(self.starts_B.device)
        at_BM = self.starts_B[:, None] + torch.arange(self.lookback + self.horizon, device=self.starts_B.device)
        all_BMC = rows.values_TC[at_BM]
        known_BME = rows.known_TE[at_BM] if rows.known_TE.shape[1] else None
        static_BS = None
        if rows.static_NS.shape[1]:
            static_BS = rows.static_NS[torch.searchsorted(rows.ends_N, self.starts_B, right=True)]
        return Window(all_BMC[:, : self.lookback], all_BMC[:, self.lookback :], known_BME, static_BS)


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a part of all series: a store, and their first rows in it."""

    store: SeriesStore
    starts: np.ndarray
    lookback: int
    horizon: int
    first: int = 0  # the rows that are this part's: for its hash
    last: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    def digest(self) -> str:
        rows = self.store.rows
        parts = [part.numpy()[self.first : self.last] for part in (rows.values_TC, rows.known_TE)]
        return digest(*parts, self.starts, *([rows.static_NS.numpy()] if rows.static_NS.shape[1] else []))

    def batch(self, rows: np.ndarray) -> SeriesBatch:
        return SeriesBatch(torch.from_numpy(self.starts[rows]), len(rows), self.store, self.lookback, self.horizon)

    def in_order(self, size: int) -> Iterator[SeriesBatch]:
        """Yield every window once, none left out."""
        for start in range(0, len(self), size):
            yield self.batch(np.arange(start, min(start + size, len(self))))


def make_windows(
    table: SeriesTable, scaling: Scaling, spans: Sequence[tuple[int, int]], lookback: int, horizon: int, stride: int = 1
) -> Windows:
    """Make the windows whose forecasts lie between begin and end of each series; they may look back before the begin."""
    scaled = [scaling.scaled(one) for one in table.series]
    values_TC, known_TE = (np.concatenate(parts) for parts in zip(*scaled))
    static_NS = np.stack([scaling.static_of(one, table.static) for one in table.series])
    store = SeriesStore(values_TC, known_TE, static_NS, np.cumsum([len(one) for one in table.series]).tolist())
    offset, starts, bounds = 0, list[np.ndarray](), list[int]()
    for one, (begin, end) in zip(table.series, spans):
        starts.append(offset + np.arange(max(0, begin - lookback), end - lookback - horizon + 1, stride, dtype=np.int64))
        bounds += [offset + max(0, begin - lookback), offset + end]
        offset += len(one)
    return Windows(store, np.concatenate(starts), lookback, horizon, min(bounds), max(bounds))


@dataclass(frozen=True)
class WindowBatches:
    """Batches of `size` windows in a new order each epoch; the rest of an epoch, less than a batch, is left out of it."""

    data: Windows
    size: int
    seed: int
    fixed_shapes = True

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = generator(self.seed, "windows", epoch).permutation(len(self.data))
        return [order[n * self.size : (n + 1) * self.size] for n in range(max(1, len(order) // self.size))]

    def count(self, rows: np.ndarray) -> int:
        return len(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> SeriesBatch:
        return self.data.batch(rows)

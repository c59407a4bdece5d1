"""Windows of time series become batches: numbers of first rows alone, while the values stay where the model computes.

All series of a table lie end to end in one tensor, which is copied to a device once. A window is its first row: what is read,
`lookback` rows, and what is forecast, the `horizon` rows behind them, are gathered by index on the device, within a captured
step. So there are as many windows as rows, and none of them takes memory.

`Scaling` has the mean and the standard deviation of each channel over the training part; a constant channel is left undivided.

Dims: T times, B batch, L look-back, H horizon, M = L + H, C channels, E covariates.
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


@dataclass(frozen=True)
class Scaling:
    """Names of the channels and covariates of a run, with the mean and deviation of each."""

    channels: tuple[str, ...]
    known: tuple[str, ...]
    mean: tuple[float, ...]  # of channels, then covariates
    deviation: tuple[float, ...]
    season_error: tuple[float, ...]  # mean absolute error of the seasonal naive forecast in training, of each channel

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
        )

    @classmethod
    def unnamed(cls, channels: int) -> Scaling:
        """Return the scale of a model that takes values as they are, of any table with so many channels."""
        nothing = (0.0,) * channels
        return cls(("",) * channels, (), nothing, (1.0,) * channels, nothing)

    def suits(self, table: SeriesTable) -> bool:
        names = table.channels if any(self.channels) else ("",) * len(table.channels)
        return (names, table.known) == (self.channels, self.known)

    def scaled(self, one: Series) -> tuple[np.ndarray, np.ndarray]:
        """Return values_TC and known_TE with mean 0 and deviation 1, as they are over training."""
        count, mean, deviation = len(self.channels), np.array(self.mean), np.array(self.deviation)
        values = (one.values_TC - mean[:count]) / deviation[:count], (one.known_TE - mean[count:]) / deviation[count:]
        return values[0].astype(np.float32), values[1].astype(np.float32)

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
                f"{where} has {len(table.channels)} columns of numbers, and this model forecasts {len(self)}; name as many in "
                "data.columns."
            )
        if not self.suits(table):
            missing = [name for name in (*self.channels, *self.known) if name not in (*table.channels, *table.known)]
            told = f"has no column {missing[0]!r}" if missing else f"has the columns {', '.join(table.channels[:5])}"
            raise UserError(
                f"{where} {told}, and this run forecasts {', '.join(self.channels[:5])}; give a table with the same "
                f"columns, or name them "
                "in data.columns."
            )

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Scaling:
        if not path.is_file():
            raise UserError(f"There is no scaling at {path}. Copy it back, or make it again by the same 'regard train' command.")
        try:
            found = cls(
                **{key: tuple(value) for key, value in json.loads(read_bounded(path, within=path.parent).decode()).items()}
            )
            count = len(found.channels) + len(found.known)
            good = len(found.mean) == len(found.deviation) == count > 0 and bool(
                np.isfinite([*found.mean, *found.deviation]).all()
            )
        except (ValueError, RecursionError, TypeError, AttributeError):
            good = False
        if not good:
            raise UserError(f"{path} is damaged; copy it again from where the run was made, or train another run.")
        return found


class Window(NamedTuple):
    """Input windows of a batch and the values to forecast."""

    past_BLC: Tensor
    future_BHC: Tensor
    known_BME: Tensor | None

    @property
    def given(self) -> tuple[Tensor, ...]:
        """Return the inputs of a model."""
        return (self.past_BLC,) if self.known_BME is None else (self.past_BLC, self.known_BME)


class SeriesStore:
    """All series, scaled, end to end: on the host, and on each device that has asked for them, once."""

    def __init__(self, values_TC: np.ndarray, known_TE: np.ndarray) -> None:
        self.values, self.known = (torch.from_numpy(np.ascontiguousarray(x)) for x in (values_TC, known_TE))
        self._copies: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return values_TC and known_TE on this device."""
        if device.type == "cpu":
            return self.values, self.known
        if device not in self._copies:
            self._copies[device] = self.values.to(device), self.known.to(device)
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
        values_TC, known_TE = self.store.on(self.starts_B.device)
        at_BM = self.starts_B[:, None] + torch.arange(self.lookback + self.horizon, device=self.starts_B.device)
        all_BMC = values_TC[at_BM]
        known_BME = known_TE[at_BM] if known_TE.shape[1] else None
        return Window(all_BMC[:, : self.lookback], all_BMC[:, self.lookback :], known_BME)


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
        return digest(
            self.store.values.numpy()[self.first : self.last], self.store.known.numpy()[self.first : self.last], self.starts
        )

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
    store = SeriesStore(np.concatenate([values for values, _ in scaled]), np.concatenate([known for _, known in scaled]))
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

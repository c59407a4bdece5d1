"""The `[data]` section of a recipe for forecasting: which table, what its columns are, and how its times are split.

A series is split by time: what is trained on comes first, then what training is validated by, then the test. Look-back and
horizon belong to the model: `model.lookback` and `model.horizon`. Windows of validation and test may look back into what is
before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.core.config import Bounds, Count, check_bounds
from regard.core.errors import UserError
from regard.data.config import All

Calendar = Literal["minute", "hour", "weekday", "monthday", "yearday", "month"]
Share = Annotated[float, Bounds(0, 1, below=True, zero="none", example="0.1")]
ETT_ROWS = (8640, 2880, 2880)  # 12, 4 and 4 months of 30 days, in hours


@dataclass(frozen=True, kw_only=True)
class SeriesConfig:
    """Time series: a table with a row for each time, and windows of it."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()  # a table of its own; none: what follows the training part of train
    test: tuple[str, ...] = ()  # a table of its own; none: the last part of train
    time: str = ""  # the column of dates; empty: one called date, time, timestamp, datetime or ds; none: rows are in order
    series: str = ""  # of a long table: the column that says which series a row belongs to
    columns: tuple[str, ...] = ()  # the channels to forecast; none: every column of numbers
    known: tuple[str, ...] = ()  # covariates: columns that are known in advance, the future included
    calendar: tuple[Calendar, ...] = ()  # covariates that are computed from dates
    static: tuple[str, ...] = ()  # of a long table: columns that are constant in a series, numbers or categories
    split: Literal["shares", "ett-hours", "ett-minutes"] = "shares"  # or the months of the published ETT tables
    valid_fraction: Share = 0.1  # of the rows, before those of the test
    test_fraction: Share = 0.2  # of the rows, the last
    missing: Literal["refuse", "interpolate", "last"] = "refuse"  # what stands for empty cells and times that are left out
    decimal: Literal["point", "comma"] = "point"  # what numbers are written with
    scaling: Literal["standard", "none"] = "standard"  # by training's mean and deviation, or channels as they are
    season: Count = 24  # times of a season, for the seasonal naive forecast and MASE
    stride: Count = 1  # times from one training window to the next
    limit: All = 0  # use at most this many rows of a series, the first ones; 0 is all

    by_time = True  # a test is always there: the last part of train

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        if not self.valid and not self.valid_fraction and self.split == "shares":
            raise UserError("data.valid_fraction=0 leaves nothing to validate with; give a share, such as 0.1, or data.valid.")
        if self.valid_fraction + self.test_fraction >= 1:
            raise UserError(
                f"data.valid_fraction={self.valid_fraction} and data.test_fraction={self.test_fraction} leave nothing "
                f"to train on; "
                "give smaller shares."
            )
        if both := sorted({*self.columns} & {*self.known}):
            raise UserError(
                f"{both[0]} is in data.columns and in data.known; what is known in advance is not forecast: drop one."
            )
        if self.static and not self.series:
            raise UserError(
                f"data.static={','.join(self.static)} tells series apart, and without data.series there is one; name the column "
                "of the series by data.series, or leave it out."
            )
        for key, names in {"data.columns": self.columns, "data.known": self.known, "data.series": (self.series,)}.items():
            if both := sorted({*self.static} & {*names}):
                raise UserError(f"{both[0]} is in data.static and in {key}; name it in one of them.")
        if len({*self.calendar}) < len(self.calendar):
            raise UserError(f"data.calendar={','.join(self.calendar)} names one of them twice; leave one out.")
        if (self.test or self.valid) and self.split != "shares":
            raise UserError(f"data.split={self.split} takes all parts from data.train; leave data.valid and data.test out.")

    def borders(self, rows: int) -> tuple[int, int, int]:
        """Return where training, validation and test end in a series of this many rows."""
        if self.split != "shares":
            scale = 1 if self.split == "ett-hours" else 4
            train, valid, test = (scale * part for part in ETT_ROWS)
            return train, train + valid, train + valid + test
        test = 0 if self.test else int(rows * self.test_fraction)
        if self.valid:
            return rows - test, rows - test, rows
        train = int(rows * (1 - self.valid_fraction - (0 if self.test else self.test_fraction)) + 1e-9)
        return train, rows - test, rows

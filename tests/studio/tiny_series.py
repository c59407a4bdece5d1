"""A tiny run that forecasts, as `regard studio` would open it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.studio.launch import RunFolderHandle
from regard.studio.session import Session
from tests.tasks.forecasting.tiny_series import trained


class SeriesOpening:
    """Opens a trained run only when it is asked for."""

    folder: Path | None = None
    steps: Sequence[int] = ()

    def __init__(self, model: str) -> None:
        self.model = model

    def version(self) -> str | None:
        return "1"

    def open(self, step: int | None) -> Session:
        return RunFolderHandle(str(trained(self.model)), "cpu").open(step)

"""What patterns have in common that depend on where a sequence ends: they are told, and until then see what is certain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.model.patterns.seeing import End, Visibility


class Ending(Visibility):
    """A frozen dataclass of which one field is the end."""

    end: End

    @property
    def varies(self) -> bool:  # type: ignore[override]
        return isinstance(self.end, Tensor)

    def settled(self, end: End) -> Visibility:
        told: Any = self
        return replace(told, end=end)

    def ends(self, b: Tensor) -> int | Tensor:
        """Where sequence b does."""
        assert self.end is not None
        return self.end if isinstance(self.end, int) else self.end[b]

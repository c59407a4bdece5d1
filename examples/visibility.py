"""A visibility of your own: dilated attention, every n-th position.

    regard train translate "model.visibility=dilated(2)" --plugin examples/visibility.py --out runs/dilated

`sees` says which keys j each query i may attend to; kernels, padding, caches and pictures follow from it. It gets tensors of
positions that broadcast against each other, and returns booleans.
"""

from dataclasses import dataclass

from torch import Tensor

import regard
from regard.attention import Visibility


@dataclass(frozen=True)
class Dilated(Visibility):
    """Positions whose distance is a multiple of `step`."""

    step: int
    sees_itself = True  # so no query is without a key
    relative = True  # depends on the distance alone, so it holds inside packed documents too

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j) % self.step == 0

    def __str__(self) -> str:
        return f"dilated({self.step})"


regard.register.visibility("dilated", Dilated)

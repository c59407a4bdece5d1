"""One vector for an image out of those of its tokens, and the starting values of models that read images.

    class       the vector of a learned token that stands in front        Dosovitskiy et al. 2021, as BERT's [CLS]
    mean        the mean of all cells
    sequence    a sum of all cells, weighted by a softmax of one learned score each      Hassani et al. 2021, section 3.2

Sequence pooling is attention with a learned query, so a probe records it like any other attention, under the name `pooling`.

Dims: B batch, M tokens, D width.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.model.attention import attend
from regard.model.init import initialise
from regard.model.pooling import LearnedQuery
from regard.model.visibility import full

ImagePooling = Literal["class", "mean", "sequence"]


class SequencePooling(LearnedQuery):
    """x_BD: cells weighted by softmax(u . x). The published layer has a bias too, which a softmax takes no notice of."""

    def __init__(self, width: int, *, name: str) -> None:
        super().__init__(width, name=name)
        self.keys = nn.Identity()  # type: ignore[assignment]

    def forward(self, x_BMD: Tensor) -> Tensor:  # type: ignore[override]
        batch, cells, _ = x_BMD.shape
        view = full.over(1, cells, batch=batch, device=x_BMD.device)
        q_B11D, x_B1MD = self.query_D.to(x_BMD.dtype).expand(batch, 1, 1, -1), x_BMD[:, None]
        return self.out(attend(self.probe, self.name, self.mixer, q_B11D, x_B1MD, x_B1MD, view, None, 0.0)[:, 0, 0])


def initialise_truncated(model: nn.Module, seed: int, deviation: float = 0.02) -> None:
    """Draw matrices, learned tokens and tables of positions from a normal distribution cut off at two deviations."""
    initialise(model, seed, deviation=deviation)  # norms, biases, convolutions and what mixers draw
    if all(parameter.is_meta for parameter in model.parameters()):
        return
    generator = torch.Generator().manual_seed(seed)
    bare = ("_token", "table_MD")
    drawn = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    drawn += [p for name, p in model.named_parameters() if name.endswith(bare)]
    for parameter in drawn:
        nn.init.trunc_normal_(parameter, std=deviation, a=-2 * deviation, b=2 * deviation, generator=generator)

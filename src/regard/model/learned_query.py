"""One vector for many, by attention with a learned query.

Yang et al. 2016, equations 5 to 7: u_t = tanh(W h_t + b), a_t = softmax(u_t . u), s = sum of a_t h_t. The vector u is learned as
any weight is; it stands for one question, what is informative here? To the seam this is a head with one query for all rows: keys
are u_t, values h_t, and the score a dot product.

Dims: B rows, M vectors of a row, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.model.attention import attend
from regard.model.layers import Linear
from regard.model.mixers.scores import Dot
from regard.model.probe import Probe
from regard.model.visibility import padding


class LearnedQuery(nn.Module):
    heads = 1

    def __init__(self, width: int, *, name: str) -> None:
        super().__init__()
        self.name, self.mixer = name, Dot()
        self.keys = Linear(width, width)
        self.query_D = nn.Parameter(torch.empty(width))
        self.out = nn.Identity()  # where an attention has its output projection
        self.probe: Probe | None = None

    def extra_repr(self) -> str:
        return f"D={len(self.query_D)}"

    def forward(self, x_BMD: Tensor, lengths_B: Tensor) -> Tensor:
        """x_BD; of each row the first lengths_B count."""
        batch, length, _ = x_BMD.shape
        keys_BMD = self.keys(x_BMD).tanh()
        view = padding(lengths_B).over(1, length, batch=batch, device=x_BMD.device)
        q_B11D = self.query_D.to(keys_BMD.dtype).expand(batch, 1, 1, -1)
        context_B11D = attend(self.probe, self.name, self.mixer, q_B11D, keys_BMD[:, None], x_BMD[:, None], view, None, 0.0)
        return self.out(context_B11D[:, 0, 0])

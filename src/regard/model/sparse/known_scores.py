"""Attention over scores that are known already, such as those that layers hand on: softmax(scores) V under a view."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.visibility import Full, View


def mix(scores_BHLM: Tensor, v_BHMK: Tensor, view: View, dropout: float) -> Tensor:
    """Return context_BHLK; that of a query without visible keys is zero."""
    if not isinstance(view.visibility, Full):
        view = view if view.mask is not None else view.rendered()
        if view.mask is not None:  # there is none on the meta device
            hides = view.mask.dtype == torch.bool
            scores_BHLM = scores_BHLM.masked_fill(~view.mask, -torch.inf) if hides else scores_BHLM + view.mask
    context_BHLK = F.dropout(scores_BHLM.softmax(-1), dropout).to(v_BHMK.dtype) @ v_BHMK
    return context_BHLK if view.fully_masked_rows is None else context_BHLK.masked_fill(view.fully_masked_rows, 0.0)

"""Weights that are known already: a query is a row of them.

For attention that was computed piece by piece, of which no query and key would say in one product what was looked at.
"""

from __future__ import annotations

from torch import Tensor

from regard.model.visibility import View


class Known:
    folds = None

    def mix(self, q_BHLM: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        return q_BHLM.to(v_BHMK.dtype) @ v_BHMK

    def weights(self, q_BHLM: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return q_BHLM

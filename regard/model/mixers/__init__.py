"""Mixers: how what is seen becomes an answer. Each has an explicit form that yields weights and a fast form tested against it."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from regard.model.mixers.softmax import Softmax
from regard.model.visibility import View


class Mixer(Protocol):
    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        """context_BHLK by the fastest kernel there is for this view on this device."""
        ...

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        """weights_BHLM, explicit: the definition, and what the probe shows."""
        ...


MIXERS: dict[str, Mixer] = {"softmax": Softmax()}

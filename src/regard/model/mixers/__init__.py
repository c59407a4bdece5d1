"""Mixers: attention weights from queries and keys, and values mixed by them. Each has a fast form tested against an explicit one.

Every attention builds its own mixer from the settings of its model, since some hold tensors. `conv` compares no pairs: it is a
sublayer in the place of self-attention (`convolution.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from regard.core.errors import UserError
from regard.model.mixers.causal_scan import RecurrentForm
from regard.model.mixers.feature_maps import PositiveFeatures, ReluFeatures
from regard.model.mixers.linear import Favor
from regard.model.mixers.scores import Additive, Bilinear, Dot
from regard.model.mixers.softmax import Softmax
from regard.model.sparse.probsparse import ProbSparse
from regard.model.visibility import View, Visibility
from regard.model.visibility.combine import plain

if TYPE_CHECKING:
    from regard.model.block import BlockConfig


class Mixer(Protocol):
    @property
    def recurrent_form(self) -> RecurrentForm | None:
        """The mixer itself, where running sums stand for all keys, as in linear attention; None where keys must be kept."""
        ...

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        """Return context_BHLK by the fastest kernel for this view on this device. Mixers with scores take a `bias` as well."""
        ...

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        """Return weights_BHLM, explicit: the definition, and what the probe shows. With scores, a `bias_BHLM` as well."""
        ...


def _score(name: str) -> Callable[[BlockConfig, str], Mixer]:
    return lambda config, _: SCORES[name](config.key_width)


SCORES: dict[str, Callable[[int], Mixer]] = {  # those that compare each query with each key, in heads of this width
    "softmax": lambda head_width: Softmax(),
    "dot": lambda head_width: Dot(),
    "bilinear": Bilinear,
    "additive": Additive,
}
LINEAR: dict[str, Callable[[BlockConfig, str], Mixer]] = {  # those that compare features, never single pairs
    "favor": lambda c, name: Favor(PositiveFeatures(c.key_width, c.feature_count, name, c.redraw_every)),
    "linear-relu": lambda config, name: Favor(ReluFeatures()),
}
CHOOSING: dict[str, Callable[[BlockConfig, str], Mixer]] = {  # those that compare some queries of a sequence with each key
    "probsparse": lambda c, name: Softmax() if name.endswith(".cross") else ProbSparse(c.sampling_factor, name),
}
MIXERS: dict[str, Callable[[BlockConfig, str], Mixer]] = {**{name: _score(name) for name in SCORES}, **LINEAR, **CHOOSING}


def check_mixer(config: BlockConfig) -> None:
    """Refuse an unknown mixer, and settings that do nothing with this one."""
    if config.mixer not in (names := (*MIXERS, "conv")):
        raise UserError(f"model.mixer={config.mixer!r} is not known; choose one of: {', '.join(names)}.")
    config.check_favor()
    config.check_probsparse()
    config.check_convolution(config.mixer, config.pruned)
    if config.attention_dropout and not config.scores:
        raise UserError(
            f"model.attention_dropout={config.attention_dropout} drops weights, and model.mixer={config.mixer} computes none; "
            "set it to 0."
        )
    if config.kv_heads not in (0, config.heads) and not config.scores:
        raise UserError(f"model.kv_heads={config.kv_heads} shares keys, and model.mixer={config.mixer} keeps none; leave it out.")


def check_visibility(config: BlockConfig, visibility: Visibility) -> None:
    if config.mixer not in SCORES and plain(visibility) is None:
        raise UserError(
            f"model.visibility={visibility} leaves out single pairs, which model.mixer={config.mixer} never compares; "
            "choose full or causal, or model.mixer=softmax."
        )

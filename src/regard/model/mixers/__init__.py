"""Mixers: how what is seen becomes an answer. Each has an explicit form that yields weights and a fast form tested against it.

Every attention builds its own from the settings of its model, since some hold tensors. `conv` is none of them: it compares
nothing, and takes an attention's place in the block (`convolution.py`); what its settings may be is said here with the others'.
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
from regard.model.visibility import View, Visibility
from regard.model.visibility.unmasked import plain

if TYPE_CHECKING:
    from regard.model.block import BlockConfig


class Mixer(Protocol):
    @property
    def folds(self) -> RecurrentForm | None:
        """Itself, where keys need not be kept for queries to come; None where every query looks at keys one by one."""
        ...

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        """context_BHLK by the fastest kernel there is for this view on this device."""
        ...

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        """weights_BHLM, explicit: the definition, and what the probe shows."""
        ...


def _favor(config: BlockConfig, name: str) -> Mixer:
    return Favor(PositiveFeatures(config.head_width, config.feature_count, name, config.redraw_every))


def _score(name: str) -> Callable[[BlockConfig, str], Mixer]:
    return lambda config, _: SCORES[name](config.head_width)


SCORES: dict[str, Callable[[int], Mixer]] = {  # those that compare each query with each key, in heads of this width
    "softmax": lambda head_width: Softmax(),
    "dot": lambda head_width: Dot(),
    "bilinear": Bilinear,
    "additive": Additive,
}
MIXERS: dict[str, Callable[[BlockConfig, str], Mixer]] = {  # for the attention of this name
    **{name: _score(name) for name in SCORES},
    "favor": _favor,
    "linear-relu": lambda config, name: Favor(ReluFeatures()),
}
CONVOLUTION = "conv"
FEATURES, KERNEL_WIDTH = 256, 7  # where a recipe says 0
CYCLE = 5  # layers of convolutions, each with neighbours further apart than the one below; then it begins anew
OF_ONE = {"features": "favor", "redraw_every": "favor", "kernel_width": CONVOLUTION, "dilation": CONVOLUTION}


def check_mixer(config: BlockConfig) -> None:
    """A setting that would do nothing is a mistake."""
    if config.mixer not in (names := (*MIXERS, CONVOLUTION)):
        raise UserError(f"model.mixer={config.mixer!r} is not known; choose one of: {', '.join(names)}.")
    for key, mixer in OF_ONE.items():
        if (value := getattr(config, key)) < 0:
            raise UserError(f"model.{key}={value} must be 0 or more.")
        if value and config.mixer != mixer:
            raise UserError(f"model.{key}={value} is for model.mixer={mixer}; with {config.mixer} it does nothing: leave it out.")
    if config.attention_dropout and config.mixer not in SCORES:
        raise UserError(
            f"model.attention_dropout={config.attention_dropout} drops weights, and model.mixer={config.mixer} computes none; "
            "set it to 0."
        )
    if config.kernel_width and config.kernel_width % 2 == 0:
        raise UserError(f"model.kernel_width={config.kernel_width} has no middle; give an odd number, such as {KERNEL_WIDTH}.")
    if config.mixer == CONVOLUTION and (gone := [entry for entry in config.pruned if ".self:" in entry]):
        raise UserError(f"model.pruned={gone[0]}: model.mixer={CONVOLUTION} has no heads there that look; leave it out.")


def check_visibility(config: BlockConfig, visibility: Visibility) -> None:
    if config.mixer not in SCORES and plain(visibility) is None:
        raise UserError(
            f"model.visibility={visibility} leaves out single pairs, which model.mixer={config.mixer} never looks at; "
            "choose full or causal, or model.mixer=softmax."
        )

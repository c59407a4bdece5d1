"""The search a recipe asks for, over any model's state."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.decode.beam import beam_search
from regard.decode.config import DecodeConfig
from regard.decode.greedy import greedy
from regard.decode.hypothesis import Hypothesis
from regard.model.state import State


def search(
    config: DecodeConfig, state: State, rows: int, *, sos: int, eos: int, maximum: Tensor, banned: Sequence[int]
) -> list[list[Hypothesis]]:
    """Per row of the state its n_best hypotheses, best first; greedy search has one."""
    minimum = config.minimum_length
    if config.search == "greedy":
        found = greedy(state, rows, sos=sos, eos=eos, maximum=maximum, minimum=minimum, banned=banned)
        return [[hypothesis] for hypothesis in found]
    return beam_search(
        state,
        rows,
        sos=sos,
        eos=eos,
        beam=config.beam,
        alpha=config.length_penalty,
        maximum=maximum,
        minimum=minimum,
        n_best=config.n_best,
        banned=banned,
    )

"""The search a recipe asks for, over whatever a model has read."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.decode.beam import beam_search
from regard.decode.config import DecodeConfig
from regard.decode.graph import Sessions
from regard.decode.greedy import greedy
from regard.decode.hypothesis import Hypothesis
from regard.model.state import Reading


def search(
    config: DecodeConfig,
    reading: Reading,
    rows: int,
    *,
    sos: int | Tensor,
    eos: int,
    maximum: Tensor | Sequence[int],
    banned: Sequence[int],
    sessions: Sessions | None = None,
) -> list[list[Hypothesis]]:
    """Per row of what was read its n_best hypotheses, best first; greedy search has one."""
    minimum = config.minimum_length
    if config.search == "greedy":
        found = greedy(reading, rows, sos=sos, eos=eos, maximum=maximum, minimum=minimum, banned=banned, sessions=sessions)
        return [[hypothesis] for hypothesis in found]
    return beam_search(
        reading,
        rows,
        sos=sos,
        eos=eos,
        beam=config.beam,
        alpha=config.length_penalty,
        maximum=maximum,
        minimum=minimum,
        n_best=config.n_best,
        banned=banned,
        sessions=sessions,
    )

"""The search a recipe asks for, over whatever a model has read."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.counted import counted
from regard.decode.beam import beam_search
from regard.decode.config import DecodeConfig
from regard.decode.graph import Sessions
from regard.decode.hypothesis import Hypothesis
from regard.decode.sample import sample
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
    banned_sequences: Sequence[Sequence[int]] = (),
    forced: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
    sessions: Sessions | None = None,
) -> list[list[Hypothesis]]:
    """Per row of what was read: its n_best hypotheses, best first; the one that greedy search has; or its samples.

    `numbers` says which prompt of all each row is, so that its samples are the same in whatever batch it comes; without, rows are
    counted from 0.
    """
    minimum = config.minimum_length
    if config.search == "beam":
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
            banned_sequences=banned_sequences,
            forced=forced,
            sessions=sessions,
        )
    found = sample(
        reading,
        rows,
        sos=sos,
        eos=eos,
        maximum=maximum,
        choice=config.choice,
        seeds=seeds(config, range(rows) if numbers is None else numbers),
        minimum=minimum,
        banned=banned,
        banned_sequences=banned_sequences,
        forced=forced,
        sessions=sessions,
    )
    return [found[first : first + config.samples] for first in range(0, len(found), config.samples)]


def seeds(config: DecodeConfig, numbers: Sequence[int]) -> list[int]:
    """Of every sample of every prompt; a prompt's are side by side."""
    return [counted(config.seed, "sample", number, nth) for number in numbers for nth in range(config.samples)]

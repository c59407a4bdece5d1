"""Sampling: the next token is drawn, as likely as the model says and a choice lets it be.

A text depends on its seed and on the model's scores, and on nothing else: not on its batch, its neighbours, their order, or on
whether its steps were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.choice import Choice
from regard.decode.graph import Sessions
from regard.decode.hypothesis import Hypothesis
from regard.decode.loop import find
from regard.decode.openings import openings
from regard.decode.rules import Listener, Rules
from regard.decode.single import Single
from regard.model.state import Reading


@torch.no_grad()
def sample(
    reading: Reading,
    rows: int,
    *,
    sos: int | Tensor,
    eos: int,
    maximum: Tensor | Sequence[int],
    choice: Choice,
    seeds: Sequence[int],
    minimum: int = 0,
    banned: Sequence[int] = (),
    banned_sequences: Sequence[Sequence[int]] = (),
    prompts: Sequence[Sequence[int]] | None = None,
    forced: Sequence[Sequence[int]] | None = None,
    sessions: Sessions | None = None,
    listener: Listener | None = None,
) -> list[Hypothesis]:
    """One hypothesis per seed. Log-probabilities are the model's own, as if nothing had been warmed or filtered.

    There are as many seeds as rows, or a multiple: then each row is sampled so often, and its texts come side by side. Repetition
    is penalised within the text and, where they are given, the `prompts`. All else is as in `greedy`.
    """
    sequences = tuple(map(tuple, banned_sequences))
    rules = Rules(eos=eos, banned=tuple(banned), banned_sequences=sequences, minimum=minimum, choice=choice)
    texts = openings(reading, rows, sos, maximum, prompts=prompts, forced=forced, seeds=seeds)
    return [found[0] for found in find(Single, rules, reading, texts, sessions, listener)]

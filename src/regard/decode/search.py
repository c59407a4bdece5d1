"""The search a recipe asks for, over whatever a model has read.

Greedy search: always the most probable next token.

Sampling: the next token is drawn, as likely as the model says and a choice lets it be.

A text depends on its seed and on the model's scores, and on nothing else: not on its batch, its neighbours, their order, or on
whether its steps were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.rng import derive_seed
from regard.decode.beam import beam_search
from regard.decode.config import DecodeConfig
from regard.decode.cuda_graphs import CapturedGraphs
from regard.decode.hypothesis import Hypothesis
from regard.decode.loop import find
from regard.decode.prompts import openings
from regard.decode.rules import Listener, Rules
from regard.decode.sampling_config import Choice
from regard.decode.single import Single
from regard.model.state.protocol import EncodedInput


def search(
    config: DecodeConfig,
    reading: EncodedInput,
    rows: int,
    *,
    sos: int | Tensor,
    eos: int,
    maximum: Tensor | Sequence[int],
    banned: Sequence[int],
    banned_sequences: Sequence[Sequence[int]] = (),
    forced: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
    sessions: CapturedGraphs | None = None,
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
    return [derive_seed(config.seed, "sample", number, nth) for number in numbers for nth in range(config.samples)]


@torch.no_grad()
def greedy(
    reading: EncodedInput,
    rows: int,
    *,
    sos: int | Tensor,
    eos: int,
    maximum: Tensor | Sequence[int],
    minimum: int = 0,
    banned: Sequence[int] = (),
    banned_sequences: Sequence[Sequence[int]] = (),
    prompts: Sequence[Sequence[int]] | None = None,
    forced: Sequence[Sequence[int]] | None = None,
    sessions: CapturedGraphs | None = None,
    listener: Listener | None = None,
) -> list[Hypothesis]:
    """One hypothesis per row of what was read, the one a beam of one finds; nothing is ranked, so its score is its logprob.

    `sos` is the first token, of all rows or of each; `maximum` limits each row's tokens, eos counted; a row ends after `minimum`
    tokens or more. Of equally probable tokens, the lower id is taken.

    `banned` tokens never come out, and the last token of a banned sequence never follows the others. Where `prompts` are given
    (whole: each ends with its row's first token), sequences may begin in them. Rows begin with the tokens that are `forced`,
    whatever is banned. With `sessions`, which belong to the model, steps are recorded and replayed. A `listener` hears what is
    written, and may stop it: see `loop.find`.
    """
    sequences = tuple(map(tuple, banned_sequences))
    rules = Rules(eos=eos, banned=tuple(banned), banned_sequences=sequences, minimum=minimum)
    texts = openings(reading, rows, sos, maximum, prompts=prompts, forced=forced)
    return [found[0] for found in find(Single, rules, reading, texts, sessions, listener)]


@torch.no_grad()
def sample(
    reading: EncodedInput,
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
    sessions: CapturedGraphs | None = None,
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

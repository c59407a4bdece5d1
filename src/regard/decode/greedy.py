"""Greedy search: always the most probable next token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.graph import Sessions
from regard.decode.hypothesis import Hypothesis
from regard.decode.loop import find
from regard.decode.openings import openings
from regard.decode.rules import Listener, Rules
from regard.decode.single import Single
from regard.model.state import Reading


@torch.no_grad()
def greedy(
    reading: Reading,
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
    sessions: Sessions | None = None,
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

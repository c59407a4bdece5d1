"""A subject: a model with one input, that can be run again and again, with heads gated, as several copies.

All that lens does is done to a subject. What a family reads, writes and is scored on is said once, where the subject is made
(`commands/subjects.py`), and no analysis asks for the family again.

Dims: B copies of the input, L output positions, V choices, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.model.probe import Probe, probe


@dataclass(frozen=True)
class TokenRow:
    """The tokens on one side of an attention, as people read them."""

    tokens: tuple[str, ...]  # pieces as shown
    ids: tuple[int, ...]
    words: tuple[int, ...]  # number of the word each token belongs to; sub-words of one word share it
    special: tuple[bool, ...]  # <sos>, <eos>, [CLS], [SEP], ...

    def __post_init__(self) -> None:
        if len({len(self.tokens), len(self.ids), len(self.words), len(self.special)}) > 1:
            raise ValueError(
                f"a row has {len(self.tokens)} tokens, {len(self.ids)} ids, {len(self.words)} words and {len(self.special)} "
                "special flags; it needs one of each for every token."
            )

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, part: slice) -> TokenRow:
        return TokenRow(self.tokens[part], self.ids[part], self.words[part], self.special[part])

    def __add__(self, other: TokenRow) -> TokenRow:
        """Concatenate two rows; no word continues from one into the other."""
        moved = tuple(word + 1 + max(self.words, default=-1) for word in other.words)
        return TokenRow(self.tokens + other.tokens, self.ids + other.ids, self.words + moved, self.special + other.special)


@dataclass(frozen=True)
class Subject:
    """A model with one input, that can be run again: with heads gated, as several copies at once."""

    model: nn.Module
    title: str  # for people: the text, or "source → translation"
    sides: Mapping[str, TokenRow]  # by stack: "encoder" and/or "decoder" (the first part of an attention's name)
    forward: Callable[[int], Tensor]  # logits_BLV of that many equal copies, differentiable, whatever gates or hooks are set
    targets_L: Tensor  # what each output position is scored on (ids or label numbers), IGNORED where nothing
    outputs: TokenRow | None  # the output positions as tokens where they are tokens; None for what is said of the whole text
    choices: Callable[[int], str]  # the name of an output number: a piece of the vocabulary, or a label
    head: Callable[[Tensor], Tensor] | None  # vocabulary logits of what a block leaves, a last norm of the stack included
    hidden: Callable[[int], Tensor] | None = None  # the same pass without the head: x_BLD of the stack that is asked
    nested: bool = False  # its attention reads one sentence at a time, so no matrix has all words of the text
    output_text: str | None = None  # the translation or caption that a model wrote itself, or that was given

    def around(self, name: str) -> tuple[TokenRow, TokenRow]:
        """Return the tokens of queries and keys of attention "decoder.2.cross" or "encoder.0.self"."""
        stack = name.partition(".")[0]
        if stack not in self.sides:
            raise KeyError(f"{name!r} is no attention of a model with {' and '.join(self.sides)}")
        return self.sides[stack], self.sides["encoder" if name.endswith(".cross") else stack]

    def nll(self, copies: int = 1) -> Tensor:
        """Return nll_B: mean negative log-likelihood of the targets, one number a copy."""
        scored = int((self.targets_L != IGNORED).sum())
        if not scored:
            raise UserError("there is nothing that this text could be scored on; give more of it, or what should follow it.")
        logits_BLV = self.forward(copies)
        targets_BL = self.targets_L.to(logits_BLV.device).expand(copies, -1)
        nll_BL = F.cross_entropy(logits_BLV.float().transpose(1, 2), targets_BL, ignore_index=IGNORED, reduction="none")
        return nll_BL.sum(1) / scored

    @torch.no_grad()
    def record(self, gates: Mapping[str, Tensor] | None = None) -> Probe:
        """Run one pass and return what a probe recorded; without logits if the body can be run alone."""
        if self.nested:
            raise UserError(
                "this model reads one sentence after the other, so there is no matrix between all words of the text; type "
                "'regard lens RUN TEXT' alone to see its words and sentences, or give --show integrated, gradients or ablation."
            )
        with probe(self.model, gates) as seen:
            (self.hidden or self.forward)(1)
        if not len(seen):
            raise UserError("this model has no attention to inspect; its gradients still say what each word did.")
        return seen

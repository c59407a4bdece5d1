"""A subject: a model with one input, that can be run again and again, with heads gated, as several copies.

All that lens does is done to a subject. What a family reads, writes and is scored on is said once, where the subject is made
(`commands/subjects.py`), and no analysis asks for the family again.

Its tokens are as people read them: each piece by its name, to which word it belongs, and whether it is a mark instead of text. A
word is what `text/offsets.py` calls one. A piece belongs to the word that its first letter stands in; one of white space alone,
to the word that follows it. Marks are words of their own.

Dims: B copies of the input, L output positions, V choices, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.model.probe import Probe, probe
from regard.text.offsets import word_places
from regard.text.tokenizer import Tokenizer


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

    @classmethod
    def typed(cls, tokenizer: Tokenizer, text: str) -> TokenRow:
        """Return the tokens of a text that was typed."""
        (placed,) = tokenizer.encode_placed([text])
        return cls.given(tokenizer, placed.ids, _words(text, placed.starts))

    @classmethod
    def written(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> TokenRow:
        """Return the tokens of a text that a model wrote.

        They need not be those that its text would be cut into, so each is found by the text that it adds.
        """
        text, ids = tokenizer.decode(ids), list(ids)
        starts, end = list[int](), 0
        for n in range(len(ids)):
            begin, end = end, max(end, min(len(tokenizer.decode(ids[: n + 1])), len(text)))
            added = text[begin:end]
            # A piece that adds nothing is a byte more of a letter that has begun.
            starts.append(begin + len(added) - len(added.lstrip()) if added else max(0, begin - 1))
        return cls.given(tokenizer, ids, _words(text, np.array(starts, np.int64)))

    @classmethod
    def given(cls, tokenizer: Tokenizer, ids: Sequence[int], words: Sequence[int]) -> TokenRow:
        """Pieces whose words are known."""
        roles = tokenizer.roles
        marks = tokenizer.specials - {roles.mask, roles.unk}  # which stand where a word stood
        return cls(tuple(tokenizer.tokens(ids)), tuple(ids), tuple(words), tuple(i in marks for i in ids))

    @classmethod
    def mark(cls, tokenizer: Tokenizer, *ids: int) -> TokenRow:
        """Marks by themselves: <eos>, [SEP]. A vocabulary may lend a piece of text for one, but here it is none."""
        return cls(tuple(tokenizer.tokens(ids)), ids, tuple(range(len(ids))), (True,) * len(ids))


def _words(text: str, starts: np.ndarray) -> list[int]:
    """Return the word number of pieces that begin at these characters, from 0 in the order of the text."""
    ends = np.array([word.end for word in word_places(text)], np.int64)
    found = np.searchsorted(ends, starts, side="right").tolist()
    numbers: dict[int, int] = {}
    return [numbers.setdefault(word, len(numbers)) for word in found]


@dataclass(frozen=True, eq=False)
class ImageTokens:
    """The tokens of a stack that are patches or pixels of an image, row by row, behind `first` that are none: class, start.

    Where an image is drawn, the token that asks for a pixel stands `ahead` of it: it is the pixel before.
    """

    image_YXC: np.ndarray  # bytes, as the model reads them
    rows: int
    columns: int
    first: int = 0
    reads: tuple[int, ...] = ()  # tokens whose vectors the head reads; none where it reads all patches
    tokens: int = 1  # of each patch: the colours of a pixel
    ahead: int = 0
    stack: str = "encoder"

    @property
    def count(self) -> int:
        return self.rows * self.columns

    @property
    def patch(self) -> tuple[float, float]:
        """Pixels that a patch is high and wide."""
        high, wide = self.image_YXC.shape[:2]
        return high / self.rows, wide / self.columns

    def token(self, row: int, column: int) -> int:
        """Return the token that attends for a patch, or that asks for a pixel; rows and columns from 0."""
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise UserError(
                f"there is no {self.unit} {row + 1},{column + 1}: this model reads {self.rows} rows and {self.columns} columns; "
                f"give a row from 1 to {self.rows} and a column from 1 to {self.columns}."
            )
        return self.first + (row * self.columns + column) * self.tokens - self.ahead

    @property
    def unit(self) -> str:
        return "pixel" if self.ahead else "patch"

    def on_grid(self, numbers_NT: np.ndarray) -> np.ndarray:
        """Return maps_NYX of numbers of all tokens: sums over the colours of a pixel, 0 where no token is."""
        end = self.first + self.count * self.tokens
        found = numbers_NT[:, self.first : end]
        found = np.pad(found, ((0, 0), (0, self.count * self.tokens - found.shape[1])))
        return np.asarray(found.reshape(len(found), self.rows, self.columns, self.tokens).sum(-1))


@dataclass(frozen=True, eq=False)
class SeriesTokens:
    """A window of a series in units, its forecast, and which times the tokens of a stack are."""

    channels: tuple[str, ...]
    channel: int  # the one that is drawn
    past_LC: np.ndarray
    forecast_HC: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None = None  # low_HC and high_HC
    share: str = ""  # of the values that the interval should hold
    actual_HC: np.ndarray | None = None  # what came, where it is known
    dates_M: np.ndarray | None = None
    spans: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By stack: the first time of each token and the one behind its last, from 0. Tokens of other stacks are channels."""

    @property
    def lookback(self) -> int:
        return len(self.past_LC)


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
    image: ImageTokens | None = None  # which tokens are patches of an image, if some are
    series: SeriesTokens | None = None  # which tokens are times of a series, or channels, if some are
    apart: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # sides of queries and keys that a name does not say

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of all stacks, one stack after the other."""
        return tuple(token for side in self.sides.values() for token in side.tokens)

    @property
    def stacks(self) -> tuple[str, ...]:
        """Which stack reads each of `tokens`."""
        return tuple(stack for stack, side in self.sides.items() for _ in side.tokens)

    def between(self, name: str) -> tuple[str, str]:
        """Return the sides of queries and keys of attention "decoder.2.cross" or "encoder.0.self"."""
        stack = name.partition(".")[0]
        found = self.apart.get(name) or (stack, "encoder" if name.endswith(".cross") else stack)
        if missing := [side for side in found if side not in self.sides]:
            raise KeyError(f"{name!r} is no attention of a model with {' and '.join(self.sides)}: {missing[0]} is not there")
        return found

    def around(self, name: str) -> tuple[TokenRow, TokenRow]:
        """Return the tokens of queries and keys of an attention."""
        queries, keys = self.between(name)
        return self.sides[queries], self.sides[keys]

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

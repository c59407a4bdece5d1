"""Likelihood of texts of any length: every token is scored exactly once, with the context that the window allows.

A text longer than the window is read in windows that move on by `stride` tokens. The first scores all its tokens; each later one
scores the `stride` tokens that are new, and the rest of it is context. A stride of the whole window is fastest and leaves the
first tokens of every window almost without context; a stride of 1 gives each token a full window. The first token of a text is
predicted from a start token, so nothing goes unscored. Every token goes into the sum, in float32, whatever the model's type.

Multiple choice by likelihood: the answer that the model finds most probable after the question.

Brown et al. 2020, section 2.4. Long answers are unlikely merely for being long, and common words likely after anything, so four
scores are in use, all larger where better: log p(answer | question) as it is; by token (GPT-3's default); by byte, which another
tokenizer leaves as it is; and less log p(answer | aside), what the answer is worth without the question.

Dims: B batch, L length, N scored tokens, D width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import exp, inf, log
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.model.embedding import VocabularyHead
from regard.objectives.chunked_cross_entropy import chunks

Ids = Sequence[int] | np.ndarray
TOKENS_PER_BATCH = 8192


class Reader(Protocol):
    """A causal model: hidden vectors, and a head that scores the vocabulary by them."""

    training: bool
    head: VocabularyHead

    def hidden(self, ids_BL: Tensor) -> Tensor: ...

    def train(self, mode: bool = True) -> Any: ...


@dataclass(frozen=True)
class Likelihood:
    """-log p of texts, and the units to divide it by: tokens depend on the tokenizer, bytes and words do not."""

    nats: float
    tokens: int
    bytes: int
    words: int

    def __post_init__(self) -> None:
        if min(self.tokens, self.bytes, self.words) < 1:
            found = f"{self.words} words, {self.bytes} bytes and {self.tokens} tokens"
            raise UserError(f"there is nothing to score in {found}; give at least one word.")

    @classmethod
    def of(cls, scores: Iterable[np.ndarray], texts: Iterable[str]) -> Likelihood:
        """Return the likelihood from log-probabilities of tokens and the texts; words are separated by spaces."""
        scores, texts = list(scores), list(texts)
        return cls(
            nats=-sum(float(score.sum(dtype=np.float64)) for score in scores),
            tokens=sum(map(len, scores)),
            bytes=sum(len(text.encode()) for text in texts),
            words=sum(len(text.split()) for text in texts),
        )

    @property
    def bits_per_byte(self) -> float:
        return self.nats / log(2) / self.bytes

    @property
    def bits_per_token(self) -> float:
        return self.nats / log(2) / self.tokens

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return _exp(self.nats / self.tokens)

    @property
    def word_perplexity(self) -> float:
        """Perplexity per word, which papers on word-level corpora report."""
        return _exp(self.nats / self.words)

    def as_dict(self) -> dict[str, float]:
        """Return the scores as JSON values."""
        names = ("perplexity", "word_perplexity", "bits_per_byte", "bits_per_token")
        return vars(self) | {name: getattr(self, name) for name in names}

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        return [
            f"perplexity       {self.perplexity:,.2f}  of {self.tokens:,} tokens",
            f"word perplexity  {self.word_perplexity:,.2f}  of {self.words:,} words",
            f"bits per byte    {self.bits_per_byte:.4f}  of {self.bytes:,} bytes",
        ]


def log_probabilities(
    model: Reader, texts: Sequence[Ids], *, start: int, window: int, stride: int, tokens_per_batch: int = TOKENS_PER_BATCH
) -> list[np.ndarray]:
    """Return log p of every token given those before it: one float32 array for each text."""
    if not 1 <= stride <= window:
        raise UserError(f"a stride of {stride} does not fit a window of {window}; give 1 to {window} (no overlap).")
    found = [np.empty(len(text), dtype=np.float32) for text in texts]
    for span, scores in score_spans(model, texts, list(spans(map(len, texts), window, stride)), start, tokens_per_batch):
        found[span.text][span.scored : span.end] = scores
    return found


class Span(NamedTuple):
    """A window on a text: tokens from `begin` to `end` are predicted, each from the one before it, and from `scored` on count."""

    text: int
    begin: int
    scored: int
    end: int


def spans(lengths: Iterable[int], window: int, stride: int) -> Iterator[Span]:
    for text, length in enumerate(lengths):
        scored = begin = 0
        while scored < length:
            end = min(begin + window, length)
            yield Span(text, begin, scored, end)
            scored, begin = end, begin + stride


@torch.no_grad()
def score_spans(
    model: Reader, texts: Sequence[Ids], windows: Sequence[Span], start: int, tokens_per_batch: int = TOKENS_PER_BATCH
) -> Iterator[tuple[Span, np.ndarray]]:
    """Yield the log-probabilities of the scored tokens of each window, the longest windows first; dropout is off meanwhile."""
    was_training = model.training
    model.train(False)
    try:
        for rows in _batches(windows, tokens_per_batch):
            yield from zip(rows, _score(model, texts, rows, start))
    finally:
        model.train(was_training)


def _batches(windows: Sequence[Span], tokens: int) -> Iterator[list[Span]]:
    """Yield windows of similar length together, with little padding."""
    ordered, done = sorted(windows, key=lambda span: span.begin - span.end), 0
    while done < len(ordered):
        size = max(1, tokens // (ordered[done].end - ordered[done].begin))
        yield ordered[done : done + size]
        done += size


def _score(model: Reader, texts: Sequence[Ids], rows: Sequence[Span], start: int) -> list[np.ndarray]:
    longest = max(span.end - span.begin for span in rows)
    ids = np.full((len(rows), longest + 1), start, dtype=np.int64)  # padding comes after all tokens, so no token attends to it
    scored = np.zeros((len(rows), longest), dtype=bool)
    for row, (text, begin, first, end) in enumerate(rows):
        ids[row, 1 if begin == 0 else 0 : end - begin + 1] = texts[text][max(0, begin - 1) : end]
        scored[row, first - begin : end - begin] = True
    device = model.head.project.weight.device
    ids_BL, scored_BL = torch.from_numpy(ids).to(device), torch.from_numpy(scored).to(device)
    x_ND, targets_N = model.hidden(ids_BL[:, :-1])[scored_BL], ids_BL[:, 1:][scored_BL]
    parts = [
        -F.cross_entropy(model.head(x_ND[begin:end]).float(), targets_N[begin:end], reduction="none")
        for begin, end in chunks(x_ND, len(model.head.project.weight))
    ]
    return np.split(torch.cat(parts).cpu().numpy(), np.cumsum(scored.sum(1))[:-1])


def _exp(nats: float) -> float:
    """Return exp, or infinity on overflow: a text without spaces is one very long word."""
    return exp(nats) if nats < 700 else inf


Scale = Literal["total", "per_token", "per_byte", "above_aside"]
SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True)
class Choice:
    """A score for every option, on every scale, in nats."""

    total: tuple[float, ...]
    per_token: tuple[float, ...]
    per_byte: tuple[float, ...]
    above_aside: tuple[float, ...]

    def best(self, scale: Scale = "per_byte") -> int:
        """Return the number of the most probable option; of equals, the first."""
        if scale not in SCALES:
            raise UserError(f"there is no scale {scale!r} for answers{nearest(scale, SCALES)}")
        return int(np.argmax(getattr(self, scale)))

    def as_dict(self) -> dict[str, list[float]]:
        """Return a dictionary for JSON."""
        return {name: list(scores) for name, scores in asdict(self).items()}


def choose(
    model: Reader,
    context_ids: Ids,
    options_ids: Sequence[Ids],
    options_bytes: Sequence[int],
    *,
    start: int,
    window: int,
    aside_ids: Ids = (),
) -> Choice:
    """Score all options in one batch, after the context and after the aside (such as "Answer:"; by default after nothing).

    A context too long for the window loses its beginning. An option carries its own leading space, if it has one.
    """
    _check(options_ids, options_bytes, window)
    rows: list[list[int]] = []
    windows: list[Span] = []
    for before in (context_ids, aside_ids):
        for option in options_ids:
            kept = before[max(0, len(before) - (window - len(option))) :]
            windows.append(Span(len(rows), 0, len(kept), len(kept) + len(option)))
            rows.append([*kept, *option])
    totals = np.empty(len(rows))
    for span, scores in score_spans(model, rows, windows, start, tokens_per_batch=len(rows) * max(map(len, rows))):
        totals[span.text] = scores.sum(dtype=np.float64)
    given, alone = np.split(totals, 2)
    tokens = np.array([len(option) for option in options_ids])
    scales = (given, given / tokens, given / np.array(options_bytes), given - alone)
    return Choice(*(tuple(scale.tolist()) for scale in scales))


def _check(options_ids: Sequence[Ids], options_bytes: Sequence[int], window: int) -> None:
    if not options_ids or len(options_ids) != len(options_bytes):
        raise UserError(f"{len(options_ids)} options came with {len(options_bytes)} lengths; give at least one option.")
    for number, (option, size) in enumerate(zip(options_ids, options_bytes), 1):
        if not len(option) or size < 1:
            raise UserError(f"option {number} is empty; give each option at least one character.")
        if len(option) > window:
            raise UserError(f"option {number} has {len(option):,} tokens, more than the window of {window:,}; shorten it.")

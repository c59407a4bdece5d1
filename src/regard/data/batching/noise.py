"""Noise over token ids, from which a model that reads and writes learns the text: eight kinds, each a pure function.

    kind               reads                            writes                       from
    span_corruption    text, a sentinel for each span   each sentinel and its span   T5 (Raffel et al. 2020, section 3.1.4)
    prefix_lm          the text up to a random place    the rest                     T5 (section 3.2.3)
    causal_lm          nothing                          the text
    masking            some tokens are <mask>           the text                     BART (Lewis et al. 2020, section 2.2)
    deletion           some tokens are left out         the text                     BART
    infilling          some spans are one <mask> each   the text                     BART
    permutation        its sentences in another order   the text                     BART
    rotation           it begins elsewhere              the text                     BART

Those of BART can be joined, `permutation+infilling`: each changes what the one before it left. A function takes the ids of one
passage without marks, and a generator that is seeded by the passage's number: the same passage of the same epoch always gets the
same noise, whenever a run was stopped. Exactly `rate` of the tokens are noise, rounded, at least one. With `mask_random`, a mask
is now and then a random word instead, each with this probability (0.1 in BART's public training), so that no token is sure.

Differs from the papers in: spans are of tokens, not of whole words (as in T5, other than in BART's code). T5's figure ends a
target with one more sentinel; its code does not, since a passage ends with a span, and so neither do we.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.rng import generator
from regard.text.tokenizer import Tokenizer

Ids = np.ndarray
LINE_END = "\u010a"  # in byte-level BPE
SENTENCE_END = re.compile(rf"[.!?\u2026\u3002\uff01\uff1f\n{LINE_END}]['\")\]\u2019\u201d\u00bb]*$")


class Noised(NamedTuple):
    """An input that a model reads, and the target that it learns to write."""

    input: Ids
    target: Ids


class NoiseIds(NamedTuple):
    """The tokens of a vocabulary that noise needs; None or empty where it has none."""

    mask: int | None
    sentinels: Ids  # in the order in which spans take them
    ends_sentence: np.ndarray  # for every id, whether a sentence ends with it
    words: Ids = np.zeros(0, np.int64)  # all but special tokens

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> NoiseIds:
        """Find them in a vocabulary: a piece ends a sentence if a full stop, ! or ? ends it, or a line end."""
        ends_sentence = np.zeros(len(tokenizer), bool)
        for piece, number in tokenizer.raw.get_vocab(with_added_tokens=True).items():
            ends_sentence[number] = number not in tokenizer.specials and SENTENCE_END.search(piece) is not None
        sentinels = np.array(tokenizer.sentinels(), np.int64)
        words = np.setdiff1d(np.arange(len(tokenizer)), [*tokenizer.specials, *sentinels])
        return cls(tokenizer.roles.mask, sentinels, ends_sentence, words)


def noise_count(length: int, rate: float) -> int:
    """Return how many of a passage's tokens are noise."""
    return min(length, max(1, round(length * rate)))


def span_counts(length: int, rate: float, mean_span: float) -> tuple[int, int]:
    """Return how many tokens of a passage are noise and in how many spans, at least one token of text before each."""
    noise = min(noise_count(length, rate), max(1, length - 1))
    return noise, max(1, min(round(noise / mean_span), noise, length - noise))


def passage_length(window: int, rate: float, mean_span: float) -> int:
    """Return the most tokens of a passage whose corrupted input, its end counted, has room in `window` tokens.

    Raffel et al. 2020, section 3.1.4: 512 tokens are read of a passage of 568, of which 15% are noise; its target has 114.
    """

    def read(length: int) -> int:
        noise, spans = span_counts(length, rate, mean_span)
        return length - noise + spans + 1

    length = window - 1
    while read(length + 1) <= window:
        length += 1
    return length


def parts(total: int, count: int, random: np.random.Generator) -> np.ndarray:
    """Return the lengths of `count` parts of at least one, together `total`; every way to cut is as likely."""
    cuts = np.sort(random.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def span_corruption(ids: Ids, random: np.random.Generator, sentinels: Ids, rate: float, mean_span: float) -> Noised:
    """Replace random spans by a sentinel each; the target is every sentinel followed by its span."""
    noise, spans = span_counts(len(ids), rate, mean_span)
    text = parts(len(ids) - noise, spans, random) if len(ids) > noise else np.zeros(1, np.int64)
    lengths = np.stack([text, parts(noise, spans, random)], 1).ravel()  # text, span, text, span, ...
    ends = np.cumsum(lengths)
    pieces = np.split(ids, ends[:-1])
    marks = sentinels[:spans, None]
    read = [part for piece, mark in zip(pieces[::2], marks) for part in (piece, mark)]
    written = [part for piece, mark in zip(pieces[1::2], marks) for part in (mark, piece)]
    return Noised(np.concatenate(read), np.concatenate(written))


def fill_spans(read: Ids, written: Ids, sentinels: Ids) -> Ids:
    """Put the spans of a target back where their sentinels stand; a sentinel without a span is left out."""
    number = {int(mark): n for n, mark in enumerate(sentinels)}
    spans, current = dict[int, list[int]](), -1
    for i in map(int, written):
        current = number.get(i, current)
        if i not in number and current >= 0:
            spans.setdefault(current, []).append(i)
    found = [spans.get(number[i], []) if i in number else [i] for i in map(int, read)]
    return np.array([i for span in found for i in span], np.int64)


def infilling(ids: Ids, random: np.random.Generator, mask: int, rate: float, mean_span: float) -> Noised:
    """Replace spans of Poisson-distributed lengths by one mask each; a span of length 0 is a mask put in.

    The last span is cut to the number of tokens that are noise. Between two spans stands a token of text at least, and no input
    is longer than its passage: where that leaves no room, the last spans become one.
    """
    noise = noise_count(len(ids), rate)
    lengths = list[int]()
    while (left := noise - sum(lengths)) > 0:
        lengths.append(min(left, int(random.poisson(mean_span))))
    while len(lengths) > min(noise, len(ids) - noise + 1):
        lengths[-2:] = [sum(lengths[-2:])]
    random.shuffle(lengths)
    gaps = np.sort(random.choice(len(ids) - noise + 1, len(lengths), replace=False))  # tokens of text before each span
    starts = gaps + np.cumsum([0, *lengths[:-1]])
    removed = np.zeros(len(ids), bool)
    for start, length in zip(starts, lengths):
        removed[start : start + length] = True
    return Noised(np.insert(ids[~removed], gaps, mask), ids)


def masking(ids: Ids, random: np.random.Generator, mask: int, rate: float) -> Noised:
    """Replace random tokens by a mask each."""
    changed = ids.copy()
    changed[random.choice(len(ids), noise_count(len(ids), rate), replace=False)] = mask
    return Noised(changed, ids)


def with_random_words(ids: Ids, random: np.random.Generator, mask: int, words: Ids, probability: float) -> Ids:
    """Replace each mask by a random word with this probability; every word is as likely."""
    masks = np.flatnonzero(ids == mask)
    chosen = masks[random.random(len(masks)) < probability]
    changed = ids.copy()
    changed[chosen] = random.choice(words, len(chosen))
    return changed


def deletion(ids: Ids, random: np.random.Generator, rate: float) -> Noised:
    """Leave out random tokens: what is missing, and where, is to be found out."""
    return Noised(np.delete(ids, random.choice(len(ids), noise_count(len(ids), rate), replace=False)), ids)


def sentences(ids: Ids, ends_sentence: np.ndarray) -> list[Ids]:
    """Cut after every token that ends a sentence and is not followed by another such."""
    ends = ends_sentence[ids]
    return [part for part in np.split(ids, np.flatnonzero(ends & ~np.append(ends[1:], True)) + 1) if len(part)]


def permutation(ids: Ids, random: np.random.Generator, ends_sentence: np.ndarray) -> Noised:
    """Shuffle the sentences."""
    found = sentences(ids, ends_sentence)
    return Noised(np.concatenate([found[n] for n in random.permutation(len(found))]), ids)


def rotation(ids: Ids, random: np.random.Generator) -> Noised:
    """Begin with a random token; what stood before it comes last."""
    return Noised(np.roll(ids, -int(random.integers(len(ids)))), ids)


def prefix_lm(ids: Ids, random: np.random.Generator) -> Noised:
    """Cut at a random place, of all places with a token on either side."""
    cut = int(random.integers(1, len(ids))) if len(ids) > 1 else 0
    return Noised(ids[:cut], ids[cut:])


def causal_lm(ids: Ids) -> Noised:
    return Noised(ids[:0], ids)


@dataclass(frozen=True)
class Noise:
    """Kinds of noise with their settings and the tokens they need."""

    kinds: tuple[str, ...]
    rate: float
    mean_span: float
    ids: NoiseIds
    seed: int
    mask_random: float = 0.0  # the probability that a word stands in place of a mask

    def __call__(self, ids: Ids, number: int) -> Noised:
        """Return the noised passage of this number."""
        read, written = ids, ids
        for kind in self.kinds:
            random = generator(self.seed, f"noise {kind}", number)
            read, written = KINDS[kind](self, read, random) if len(read) else (read, written)  # all may be deleted
        if self.mask_random and self.ids.mask is not None:
            random = generator(self.seed, "noise words", number)
            read = with_random_words(read, random, self.ids.mask, self.ids.words, self.mask_random)
        return Noised(read, written if self.kinds[0] in ALONE else ids)

    def target_length(self, length: int, number: int) -> int:
        """Return the number of tokens in the target of the passage of this number, which has `length` tokens."""
        if self.kinds == ("span_corruption",):
            return sum(span_counts(length, self.rate, self.mean_span))
        return len(self(np.zeros(length, np.int64), number).target) if self.kinds == ("prefix_lm",) else length

    def passage_length(self, window: int) -> int:
        """Return the most tokens of a passage that is read in `window` tokens, its end counted."""
        return passage_length(window, self.rate, self.mean_span) if "span_corruption" in self.kinds else window - 1

    def check(self, window: int) -> None:
        """Refuse a vocabulary that lacks tokens for passages of this window."""
        spans = span_counts(self.passage_length(window), self.rate, self.mean_span)[1]
        if "span_corruption" in self.kinds and spans > len(self.ids.sentinels):
            raise UserError(
                f"objective.noise=span_corruption needs {spans:,} sentinels for windows of {window:,} tokens, but the vocabulary "
                f"has {len(self.ids.sentinels):,} (<extra_id_0> and so on); lower data.window or raise objective.mean_span."
            )
        if self.ids.mask is None and {"masking", "infilling"} & set(self.kinds):
            raise UserError(
                f"objective.noise={'+'.join(self.kinds)} hides tokens behind <mask>, but the vocabulary has no such piece; "
                "choose another noise, or start from another vocabulary."
            )


def _masked(kind: Callable[..., Noised], *settings: str) -> Callable[[Noise, Ids, np.random.Generator], Noised]:
    return lambda noise, ids, random: kind(ids, random, noise.ids.mask, *(getattr(noise, setting) for setting in settings))


KINDS: Mapping[str, Callable[[Noise, Ids, np.random.Generator], Noised]] = {
    "span_corruption": lambda n, ids, random: span_corruption(ids, random, n.ids.sentinels, n.rate, n.mean_span),
    "prefix_lm": lambda n, ids, random: prefix_lm(ids, random),
    "causal_lm": lambda n, ids, random: causal_lm(ids),
    "masking": _masked(masking, "rate"),
    "deletion": lambda n, ids, random: deletion(ids, random, n.rate),
    "infilling": _masked(infilling, "rate", "mean_span"),
    "permutation": lambda n, ids, random: permutation(ids, random, n.ids.ends_sentence),
    "rotation": lambda n, ids, random: rotation(ids, random),
}
ALONE = ("span_corruption", "prefix_lm", "causal_lm")  # their targets are not the whole text


def parse_noise(text: str) -> tuple[str, ...]:
    """Return the kinds in `permutation+infilling`; refused if they are unknown or cannot be joined."""
    kinds = tuple(text.split("+"))
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"objective.noise={text}: {kind!r} is no kind of noise{nearest(kind, KINDS)}")
        if kinds.count(kind) > 1:
            raise UserError(f"objective.noise={text} has {kind} twice; leave one out.")
        if kind in ALONE and len(kinds) > 1:
            joined = ", ".join(other for other in KINDS if other not in ALONE)
            raise UserError(f"objective.noise={text}: {kind} has a target of its own; only {joined} can be joined.")
    return kinds

"""Formal languages that are hard for attention: parity and nested brackets. Hahn 2020; Bhattamishra et al. 2020.

    parity   1 0 1 1             odd        is the number of ones odd?
    dyck     ( [ ] ) ( )         balanced   does every bracket close the last one that is open?

Hahn shows that the weight of one symbol in what a head sees falls with the length of the text, while here every symbol decides.
Brackets that are not balanced are balanced ones with two symbols exchanged, so that counting them does not help.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.core.errors import UserError
from regard.data.lra.generate import Range, SequenceArrays

BITS, PARITIES = ("0", "1"), ("even", "odd")
OPENING, CLOSING = "([{<", ")]}>"
BRACKETS, BALANCED = tuple(OPENING + CLOSING), ("broken", "balanced")
AT_A_TIME = 1000
SHORT = Range(2, 40)
TRIES = 20  # to break a text by an exchange, before another is drawn


@dataclass(frozen=True, kw_only=True)
class Parity:
    length: Range = SHORT


@dataclass(frozen=True, kw_only=True)
class Dyck:
    length: Range = SHORT  # of which the even ones occur
    kinds: int = 2  # of brackets
    depth: int = 4  # brackets open at once, at the most

    def __post_init__(self) -> None:
        if not 1 <= self.kinds <= len(OPENING):
            raise UserError(f"dyck@kinds={self.kinds} must be from 1 to {len(OPENING)}, which are {OPENING}.")
        if self.depth < 1:
            raise UserError(f"dyck@depth={self.depth} must be at least 1.")
        if self.length.most < 4 or (self.length.least == self.length.most and self.length.most % 2):
            raise UserError(f"dyck@length={self.length} must reach an even length of 4 or more, such as 4-40.")


def draw_parity(settings: Parity, random: np.random.Generator) -> SequenceArrays:
    lengths = random.integers(settings.length.least, settings.length.most + 1, AT_A_TIME)
    flat = random.integers(0, 2, int(lengths.sum())).astype(np.uint8)
    return SequenceArrays(flat, lengths, np.add.reduceat(flat, np.cumsum(lengths) - lengths, dtype=np.int64) % 2)


def draw_dyck(settings: Dyck, random: np.random.Generator) -> SequenceArrays:
    halves = random.integers(-(-max(settings.length.least, 4) // 2), settings.length.most // 2 + 1, AT_A_TIME)
    texts, labels = list[np.ndarray](), list[int]()
    for half, label in zip(halves.tolist(), random.integers(0, 2, AT_A_TIME).tolist()):
        whole = _balanced(settings, half, random)
        text = whole if label else _broken(settings, whole, random)
        if text is not None:
            texts.append(text)
            labels.append(label)
    return SequenceArrays(np.concatenate(texts), np.array([len(text) for text in texts]), np.array(labels))


def _balanced(settings: Dyck, half: int, random: np.random.Generator) -> np.ndarray:
    """Return this many opening brackets with their closing ones; where both may come next, each has probability one half."""
    open_, text = list[int](), list[int]()
    coins, kinds = random.random(2 * half).tolist(), random.integers(0, settings.kinds, half).tolist()
    opened = 0
    for coin in coins:
        may_open, may_close = opened < half and len(open_) < settings.depth, bool(open_)
        if may_open and (coin < 0.5 or not may_close):
            open_.append(kinds[opened])
            text.append(open_[-1])
            opened += 1
        else:
            text.append(open_.pop() + len(OPENING))
    return np.array(text, np.uint8)


def _broken(settings: Dyck, text: np.ndarray, random: np.random.Generator) -> np.ndarray | None:
    for first, second in random.integers(0, len(text), (TRIES, 2)).tolist():
        other = text.copy()
        other[[first, second]] = other[[second, first]]
        if not balanced(other, settings.depth):
            return other
    return None


def balanced(text: np.ndarray, depth: int) -> bool:
    open_: list[int] = []
    for symbol in text.tolist():
        if symbol < len(OPENING):
            open_.append(symbol)
            if len(open_) > depth:
                return False
        elif not open_ or open_.pop() != symbol - len(OPENING):
            return False
    return not open_

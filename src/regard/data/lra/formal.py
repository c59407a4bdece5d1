"""Formal languages: parity, nested brackets, and nested lists of digits (ListOps). Hahn 2020; Bhattamishra et al. 2020.

    parity   1 0 1 1             odd        is the number of ones odd?
    dyck     ( [ ] ) ( )         balanced   does every bracket close the last one that is open?

Hahn shows that the weight of one symbol in what a head sees falls with the length of the text, while here every symbol decides.
Brackets that are not balanced are balanced ones with two symbols exchanged, so that counting them does not help.

    listops  [MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]  is  5     (Nangia & Bowman 2018; Tay et al. 2021, section 2.2.1)

MED is the median, rounded down; SM is the sum modulo 10. Each argument of a list is a list with a chance of one in four, down to
a depth of ten, else a digit; a list has two to ten arguments. Of all such trees those of 501 to 1,999 symbols are kept, the
brackets at their ends counted. Trees grow level by level, thousands at a time, in arrays: children of one list lie side by side
in the level below. Their values are worked out from the lowest level up, and where each symbol stands from the highest down.
Differs from the published generator in: it has a seed; a tree is never a lone digit (which is too short for the published range).

Dims: N nodes of a level, P lists among them, A most arguments of a list.
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


DIGITS, OPERATORS = tuple(map(str, range(10))), ("[MIN", "[MAX", "[MED", "[SM")
SYMBOLS = (*DIGITS, *OPERATORS, "]")
FIRST, END = 10, 14  # the numbers of the first operator and of the bracket
PUBLISHED = Range(501, 1999)
NESTED = 0.25  # the chance of an argument to be a list
TREES = 4000  # grown at a time
ABSENT = 99  # above all digits


@dataclass(frozen=True, kw_only=True)
class ListOps:
    length: Range = PUBLISHED  # symbols
    depth: int = 10  # levels, the digits' counted
    arguments: int = 10  # of a list, at most

    def __post_init__(self) -> None:
        if not 2 <= self.depth <= 30:
            raise UserError(f"listops@depth={self.depth} must be from 2 to 30; the published trees have 10.")
        if not 2 <= self.arguments <= 64:
            raise UserError(f"listops@arguments={self.arguments} must be from 2 to 64; the published lists have up to 10.")
        if self.length.least < 4 and self.length.most < 4:
            raise UserError(f"listops@length={self.length}: the shortest list, such as [MAX 1 2 ], has 4 symbols.")


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes at one depth, siblings side by side."""

    tree_N: np.ndarray
    what_N: np.ndarray  # the symbol: a digit or an operator
    arguments_N: np.ndarray  # 0 of a digit

    def kept(self, kept_N: np.ndarray) -> Level:
        return Level(self.tree_N[kept_N], self.what_N[kept_N], self.arguments_N[kept_N])


def draw_listops(settings: ListOps, random: np.random.Generator) -> SequenceArrays:
    levels, length = _grow(settings, random)
    fits = (length >= settings.length.least) & (length <= settings.length.most)
    levels = [kept for level in levels if len((kept := level.kept(fits[level.tree_N])).tree_N)]
    if not levels:
        return SequenceArrays.none()
    sizes, values = _work_out(levels, settings.arguments)
    return SequenceArrays(_written(levels, sizes), length[fits], values)


def _grow(settings: ListOps, random: np.random.Generator) -> tuple[list[Level], np.ndarray]:
    """Grow many trees level by level; return the levels and each tree's length. A tree that is too long stops growing."""
    length, tree_N = np.zeros(TREES, np.int64), np.arange(TREES)
    levels: list[Level] = []
    for depth in range(1, settings.depth + 1):
        listed_N = random.random(len(tree_N)) < (1.0 if depth == 1 else NESTED if depth < settings.depth else 0.0)
        operator_N, digit_N = random.integers(FIRST, END, len(tree_N)), random.integers(0, 10, len(tree_N))
        length += np.bincount(tree_N, 1 + listed_N, minlength=TREES).astype(np.int64)
        arguments_N = random.integers(2, settings.arguments + 1, len(tree_N)) * listed_N
        arguments_N[length[tree_N] > settings.length.most] = 0
        levels.append(Level(tree_N, np.where(listed_N, operator_N, digit_N).astype(np.uint8), arguments_N))
        tree_N = np.repeat(tree_N, arguments_N)
    return levels, length


def _work_out(levels: list[Level], most: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Compute the number of symbols below each node, itself counted, for every level, and the value of each tree."""
    sizes: list[np.ndarray] = []
    below_sizes = below_values = np.zeros(0, np.int64)
    for level in reversed(levels):
        size_N, value_N = np.ones(len(level.what_N), np.int64), level.what_N.astype(np.int64)
        lists = np.flatnonzero(level.arguments_N)
        if len(lists):
            arguments_P = level.arguments_N[lists]
            starts_P = np.cumsum(arguments_P) - arguments_P
            size_N[lists] = 2 + np.add.reduceat(below_sizes, starts_P)
            value_N[lists] = _values(level.what_N[lists], below_values, starts_P, arguments_P, most)
        below_sizes, below_values = size_N, value_N
        sizes.insert(0, size_N)
    return sizes, below_values


def _values(what_P: np.ndarray, below: np.ndarray, starts_P: np.ndarray, arguments_P: np.ndarray, most: int) -> np.ndarray:
    """Compute the value of each list from its arguments in rows, sorted, with ABSENT behind them."""
    place_A = np.arange(most)
    there_PA = place_A < arguments_P[:, None]
    given_PA = below[np.minimum(starts_P[:, None] + place_A, len(below) - 1)]
    sorted_PA = np.sort(np.where(there_PA, given_PA, ABSENT), 1)
    row = np.arange(len(what_P))
    middle_P = (sorted_PA[row, (arguments_P - 1) // 2] + sorted_PA[row, arguments_P // 2]) // 2
    sum_P = np.where(there_PA, given_PA, 0).sum(1) % 10
    return np.choose(what_P - FIRST, [sorted_PA[:, 0], sorted_PA[row, arguments_P - 1], middle_P, sum_P])


def _written(levels: list[Level], sizes: list[np.ndarray]) -> np.ndarray:
    """Write the symbols in reading order: a list's operator, its arguments one after the other, and the bracket."""
    flat = np.full(int(sizes[0].sum()), END, np.uint8)
    place_N = np.cumsum(sizes[0]) - sizes[0]
    for depth, level in enumerate(levels):
        flat[place_N] = level.what_N
        if depth + 1 < len(levels):
            arguments_P = level.arguments_N[level.arguments_N > 0]
            before_N = np.cumsum(sizes[depth + 1]) - sizes[depth + 1]  # symbols of all that stand before in this level
            first_P = before_N[np.cumsum(arguments_P) - arguments_P]
            place_N = np.repeat(place_N[level.arguments_N > 0] + 1 - first_P, arguments_P) + before_N
    return flat


def depths(flat: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the depth of nesting of each tree."""
    steps = np.where(flat == END, -1, np.where(flat >= FIRST, 1, 0))
    return np.maximum.reduceat(np.cumsum(steps), np.cumsum(lengths) - lengths)  # every tree ends where it began, at 0

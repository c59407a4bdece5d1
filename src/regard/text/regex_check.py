"""Check of regular expressions in foreign tokenizer files: only those with at most cubic backtracking are accepted.

Oniguruma, which the tokenizers library matches with, tries every way to match: `(a+)+$` takes twice as long for each further
letter, until the library panics after ten million steps, again at every place of the text. A pattern is accepted if

    only single characters and classes are repeated, never a group    `\\p{L}+`, `[\\r\\n]*`, also `(?i:'s|'t)?`; not `(a|b)+`
    at most two of them without a bound stand in one alternative      `[^\\s]+[\\r\\n]*`
    nothing else is in it than what this module reads                 no back-references, no calls of groups, no conditions

which is true of the patterns of GPT-2, GPT-4, Llama 3, Qwen, DeepSeek and BLOOM, and of our own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST = 100_000  # characters of a pattern: one that lists a thousand names of specials has some 30,000
DEEPEST = 10  # groups in groups, classes in classes
MOST_REPEATS = 2  # without a bound, in one alternative
MOST_TIMES = 1000  # in {m,n}; Oniguruma unrolls these
FEW_TIMES = 16  # {1,3} is no repeat that matters

GROUP = re.compile(r"\((\?([ims]*(-[ims]+)?:|[=!>]|<[=!]))?(?!\?)")
FLAGS = re.compile(r"\(\?[ims]*(-[ims]+)?\)")
ATOM = re.compile(
    r"\\[pP]\{\^?[\w ]{1,40}\}|\\x\{[0-9a-fA-F]{1,6}\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}"
    r"|\\[sSdDwWhHtnrfvbBAzZ]|\\\W|[^\\()\[|*+?]",
    re.S,
)
REPEAT = re.compile(r"([*+?]|\{(\d*)(,?)(\d*)\})[?+]?")
NO_WIDTH = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z")
AROUND = ("(?=", "(?!", "(?<=", "(?<!")


class Refused(Exception):
    """Why a pattern is not run, as the end of a sentence."""


class Part(NamedTuple):
    """A pattern or a part of one."""

    repeats: int  # without a bound, at most
    width: int  # characters that it stands for, at least
    end: int


def check_regex(pattern: str) -> int:
    """Return the least number of characters that the pattern matches; raise `Refused` if it could take too long."""
    if len(pattern) > LONGEST:
        raise Refused(f"it has more than {LONGEST:,} characters")
    whole = _alternatives(pattern, 0, 0)
    if whole.end < len(pattern):
        raise Refused("it has a bracket too many")
    if whole.repeats > MOST_REPEATS:
        raise Refused(f"it repeats more than {MOST_REPEATS} characters without a bound, one after the other")
    return whole.width


def _alternatives(pattern: str, at: int, depth: int) -> Part:
    """Parse alternatives up to the end of the group or of the pattern."""
    if depth > DEEPEST:
        raise Refused("its groups are nested too deep")
    found = [(0, 0)]
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            found.append((0, 0))
            at += 1
            continue
        item = _item(pattern, at, depth)
        found[-1], at = (found[-1][0] + item.repeats, found[-1][1] + item.width), item.end
    return Part(max(repeats for repeats, _ in found), min(width for _, width in found), at)


def _item(pattern: str, at: int, depth: int) -> Part:
    """Parse one character, class or group with its repeat."""
    if flags := FLAGS.match(pattern, at):
        return Part(0, 0, flags.end())
    is_group = pattern[at] == "("
    if is_group:
        part = _group(pattern, at, depth)
    elif pattern[at] == "[":
        part = Part(0, 1, _end_of_class(pattern, at))
    elif atom := ATOM.match(pattern, at):
        part = Part(0, int(atom[0] not in NO_WIDTH), atom.end())
    else:
        raise Refused("it has a sign that is not known here")
    said = REPEAT.match(pattern, part.end)
    return part if said is None else _repeated(part, said, is_group)


def _group(pattern: str, at: int, depth: int) -> Part:
    if not (begin := GROUP.match(pattern, at)):
        raise Refused("it has a kind of group that is not known here")
    inside = _alternatives(pattern, begin.end(), depth + 1)
    if inside.end == len(pattern):
        raise Refused("a group of it has no end")
    return Part(inside.repeats, 0 if begin[0] in AROUND else inside.width, inside.end + 1)


def _repeated(part: Part, said: re.Match[str], is_group: bool) -> Part:
    sign, least, comma, most = said.groups()
    if sign == "?":
        return Part(part.repeats, 0, said.end())
    times = [int(number[:9]) for number in (least, most) if number]
    if any(number > MOST_TIMES for number in times):
        raise Refused(f"it repeats something more than {MOST_TIMES:,} times")
    if is_group:
        raise Refused("it repeats a group, which can take for ever")
    bounded = sign[0] == "{" and times and (not comma or most) and times[-1] <= FEW_TIMES
    at_least = 1 if sign == "+" else int(least or 0)
    return Part(part.repeats + (not bounded), part.width * at_least, said.end())


def _end_of_class(pattern: str, at: int) -> int:
    """Return where [...] ends; classes may be nested."""
    depth = 0
    while at < len(pattern):
        letter = pattern[at]
        at += 2 if letter == "\\" else 1
        if letter == "[":
            depth += 1
            if pattern[at : at + 1] == "^":
                at += 1
            if pattern[at : at + 1] == "]":  # the first is a character
                at += 1
        if letter == "]":
            depth -= 1
        if depth == 0:
            return at
        if depth > DEEPEST:
            raise Refused("its classes are nested too deep")
    raise Refused("a class of it has no end")

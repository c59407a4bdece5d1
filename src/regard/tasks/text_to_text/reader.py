"""The files of text-to-text tasks, read: prefixes before inputs, numbers in steps, inputs cut to what a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.core.errors import UserError
from regard.data.sources.text_pairs import TextPair, read_text_pairs
from regard.metrics.text_to_text import number
from regard.runs.prepared import read_split
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer


class Cut(NamedTuple):
    ids: list[list[int]]
    cut: int  # how many inputs were longer


def read_files(recipe: Recipe, split: str) -> list[list[TextPair]]:
    """Return the pairs of each file of a split, with what stands before its inputs."""
    data = recipe.data

    def read(where: tuple[str, ...], limit: int | None) -> list[list[TextPair]]:
        prefixes = data.prefixes or ("",)
        prefixes = prefixes * len(where) if len(set(prefixes)) == 1 else prefixes
        found = [read_text_pairs(place, data.columns, data.references, limit) for place in where]
        return [[_prepared(pair, prefix, data.answers, data.step) for pair in pairs] for prefix, pairs in zip(prefixes, found)]

    return read_split(recipe, split, read)


def _prepared(pair: TextPair, prefix: str, answers: str, step: float) -> TextPair:
    targets = tuple(_in_steps(pair, text, step) for text in pair.targets) if answers == "numbers" else pair.targets
    return TextPair(with_prefix(prefix, pair.input), targets, pair.place)


def _in_steps(pair: TextPair, text: str, step: float) -> str:
    """Return a number as it is to be written: a multiple of `step`, with as many digits as that has."""
    value = number(text)
    if value is None:
        where = f"{pair.place}: " if pair.place else ""
        raise UserError(
            f"{where}the target {text[:40]!r} is no number, and data.answers=numbers; correct it, or set data.answers=text."
        )
    if not step:
        return text.strip()
    digits = len(f"{step:.10f}".rstrip("0").partition(".")[2])
    return f"{round(value / step) * step:.{digits}f}"


def with_prefix(prefix: str, text: str) -> str:
    """Return a text behind its prefix, with a space between; one that has it already stays as it is."""
    if not prefix or text.startswith(prefix):
        return text
    return f"{prefix}{'' if prefix[-1:].isspace() else ' '}{text}"


def typed_with_prefix(prefixes: Sequence[str], text: str) -> str:
    """Return a text as it was trained: behind the only prefix; of several, it must begin with one."""
    known = list(dict.fromkeys(prefixes))
    if len(known) < 2:
        return with_prefix(known[0] if known else "", text)
    if "" in known or any(prefix and text.startswith(prefix.rstrip()) for prefix in known):
        return text
    listed = ", ".join(repr(prefix) for prefix in known[:8])
    raise UserError(f"{text[:40]!r} begins with none of this model's prefixes, which say what to do; begin with one of {listed}.")


def encode_inputs(tokenizer: Tokenizer, texts: Sequence[str], room: int) -> Cut:
    """Return the ids of inputs, cut to `room` tokens."""
    rows = tokenizer.encode_batch(list(texts))
    return Cut([ids[:room] for ids in rows], sum(len(ids) > room for ids in rows))

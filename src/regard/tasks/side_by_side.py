"""`regard lens RUN,RUN,... --word WORD`: the uses of one word, as several models and tables of word vectors have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.word_vectors import is_vector_file
from regard.errors import UserError, nearest
from regard.lens.sense_maps import SenseMaps, sense_maps
from regard.lens.uses import Use, WordUses
from regard.tasks.lexicon import TASK, vectors_of
from regard.tasks.run import Run
from regard.tasks.table import is_public
from regard.tasks.uses import Found, read_uses


def several(name: str) -> list[str]:
    """Runs with commas between them; a folder that has one in its name is one run."""
    return [name] if Path(name).exists() else [part.strip() for part in name.split(",") if part.strip()]


def side_by_side(names: Sequence[str], word: str, found: Sequence[Found], layer: int | None, device: str | None) -> SenseMaps:
    """In this layer of each model that reads, the last where none is given; a table has one vector for all uses."""
    uses = [_static(name, word, found) if _is_static(name) else read_uses(name, word, found, device) for name in names]
    uses = [replace(each, model=_short(each.model)) for each in uses]
    if uses[0].senses is None:
        raise UserError(
            f"several models are compared by the senses of {word!r}: end each sentence in a tab and its sense there, with two "
            "senses or more, and two uses of one of them."
        )
    rows = [len(each.vectors) - 1 if layer is None or len(each.vectors) == 1 else 1 + layer for each in uses]
    for each, row in zip(uses, rows):
        if row >= len(each.vectors):
            last = len(each.vectors) - 2
            raise UserError(f"--layer {layer}: {each.model} has {last}; give a number from 0, its embedding, to {last}.")
    return sense_maps(uses, rows)


def _short(name: str) -> str:
    return Path(name).name or name


def _is_static(name: str) -> bool:
    return is_vector_file(name) or (not is_public(name) and Run.open(name).recipe.task.name == TASK)


def _static(name: str, word: str, found: Sequence[Found]) -> WordUses:
    vectors = vectors_of(name)
    known = word if word in vectors.numbers else word.lower()
    if known not in vectors.numbers:
        raise UserError(f"{name} has no vector for {word!r}{nearest(known, vectors.words)}")
    vector_D = vectors.vectors_VD[vectors.numbers[known]]
    uses = tuple(Use(use.sentence.text, *use.span, (known,), use.sentence.sense) for use in found)
    return WordUses(word, name, uses, (np.tile(vector_D, (len(uses), 1)),), np.array([np.nan]))

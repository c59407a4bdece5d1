"""`text.vectors`: a model's table of words begins with vectors that were learned before, of a run here or of a public file.

Words that have a vector get it, all scaled alike to be as long as those that are drawn; the others stay as drawn. Frozen ones
keep their vectors, whatever the rest learns: their rows get no gradient.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.data.sources.word_vectors import WordVectors
from regard.model.embedding import Embed
from regard.runs.folder import Say
from regard.tasks.word_vectors.predict import vectors_of
from regard.text.tokenizer import Tokenizer, whole_words

if TYPE_CHECKING:  # a model is opened without what trains one
    from regard.runs.prepared import Prepared


class Known(NamedTuple):
    rows_R: Tensor  # of the model's table
    vectors_RD: Tensor


def check_vectors(prepared: Prepared) -> None:
    """Refuse word vectors that cannot be used, before anything is written."""
    recipe = prepared.recipe
    if not recipe.text.vectors:
        if recipe.text.freeze_vectors:
            raise UserError("text.freeze_vectors=true freezes the vectors that text.vectors=FILE_OR_RUN names; give these too.")
        return
    for key, what in (("weight_decay", "would shrink them"), ("fsdp", "cuts their table up")):
        if recipe.text.freeze_vectors and getattr(recipe.train, key, 0):
            raise UserError(f"text.freeze_vectors=true keeps vectors as they are, and train.{key} {what}; leave one of them out.")
    if recipe.task.init_from:
        raise UserError(f"task.init_from={recipe.task.init_from} brings its own vectors; leave it out, or text.vectors.")
    for tokens, tokenizer in tables(prepared.model(), prepared):
        _must_fit(known_rows(tokenizer, recipe.text.vectors), tokens, recipe.text.vectors)


def fill_vectors(model: nn.Module, prepared: Prepared, say: Say) -> None:
    """Put them into every table of words that the model has."""
    text = prepared.recipe.text
    for tokens, tokenizer in tables(model, prepared):
        known = known_rows(tokenizer, text.vectors)
        _fill(tokens.weight, known, frozen=text.freeze_vectors)
        say(f"text.vectors: {len(known.rows_R):,} of {len(tokenizer):,} words begin with those of {text.vectors}")


def tables(model: nn.Module, prepared: Prepared) -> list[tuple[nn.Embedding, Tokenizer]]:
    """Each with the vocabulary whose words it holds: of two, the second is the target's. A tied table is there once."""
    source, *_, target = [each for each in prepared.vocabularies.values() if isinstance(each, Tokenizer)] * 2
    embeds = {name: part for name, part in model.named_modules() if isinstance(part, Embed)}
    found = {id(e.tokens.weight): (e.tokens, target if name.endswith("target") else source) for name, e in embeds.items()}
    return list(found.values())


def known_rows(tokenizer: Tokenizer, name: str) -> Known:
    """Return the ids of a vocabulary that have a vector there, and their vectors."""
    vectors = _read(name, _changed(name))
    places = [(i, vectors.numbers[word]) for i, word in enumerate(whole_words(tokenizer)) if word in vectors.numbers]
    if not places:
        raise UserError(
            f"text.vectors={name}: none of its {len(vectors):,} words, such as {vectors.words[0]!r}, is in this vocabulary; "
            "check the language, and text.lowercase."
        )
    rows, numbers = np.array(places).T
    return Known(torch.from_numpy(rows), torch.from_numpy(vectors.vectors_VD[numbers]))


def _must_fit(known: Known, tokens: nn.Embedding, name: str) -> None:
    if (width := known.vectors_RD.shape[1]) != tokens.embedding_dim:
        raise UserError(
            f"text.vectors={name}: its vectors are {width} wide, this model's words {tokens.embedding_dim}; set "
            f"model.width={width}, or train vectors of another width."
        )


@torch.no_grad()
def _fill(weight_VD: Tensor, known: Known, *, frozen: bool) -> None:
    length = known.vectors_RD.pow(2).mean().sqrt().clamp_min(1e-12)
    weight_VD[known.rows_R] = known.vectors_RD * (weight_VD.pow(2).mean().sqrt() / length)
    if frozen:
        learns_V1 = torch.ones(len(weight_VD), 1)
        learns_V1[known.rows_R] = 0
        weight_VD.register_hook(lambda gradient_VD: gradient_VD * learns_V1.to(gradient_VD))


@lru_cache(maxsize=1)  # it is checked first, used later
def _read(name: str, changed: tuple[int, ...]) -> WordVectors:
    return vectors_of(name)


def _changed(name: str) -> tuple[int, ...]:
    """Other than before, if the file or the run is."""
    path = Path(name)
    return tuple(each.stat().st_mtime_ns for each in ([path] if path.is_file() else sorted(path.rglob("*"))))

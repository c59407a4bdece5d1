"""The uses of a word, read by a model: found in sentences, spelled in its pieces, and the vector each has in every layer.

`regard lens RUN,RUN,... --word WORD`: the uses of one word, as several models and tables of word vectors have them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError, nearest
from regard.data.batching.pairs import pad
from regard.data.config import is_vector_file
from regard.data.sources.senses import Sentence, typed_sentences
from regard.decode.request import in_batches
from regard.lens.analyses.word_map import SenseMaps, sense_maps
from regard.lens.analyses.word_senses import Use, WordUses, mean_distance
from regard.runs.folder import Run
from regard.tasks.feature_encoder import Body, open_body
from regard.tasks.registry import is_public
from regard.tasks.word_vectors.predict import vectors_of
from regard.text.offsets import Span, occurrences

MOST_USES = 500  # each is compared with each
MOST_OTHERS = 1000  # words that are no use of this one, for comparison
LONGEST = 1024  # tokens that a model without an end of positions reads
BATCH = 4096  # tokens


class Found(NamedTuple):
    sentence: Sentence
    span: Span


class Spelling(NamedTuple):
    """A use as the model reads it."""

    ids: list[int]  # marks included
    places: list[int]  # of the word's pieces among them
    cut: bool  # the text is longer


def word_uses(run: str | Path, word: str, sentences: Sequence[str | tuple[str, str]], device: str | None = None) -> WordUses:
    """Return how far apart the uses of a word in these sentences are, in every layer of a run or a public checkpoint.

    With a sense beside each sentence, (sentence, sense), also whether uses of one sense are nearer than others.
    """
    return read_uses(run, word, find_uses(word, typed_sentences(sentences)), device)


def find_uses(word: str, sentences: Sequence[Sentence]) -> list[Found]:
    """Every occurrence; at least two, or there is nothing to compare."""
    word = _clean(word)
    found = [Found(sentence, span) for sentence in sentences for span in occurrences(word, sentence.text)]
    if not sentences:
        raise UserError("there are no sentences; give two or more that have the word.")
    if not found:
        there = {other for sentence in sentences for other in re.findall(r"\w+", sentence.text)}
        what = "the sentence" if len(sentences) == 1 else f"any of the {len(sentences):,} sentences"
        raise UserError(f"the word {word!r} is not in {what}{nearest(word, there)}")
    if len(found) == 1:
        raise UserError(f"the word {word!r} is used once only, in {found[0].sentence.place}; give another sentence that has it.")
    return found


def read_uses(run: str | Path, word: str, found: Sequence[Found], device: str | None = None) -> WordUses:
    return uses_in(open_body(run, device), word, found)


def uses_in(body: Body, word: str, found: Sequence[Found]) -> WordUses:
    """Return the uses of a word in a body that is open already."""
    word = _clean(word)
    shown = found[:MOST_USES]
    notes = [f"{len(found):,} uses were found; the first {MOST_USES} are compared"] if len(found) > len(shown) else []
    spellings = [_spelling(body, use) for use in shown]
    if cut := sum(spelling.cut for spelling in spellings):
        notes.append(f"{cut} stand in texts longer than {_room(body):,} tokens, of which that many around the word were read")
    vectors, others_L = _vectors(body, spellings)
    uses = [
        Use(use.sentence.text, *use.span, tuple(body.tokenizer.tokens([ids[n] for n in places])), use.sentence.sense)
        for use, (ids, places, _) in zip(shown, spellings)
    ]
    return WordUses(word, body.name, tuple(uses), vectors, others_L, tuple(notes))


def _clean(word: str) -> str:
    word = " ".join(unicodedata.normalize("NFC", word).split())
    if not word:
        raise UserError("the word is empty; give a word, such as --word bank.")
    return word


def _room(body: Body) -> int:
    return body.positions or LONGEST


def _spelling(body: Body, use: Found) -> Spelling:
    """Return a use as token ids; of a text longer than the model reads, the part around the word."""
    (written,) = body.tokenizer.encode_placed([use.sentence.text])
    pieces, word = written.pieces_of(*use.span), use.sentence.text[use.span.start : use.span.end]
    if pieces is None:
        raise UserError(f"{use.sentence.place}: {word!r} leaves no piece in this model's vocabulary; give another word.")
    first, last = pieces
    if body.tokenizer.roles.unk in written.ids[first : last + 1]:
        raise UserError(
            f"{use.sentence.place}: {word!r} is not in this model's vocabulary, which reads it like every word it does not know; "
            "give a word that it was trained on."
        )
    room, length = _room(body) - len(body.around([])), last + 1 - first
    if length > room:
        raise UserError(
            f"{use.sentence.place}: {word[:40]!r} is {length:,} tokens long, but this model reads {room:,} at a time."
        )
    begin = min(max(0, first - (room - length) // 2), max(0, len(written.ids) - room))
    places = [n - begin + len(body.before) for n in range(first, last + 1)]
    return Spelling(body.around(written.ids[begin : begin + room]), places, len(written.ids) > room)


@torch.no_grad()
def _vectors(body: Body, spellings: Sequence[Spelling]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return by layer, the static embedding first, a vector for each use, and how far apart other words are."""
    if body.layers is None:
        raise UserError(f"{body.name} is a recurrent network, which has no blocks to look between; give a model made of blocks.")
    others = _others(body, spellings)
    uses: list[dict[int, np.ndarray]] = []
    aside: list[list[np.ndarray]] = []
    for rows in in_batches([len(spelling.ids) for spelling in spellings], BATCH):
        ids_BL, lengths_B = (part.to(body.device) for part in pad([np.array(spellings[row].ids) for row in rows]))
        seen = [body.tokens(ids_BL), *body.layers(ids_BL, lengths_B)]
        uses, aside = uses or [{} for _ in seen], aside or [[] for _ in seen]
        for x_BLD, of_use, of_others in zip(seen, uses, aside):
            for x_LD, row in zip(x_BLD.float().cpu().numpy(), rows):
                of_use[row] = x_LD[spellings[row].places].mean(0)
                of_others += [x_LD[place] for place in others[row]]
    others_L = np.array([mean_distance(np.array(vectors)) for vectors in aside])
    return tuple(np.stack([vectors[row] for row in range(len(spellings))]) for vectors in uses), others_L


def _others(body: Body, spellings: Sequence[Spelling]) -> list[list[int]]:
    """Places of pieces that are not the word's, by row: each different piece once, where it stands first."""
    met = {spelling.ids[n] for spelling in spellings for n in spelling.places}
    chosen: list[list[int]] = []
    begin, end = len(body.before), len(body.after)
    taken = 0
    for spelling in spellings:
        new: dict[int, int] = {}
        for n in range(begin, len(spelling.ids) - end):
            if spelling.ids[n] not in met:
                new.setdefault(spelling.ids[n], n)
        chosen.append(list(new.values())[: MOST_OTHERS - taken])
        taken += len(chosen[-1])
        met |= new.keys()
    return chosen


def several(name: str) -> list[str]:
    """Runs with commas between them; a folder that has one in its name is one run."""
    return [name] if Path(name).exists() else [part.strip() for part in name.split(",") if part.strip()]


def side_by_side(names: Sequence[str], word: str, found: Sequence[Found], layer: int | None, device: str | None) -> SenseMaps:
    """Compare the uses of a word in one layer of several models, by default the last; word vectors have one for all uses."""
    uses = []
    for name in names:
        static = is_vector_file(name) or (not is_public(name) and Run.open(name).recipe.task.name == "word_vectors")
        each = _static(name, word, found) if static else read_uses(name, word, found, device)
        uses.append(replace(each, model=Path(each.model).name or each.model))
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


def _static(name: str, word: str, found: Sequence[Found]) -> WordUses:
    vectors = vectors_of(name)
    known = word if word in vectors.numbers else word.lower()
    if known not in vectors.numbers:
        raise UserError(f"{name} has no vector for {word!r}{nearest(known, vectors.words)}")
    vector_D = vectors.vectors_VD[vectors.numbers[known]]
    uses = tuple(Use(use.sentence.text, *use.span, (known,), use.sentence.sense) for use in found)
    return WordUses(word, name, uses, (np.tile(vector_D, (len(uses), 1)),), np.array([np.nan]))

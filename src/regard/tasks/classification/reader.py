"""Reader of a classifier: texts or pairs become ids between special tokens, and scores in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import print_stderr
from regard.data.batching.labelled import LabelledTexts, SpecialTokens, make_batch
from regard.data.batching.pairs import Ragged
from regard.data.lra import Sequences
from regard.data.sources.labelled import Example
from regard.decode.request import in_batches
from regard.families import marks_of
from regard.families.classifier import Classifier
from regard.runs.load import cut_of
from regard.runs.recipe import Recipe
from regard.text.offsets import sentences
from regard.text.tokenizer import Tokenizer

Text = str | tuple[str, str]  # or a pair of texts
Parts = tuple[str, ...]  # a text alone, or both of a pair
EITHER = 0  # texts at a time, where a model takes one as well as two
NOT_A_DOCUMENT = "model.family=han reads one text, sentence by sentence, but here are two; give data.columns=TEXT,LABEL."
NOT_A_PAIR = "model.pairs=apart reads two texts and compares them, but here is one alone; set model.pairs=joined."
CACHED = 1024  # tokens of a batch: with more, a CPU waits for its memory


@dataclass(frozen=True)
class Reader:
    """Encoder of texts into the ids that a model was trained on."""

    tokenizer: Tokenizer
    marks: SpecialTokens
    cut: int  # tokens that a text is cut to; 0: not cut
    room: int | None  # positions the model has; None where they do not end

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> Reader:
        return cls(tokenizer, marks_of(recipe.model, tokenizer.roles), cut_of(recipe), recipe.model.context)

    def encode(self, texts: Sequence[Parts], places: Sequence[str]) -> tuple[Ragged, np.ndarray, int]:
        """Ids with their marks, where second texts begin, how many were cut; one that does not fit is refused by its place."""
        if self.marks.apart and any(len(parts) != 2 for parts in texts):
            raise UserError(NOT_A_PAIR)
        if self.marks.sentences and any(len(parts) != 1 for parts in texts):
            raise UserError(NOT_A_DOCUMENT)
        rows, cut = self._spelled(texts), 0
        for ids, place in zip(rows, places):
            length = self.marks.length(ids)
            cut += 0 < self.cut < length
            if not self.cut and self.room is not None and length > self.room:
                raise UserError(
                    f"{place} is {length:,} tokens long, its marks counted, but the model has {self.room:,} positions; set "
                    f"data.maximum_tokens={self.room} to cut such texts, or take it out."
                )
        laid = [self.marks.around(ids, self.cut or self.marks.length(ids)) for ids in rows]
        return Ragged([ids for ids, _ in laid]), np.array([second for _, second in laid], np.int64), cut

    def _spelled(self, texts: Sequence[Parts]) -> list[list[list[int]]]:
        """The ids of every part of every text; of a document, those of its sentences with marks between them."""
        if not self.marks.sentences:
            pieces = iter(self.tokenizer.encode_batch([part for parts in texts for part in parts]))
            return [[next(pieces) for _ in parts] for parts in texts]
        split = [sentences(text) for (text,) in texts]
        pieces = iter(self.tokenizer.encode_batch([sentence for document in split for sentence in document]))
        joined = [[number for _ in document for number in (*next(pieces), self.marks.between)] for document in split]
        return [[ids[:-1]] for ids in joined]

    def encode_examples(self, examples: Sequence[Example], split: str) -> tuple[Ragged, np.ndarray, int]:
        """Encode examples; sequences of symbols are numbers already."""
        if isinstance(examples, Sequences):
            return self._renumbered(examples, split)
        return self.encode([e.texts for e in examples], [f"data.{split}: {e.place}" for e in examples])

    def _renumbered(self, examples: Sequences, split: str) -> tuple[Ragged, np.ndarray, int]:
        if self.marks.apart:
            raise UserError(NOT_A_PAIR)
        longest = int(examples.lengths.max()) + 2
        if not self.cut and self.room is not None and longest > self.room:
            raise UserError(
                f"data.{split}: {examples.where} has sequences of {longest:,} tokens, their marks counted, but the model has "
                f"{self.room:,} positions; raise model.maximum_length, or set data.maximum_tokens={self.room} to cut them."
            )
        most = (self.cut or longest) - 2
        made = examples.between(self._numbers_of(examples), self.marks.start, self.marks.end, most)
        return made, made.lengths, int((examples.lengths > most).sum())

    def _numbers_of(self, examples: Sequences) -> np.ndarray:
        found = self.tokenizer.encode_batch(examples.symbols)
        numbers = [ids[0] if len(ids) == 1 else self.tokenizer.roles.unk for ids in found]
        if self.tokenizer.roles.unk in numbers or len(set(numbers)) < len(numbers):
            raise UserError(
                f"{examples.where} has {len(numbers)} symbols, such as {examples.symbols[-1]!r}, and this vocabulary does not "
                f"know each by a number of its own; set text.tokenizer=spaced and text.size={len(numbers) + 5} or more."
            )
        return np.array(numbers, np.int32)


def scores(model: Classifier, reader: Reader, texts: Sequence[Parts], places: Sequence[str], budget: int) -> np.ndarray:
    """The model's, a row for each text in the order given; `budget` is the padded size of a batch."""
    return _scores(model, reader, reader.encode(texts, places), budget)


def scores_of_examples(model: Classifier, reader: Reader, examples: Sequence[Example], split: str, budget: int) -> np.ndarray:
    return _scores(model, reader, reader.encode_examples(examples, split), budget)


def _scores(model: Classifier, reader: Reader, encoded: tuple[Ragged, np.ndarray, int], budget: int) -> np.ndarray:
    ids, seconds, cut = encoded
    if cut:
        print_stderr(f"{cut:,} of {len(ids):,} texts were longer than data.maximum_tokens={reader.cut} and have been cut")
    return scores_of(model, LabelledTexts(ids, seconds, np.zeros(len(ids), np.int64), reader.marks.apart), budget)


@torch.no_grad()
def scores_of(model: Classifier, data: LabelledTexts, budget: int) -> np.ndarray:
    """Score texts that are encoded already."""
    found, device = np.zeros((len(data), model.classes.project.weight.shape[0])), next(model.parameters()).device
    for rows in in_batches(data.ids.lengths.tolist(), min(budget, CACHED) if device.type == "cpu" else budget):
        batch = make_batch(data, np.array(rows)).to(device)
        found[rows] = model(batch.ids_BL, batch.words, batch.segments_BL).double().cpu().numpy()
    return found


def in_parts(texts: Sequence[Text | Parts], expected: int) -> list[Parts]:
    """Each as a tuple, once it is what the model was trained on: `expected` texts at a time."""
    found = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    for given in found:
        if len(given) != expected and not (expected == EITHER and len(given) in (1, 2)):
            trained = "pairs of texts" if expected == 2 else "single texts"
            raise UserError(f"{given[0][:40]!r}: this model was trained on {trained}; give {expected}, not {len(given)}.")
    return found


def as_typed(text: str, expected: int) -> Text:
    """The texts of a pair have a tab between them."""
    first, tab, second = text.partition("\t")
    if expected == 1 or (expected == EITHER and not tab):
        return text
    if not (first.strip() and second.strip()):
        raise UserError(f"{text[:40]!r}: this model was trained on pairs of texts; put a tab between the two.")
    return first, second

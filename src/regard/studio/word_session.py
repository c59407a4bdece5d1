"""Opened word vectors as studio needs them: neighbours and analogies, and a sentence wherever a model would be needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from regard.core.errors import UserError
from regard.decode.beam_trace import SearchTree
from regard.lens.analyses.word_senses import WordUses
from regard.lens.subject import Subject
from regard.studio.session import Session, facts_of
from regard.studio.vocabulary import Vocabulary
from regard.tasks.word_vectors.predict import WordVectorModel

WHY = "these are word vectors, one for each word whatever stands around it: nothing is read and nothing attends; see Words."


@dataclass(frozen=True, eq=False)
class WordSession(Session):
    lexicon: WordVectorModel
    task: str
    weights: str

    @cached_property
    def model(self) -> nn.Embedding:
        """The table, as what asks for heads and parameters expects it."""
        return nn.Embedding.from_pretrained(torch.from_numpy(self.lexicon.vectors.vectors_VD).float())

    @property
    def facts(self) -> Mapping[str, str]:
        return facts_of(self.model, self.task, self.weights)

    @property
    def example(self) -> str:
        return self.lexicon.vectors.words[0]

    def vocabulary(self) -> Vocabulary:
        vectors, lower = self.lexicon.vectors, self.lexicon.lowercase
        return Vocabulary(
            encode=lambda word: [vectors.numbers.get(word.lower() if lower else word, -1)],
            piece=lambda i: vectors.words[i],
            unknown=-1,
            size=len(vectors.words),
            vectors_VD=self.model.weight,
            positions=lambda _: None,
            furthest=None,
        )

    def subject(self, text: str, target: str | None) -> Subject:
        raise UserError(WHY)

    def answer(self, text: str) -> str:
        raise UserError(WHY)

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        raise UserError(WHY)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError("these vectors are the same in every sentence, so a word's uses do not differ; see its neighbours.")

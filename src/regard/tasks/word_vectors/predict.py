"""Word vectors, ready to be asked: the nearest words, sums such as king - man + woman, scores on what people know of words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.batching.word_vectors import words_of
from regard.data.config import WordsDataConfig, is_vector_file
from regard.data.sources.word_vectors import Pairs, Questions, WordVectors, read_vectors
from regard.metrics.correlation import PairScores, score_pairs
from regard.metrics.word_analogies import AnalogyScores, Near, WordSpace, score_analogies, typed_sum
from regard.runs.folder import Run
from regard.runs.load import must_be_as_trained
from regard.runs.pretrained import VOCABULARY
from regard.runs.recipe import Recipe, build_recipe, parse_recipe
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class WordScores:
    """Scores on one test file or several."""

    scores: tuple[AnalogyScores | PairScores, ...]
    outputs: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return [line for score in self.scores for line in score.lines()]

    def as_dict(self) -> dict[str, Any]:
        return {"scores": [score.as_dict() for score in self.scores]}


@dataclass(eq=False)
class WordVectorModel:
    """`lowercase`: the text had been lowercased, so questions are."""

    vectors: WordVectors
    asking: WordsDataConfig
    lowercase: bool = False
    model: Any = None  # two tables are no module to look into
    tokenizer = None

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> WordVectorModel:
        must_be_as_trained(run, recipe)
        return cls(vectors_of_run(run), recipe.data, recipe.text.lowercase)

    @classmethod
    def of_file(cls, path: Path, assignments: Sequence[str] = ()) -> WordVectorModel:
        asking = file_recipe(path, assignments).data
        return cls(read_vectors(path, asking.limit), asking)

    @cached_property
    def space(self) -> WordSpace:
        return WordSpace(self.vectors)

    def __getitem__(self, word: str) -> np.ndarray:
        return self.vectors.vectors_VD[self.number(word)]

    def number(self, word: str) -> int:
        """Return the row of a word; an unknown word is refused, with the nearest spelling."""
        return self.space.number(self._written(word))

    def __call__(self, text: str) -> list[Near]:
        """The words nearest to a word or to a sum, best first."""
        asking = self.asking
        return self.space.nearest(
            typed_sum(self._written(text)),
            asking.nearest,
            by=asking.by,
            analogy=asking.analogy,
            exclude=asking.exclude,
        )

    def similarity(self, one: str, other: str) -> float:
        """The cosine of the angle between two words."""
        return float(self.space.unit_VD[self.number(one)] @ self.space.unit_VD[self.number(other)])

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A line for each text: the nearest words with their scores; an empty line for an empty one."""
        for text in texts:
            found = self(text) if text.strip() else []
            if as_json:
                near = [{"word": near.word, "score": round(near.score, 6)} for near in found]
                emit(json.dumps({"text": text, "nearest": near}, ensure_ascii=False) + "\n")
            else:
                emit("  ".join(f"{printable(near.word)} {near.score:.3f}" for near in found) + "\n")

    def evaluate(self, test: Sequence[Questions | Pairs]) -> WordScores:
        return WordScores(tuple(self._scored(each) for each in test))

    def _scored(self, test: Questions | Pairs) -> AnalogyScores | PairScores:
        if isinstance(test, Pairs):
            return score_pairs(self.space, test)
        asking = self.asking
        return score_analogies(self.space, test, analogy=asking.analogy, exclude=asking.exclude, restrict=asking.restrict)

    def _written(self, text: str) -> str:
        return text.lower() if self.lowercase else text


def vectors_of_run(run: Run) -> WordVectors:
    weights = run.weights().tensors("model")
    words = words_of(Tokenizer.load(run.folder / VOCABULARY))
    vectors = weights["words.weight"] + (weights["contexts.weight"] if run.recipe.objective.name == "glove" else 0)
    if len(words) != len(vectors):
        raise UserError(
            f"{run.folder} has {len(vectors):,} vectors and {len(words):,} words; its tokenizer.json is from another run. Copy "
            "the whole run again, or train it again."
        )
    return WordVectors(words, vectors.numpy())


def vectors_of(name: str) -> WordVectors:
    """Read the vectors of a run, or of a file in word2vec or GloVe format."""
    if is_vector_file(name):
        return read_vectors(Path(name))
    path = Path(name)
    if path.is_file():
        raise UserError(f"{name} is not called like a file of word vectors (.vec, .bin, .txt, also with .gz); rename it.")
    run = Run.open(path)
    if run.recipe.task.name != "word_vectors":
        raise UserError(f"{name} is a run for task {run.recipe.task.name}, not of word vectors; give one of these, or a file.")
    return vectors_of_run(run)


def file_recipe(path: Path, assignments: Sequence[str]) -> Recipe:
    """Return the recipe that a run of these vectors would have; only settings of its use can be set."""
    for assignment in assignments:
        if not assignment.strip().startswith("data."):
            raise UserError(f"{assignment}: {path} is a file of vectors, of which only data.KEY=VALUE can be set.")
    tables = parse_recipe("", str(path), assignments)
    tables["task"]["name"] = "word_vectors"
    return build_recipe(tables)

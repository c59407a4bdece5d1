"""Sentence vectors: a text in, one vector out, near those of texts that mean the same (Reimers & Gurevych 2019)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, print_stderr
from regard.decode.config import DecodeConfig
from regard.families import build_model
from regard.families.base import Heads
from regard.interop.huggingface.sentence_transformers import written_sentences
from regard.model.heads import VectorsConfig, text_vectors
from regard.runs.folder import Run, Say
from regard.runs.load import must_be_as_trained
from regard.runs.pretrained import InitCheckpoint, start_of_run
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.classification.reader import Reader
from regard.tasks.predictor import ReaderPredictor, each_with, open_model

BODY = Heads(words=False)


@dataclass
class Embedder(ReaderPredictor):
    model: Any
    reader: Reader
    vectors: VectorsConfig
    decode: DecodeConfig

    example = "the man went to the bank of the river"

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> Embedder:
        """Open the body of a checkpoint or of any run, whatever its heads were trained for.

        Vectors of a run may be pooled otherwise than before: nothing was trained for it.
        """
        if isinstance(source, Run):
            must_be_as_trained(source, replace(recipe, objective=source.recipe.objective))
            source = start_of_run(source)
        model, tokenizer = open_model(source, recipe, device, lambda size: build_model(recipe.model, vocabulary=size, heads=BODY))
        return cls(model, Reader.of(recipe, tokenizer), recipe.objective, recipe.decode)

    @torch.no_grad()
    def __call__(self, text: str | Sequence[str]) -> np.ndarray:
        """x_D of one text, or x_ND of many, in their order."""
        if isinstance(text, str):
            return self([text])[0]
        found = np.zeros((len(text), self.model.config.width), np.float32)
        if not len(text):
            return found
        ids, _, cut = self.reader.encode([(each,) for each in text], [repr(each[:40]) for each in text])
        if cut:
            print_stderr(
                f"{cut:,} of {len(text):,} texts were longer than data.maximum_tokens={self.reader.cut} and have been cut"
            )
        for rows, ids_BL, lengths_B in self.padded(ids, self.decode.batch_tokens):
            x_ND = text_vectors(self.model.hidden(ids_BL, lengths_B), lengths_B, self.vectors)
            found[rows] = x_ND.float().cpu().numpy()
        return found

    def similarity(self, a: str | Sequence[str], b: str | Sequence[str]) -> float | np.ndarray:
        """The cosine of the angle between the vectors of two texts; of every two, where a or b are many."""
        cosines = _unit(self(a)) @ _unit(self(b)).T
        return cosines if np.ndim(cosines) else float(cosines)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A JSON list for each text, an empty line for an empty one; or an object with the text and its vector."""
        for text, row in each_with(texts, self):
            numbers = "" if row is None else f"[{', '.join(map(str, row))}]"
            if as_json:
                emit(f'{{"text": {json.dumps(text, ensure_ascii=False)}, "vector": {numbers or "null"}}}\n')
            else:
                emit(f"{numbers}\n")

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self(list(texts))

    subject = lazy("regard.tasks.classification.inspect:of_embedder")

    def test_texts(self, test: object) -> Iterator[tuple[str, str | None]]:
        self.evaluate(test)  # which says that there are none

    def evaluate(self, test: object) -> NoReturn:
        raise UserError("vectors have no score of their own; fine-tune with a recipe for similarity to score a test set.")


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> NoReturn:
    raise UserError(
        "task.name=embedding is not trained: it takes the vectors of a body that is there already. Train another task, then run "
        "'regard predict RUN \"...\" task.name=embedding'."
    )


def read_test(recipe: Recipe) -> NoReturn:
    raise UserError("task.name=embedding has no test set: vectors have no score of their own; leave data.test out.")


def export_files(recipe: Recipe, config: Any) -> dict[str, str]:
    """Return the files that sentence-transformers reads beside a model."""
    return written_sentences(recipe.objective, config.width, recipe.data.maximum_tokens or config.maximum_length)

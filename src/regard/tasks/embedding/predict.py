"""Sentence vectors: a text in, one vector out, near those of texts that mean the same (Reimers & Gurevych 2019)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, aside
from regard.data.batching.pairs import padded
from regard.decode.batching import in_batches
from regard.decode.config import DecodeConfig
from regard.families.base import Heads
from regard.families.bodies import Body, body_of
from regard.families.vectors import VectorsConfig, text_vectors
from regard.runs.folder import Run
from regard.runs.load import must_be_as_trained, ready
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, start_of
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.classification.reader import Reader

BODY = Heads(words=False)


@dataclass
class Embedder:
    model: Body
    reader: Reader
    vectors: VectorsConfig
    decode: DecodeConfig

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Embedder:
        """Vectors may be pooled otherwise than before: nothing was trained for it."""
        must_be_as_trained(run, replace(recipe, objective=run.recipe.objective))
        return cls.of_start(start_of(str(run.folder)), recipe, device)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> Embedder:
        """The body of a checkpoint or of any run, whatever its heads were trained for."""
        model = body_of(recipe.model, start.vocabulary, heads=BODY)
        start.fill(model)
        model = ready(model, recipe.decode.weights, device)
        return cls(model, Reader.of(recipe, start.tokenizer), recipe.objective, recipe.decode)

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.reader.tokenizer}

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
            aside(f"{cut:,} of {len(text):,} texts were longer than data.maximum_tokens={self.reader.cut} and have been cut")
        device = next(self.model.parameters()).device
        for rows in in_batches(ids.lengths.tolist(), self.decode.batch_tokens):
            ids_BL, lengths_B = (part.to(device) for part in padded(*ids.take(np.array(rows))))
            x_ND = text_vectors(self.model.hidden(ids_BL, lengths_B), lengths_B, self.vectors)
            found[rows] = x_ND.float().cpu().numpy()
        return found

    def similarity(self, a: str | Sequence[str], b: str | Sequence[str]) -> float | np.ndarray:
        """The cosine of the angle between the vectors of two texts; of every two, where a or b are many."""
        cosines = _unit(self(a)) @ _unit(self(b)).T
        return cosines if np.ndim(cosines) else float(cosines)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A JSON list for each text, an empty line for an empty one; or an object with the text and its vector."""
        rows = iter(self([text for text in texts if text.strip()]))
        for text in texts:
            numbers = f"[{', '.join(map(str, next(rows)))}]" if text.strip() else ""
            if as_json:
                emit(f'{{"text": {json.dumps(text, ensure_ascii=False)}, "vector": {numbers or "null"}}}\n')
            else:
                emit(f"{numbers}\n")

    def evaluate(self, test: object) -> NoReturn:
        raise UserError("vectors have no score of their own; fine-tune with a recipe for similarity to score a test set.")


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)

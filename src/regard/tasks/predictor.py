"""The base of the predictors of all tasks: how a model is opened and reads in batches, what an evaluation returns.

The result of an evaluation has an output for each example of a test set, and their scores. Mistakes are listed, the worst first,
in a table in the run's folder that people can go through.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching.pairs import Ragged, pad_rows
from regard.decode.request import in_batches
from regard.metrics import PLUGIN_METRICS
from regard.runs.folder import Run
from regard.runs.load import load_model, must_be_as_trained, ready, vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint
from regard.runs.protocols import Result, Vocabulary
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer

Trained = TypeVar("Trained", bound=nn.Module)


def open_model(
    source: Run | InitCheckpoint,
    recipe: Recipe,
    device: torch.device,
    build: Callable[[int], Trained],
    part: str = "",
    head: str = "",
) -> tuple[Trained, Tokenizer]:
    """Open the model that `build` makes for the size of a vocabulary, ready to compute, and its tokenizer.

    A run is opened as it was trained; a checkpoint as it is, or a part of the model from it and a head.
    """
    if isinstance(source, Run):
        must_be_as_trained(source, recipe)
        tokenizer = Tokenizer.load(source.folder / VOCABULARY, foreign=True)
        model = load_model(source, lambda: build(vocabulary_of(recipe, tokenizer)))
    else:
        tokenizer, model = source.tokenizer, source.open(lambda: build(source.vocabulary), part, head)
    return ready(model, recipe.decode.weights, device), tokenizer


class TextPredictor:
    """A predictor with a model and a tokenizer; a subclass has fields for both."""

    model: Any
    tokenizer: Tokenizer

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """The vocabularies by the name of their file in the run."""
        return {VOCABULARY: self.tokenizer}

    def padded(self, ids: Ragged, budget: int) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Yield texts of similar length: which they are, ids_BL and lengths_B; `budget` is the padded size of a batch."""
        for rows in in_batches(ids.lengths.tolist(), budget):
            ids_BL, lengths_B = pad_rows(*ids.take(np.array(rows)))
            yield rows, ids_BL.to(self.device), lengths_B.to(self.device)


class ReaderPredictor(TextPredictor):
    """A predictor that encodes text by a `reader`."""

    reader: Any

    @property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        tokenizer: Tokenizer = self.reader.tokenizer
        return tokenizer


class Scores(Protocol):
    def lines(self) -> list[str]: ...

    def as_dict(self) -> dict[str, Any]: ...


Answer = TypeVar("Answer")
Of = TypeVar("Of", bound=Scores, covariant=True)


@dataclass(frozen=True)
class EvaluationResult(Generic[Of]):
    scores: Of
    outputs: list[str]
    mistakes: str = ""  # what was done with them, for people, where they are listed
    draw: Callable[[], bytes] | None = None  # a picture of them as a PNG file, where the task draws its scores

    def lines(self) -> list[str]:
        return [*self.scores.lines(), self.mistakes] if self.mistakes else self.scores.lines()

    def as_dict(self) -> dict[str, Any]:
        return self.scores.as_dict()


def each_with(texts: Sequence[str], answer: Callable[[list[str]], Iterable[Answer]]) -> Iterator[tuple[str, Answer | None]]:
    """Yield every text with its answer; None for an empty text, which no model reads."""
    answers = iter(answer([text for text in texts if text.strip()]))
    return ((text, next(answers) if text.strip() else None) for text in texts)


MISTAKES = "errors.tsv"


def list_mistakes(
    run: Run | None, order: str, header: Sequence[str], rows: Sequence[Sequence[str]], what: str = "mistakes"
) -> str:
    """List mistakes in the run's folder and return a line about that; `order` names their order, such as "the surest first"."""
    if run is None or not os.access(run.folder, os.W_OK):
        return f"{len(rows):,} {what}; not listed, since the run's folder cannot be written"
    table = [header, *(map(on_one_line, row) for row in rows)]
    run.write(MISTAKES, "".join("\t".join(row) + "\n" for row in table))
    return f"{len(rows):,} {what}, {order}: {run.folder / MISTAKES}"


def on_one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


@dataclass(frozen=True)
class WithPluginMetrics:
    """A result with the metrics of plugins added to it."""

    result: Result
    more: dict[str, float]

    @property
    def outputs(self) -> Sequence[str]:
        return self.result.outputs

    def lines(self) -> list[str]:
        return [*self.result.lines(), *(f"{name:<10} {score:.4g}" for name, score in self.more.items())]

    def as_dict(self) -> dict[str, Any]:
        return self.result.as_dict() | self.more


def with_plugin_metrics(result: Result, test: Any, task: str) -> Result:
    """Add what the registered metrics say about the outputs for a test set."""
    fitting = {name: metric for name, metric in PLUGIN_METRICS.items() if task in metric.tasks or not metric.tasks}
    more = {name: float(metric.score(result.outputs, test)) for name, metric in fitting.items() if result.outputs}
    return WithPluginMetrics(result, more) if more else result

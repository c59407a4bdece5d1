"""`PreparedTask`: what the prepared data of nearly every task has in common (see `runs.protocols.Prepared`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.valid_fraction import hint
from regard.families import family_of
from regard.families.base import MASKED_WORDS, Heads, Sizes
from regard.families.flops import Part
from regard.objectives.base import Loss, Objective
from regard.runs.load import vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, frozen, must_have_learned, start_of
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.corpus import Running, Text
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation
from regard.training.lora import adapt


class Measured(NamedTuple):
    """Losses on the validation data."""

    means: dict[str, float]  # of each part of the loss; `nll` among them
    found: Any = None  # what else a task needs to report on them


@dataclass(frozen=True, kw_only=True)
class PreparedTask:
    """A recipe and its data, read, checked and tokenized. A task adds its data, `build`, `measure` and `report`."""

    recipe: Recipe
    tokenizer: Tokenizer
    start: InitCheckpoint | None = None  # what training begins with; None once the run has weights of its own
    unit = "tokens"
    metric = "nll"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """Files of the run that its weights mean nothing without."""
        return {VOCABULARY: self.tokenizer}

    @property
    def vocabulary_size(self) -> int:
        return self.start.vocabulary if self.start else vocabulary_of(self.recipe, self.tokenizer)

    def build(self, seed: int) -> nn.Module:
        """Build the model with random weights."""
        raise NotImplementedError

    def begin(self, model: nn.Module) -> None:
        """Replace random weights by those of `task.init_from`."""
        if self.start is not None:
            self.start.fill(model)

    def model(self) -> nn.Module:
        model = self.build(self.recipe.train.seed)
        self.begin(model)
        adapt(model, self.recipe.train)
        if self.recipe.train.lora and self.start is not None:
            must_have_learned(self.start, model)
        return frozen(model, self.recipe.task)

    def count(self, tokens: int, heads: Heads = MASKED_WORDS, scored: int | None = None) -> Part:
        """Return the model as a tree with the operations of one text of this many tokens."""
        sizes = Sizes(vocabulary=self.vocabulary_size, heads=heads)
        return family_of(self.recipe.model).count(self.recipe.model, sizes, tokens, scored=scored)

    def valid_batches(self) -> Any:
        """Return the validation data as `measure` takes it: by default an iterable of batches."""
        raise NotImplementedError

    def measure(self, model: nn.Module, objective: Objective, batches: Any) -> Measured:
        """Return the mean losses on the validation batches."""
        return Measured(mean_losses(losses_of(model, objective, batches)))

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Return the figures of validation and a few sample outputs."""
        return Validation(measured.means, [])

    def validator(self, objective: Objective) -> Callable[[nn.Module], Validation]:
        batches = self.valid_batches()

        @torch.no_grad()
        def validate(model: nn.Module) -> Validation:
            measured = self.measure(model, objective, batches)
            if not np.isfinite(measured.means["nll"]):
                return Validation({"nll": measured.means["nll"]}, [])  # broken weights cannot decode
            return self.report(model, measured)

        return validate


def losses_of(model: nn.Module, objective: Objective, batches: Iterable[Any]) -> Iterator[Loss]:
    device = next(model.parameters()).device
    return (objective(model, batch.to(device)) for batch in batches)


def mean_losses(losses: Iterable[Loss]) -> dict[str, float]:
    """Return the mean of each part of these losses, `nll` being the total where it is not a part."""
    sums, count = dict[str, float](), 0
    for loss in losses:
        parts = {"nll": loss.total, **loss.parts}
        sums = {name: sums.get(name, 0.0) + part.item() for name, part in parts.items()}
        count += loss.count
    return {name: total / count for name, total in sums.items()}


def with_perplexity(means: Mapping[str, float]) -> dict[str, float]:
    """Return the negative log-likelihood and its exponential."""
    return {"nll": means["nll"], "perplexity": perplexity(means["nll"])}


def perplexity(nll: float) -> float:
    return float(np.exp(min(nll, 50.0)))


def start_to_train(recipe: Recipe, folder: Path | None) -> InitCheckpoint | None:
    """Return the checkpoint of `task.init_from`; None where there is none, or where the run has begun."""
    begun = folder is not None and (folder / VOCABULARY).exists()
    return start_of(recipe.task.init_from) if recipe.task.init_from and not begun else None


@contextmanager
def reading(split: str) -> Iterator[None]:
    """Name the split in what is refused while its data is read."""
    try:
        yield
    except UserError as error:
        raise UserError(f"data.{split}: {error}{hint(split, error)}") from None


@dataclass(frozen=True, kw_only=True)
class RunningText(PreparedTask):
    """Running text, of which a part is for validation."""

    train: Text
    valid: Text
    test: Any = None

    @classmethod
    def of(cls, recipe: Recipe, running: Running, test: Any) -> Self:
        tokenizer, train, valid, start = running
        return cls(recipe=recipe, tokenizer=tokenizer, train=train, valid=valid, test=test, start=start)

    def amounts(self) -> dict[str, str]:
        return {"train": self.train.amount, "valid": self.valid.amount}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.sha256, "valid": self.valid.sha256}

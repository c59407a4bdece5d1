"""`Prepared`: a recipe and its data, read, checked and numbered: all that a training needs. Nothing has been written.

Training, resuming, the cost ledger and the model card are written once, against this class; a task adds its data and what is done
with it. And what reading the data of nearly every task has in common.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.config import hint, split_valid
from regard.data.loader import Source
from regard.families import family_of
from regard.families.base import MASKED_WORDS, Heads, Sizes
from regard.families.flops import Part
from regard.objectives import make_objective
from regard.objectives.base import Loss, Objective
from regard.runs.folder import Say
from regard.runs.load import vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, frozen, must_have_learned
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation
from regard.training.lora import adapt

T = TypeVar("T")


class Measured(NamedTuple):
    """Losses on the validation data."""

    means: dict[str, float]  # of each part of the loss; `nll` among them
    found: Any = None  # what else a task needs to report on them


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A recipe and its data. A task adds `build`, `source`, `valid_batches` and `example`, and often `measure` and `report`."""

    recipe: Recipe
    train: Any
    valid: Any
    test: Any = None  # the test set; None or empty where there is none
    start: InitCheckpoint | None = None  # what training begins with; None once the run has weights of its own
    unit = "tokens"  # that the loss is a mean over
    examples = "texts"  # that the training data is counted in
    metric = "nll"  # the figure of validation that says which weights are best, where train.best=auto; of the loss it is "nll"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """Files of the run that its weights mean nothing without."""
        return {}

    def build(self, seed: int) -> nn.Module:
        """Build the model with random weights."""
        raise NotImplementedError

    def begin(self, model: nn.Module) -> None:
        """Replace random weights by those of `task.init_from`."""
        if self.start is not None:
            self.start.fill(model)

    def model(self) -> nn.Module:
        """Return the model as training begins with it."""
        model = self.build(self.recipe.train.seed)
        self.begin(model)
        adapt(model, self.recipe.train)
        if self.recipe.train.lora and self.start is not None:
            must_have_learned(self.start, model)
        return frozen(model, self.recipe.task)

    def objective(self) -> Objective:
        """Build the objective from its settings, a plugin's among them."""
        return make_objective(self.recipe.objective)

    def amounts(self) -> dict[str, str]:
        """Describe the amounts of training and validation data."""
        return {split: f"{len(data):,} {self.examples}" for split, data in (("train", self.train), ("valid", self.valid))}

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data: another validation set would give losses that cannot be compared."""
        return {"train": self.train.digest(), "valid": self.valid.digest()}

    def source(self, *, packed: bool) -> Source:
        """Return the source of training batches."""
        raise NotImplementedError

    def example(self) -> tuple[Part, int]:
        """Return the model's parts for one typical example, and how much of the unit that is."""
        raise NotImplementedError

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


@dataclass(frozen=True, kw_only=True)
class PreparedText(Prepared):
    """The same of tasks that read text, by a tokenizer."""

    tokenizer: Tokenizer

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.tokenizer}

    @property
    def vocabulary_size(self) -> int:
        return self.start.vocabulary if self.start else vocabulary_of(self.recipe, self.tokenizer)

    def count(self, tokens: int, heads: Heads = MASKED_WORDS, scored: int | None = None) -> Part:
        """Return the model as a tree with the operations of one text of this many tokens."""
        sizes = Sizes(vocabulary=self.vocabulary_size, heads=heads)
        return family_of(self.recipe.model).count(self.recipe.model, sizes, tokens, scored=scored)


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


def read_split(recipe: Recipe, split: str, read: Callable[[tuple[str, ...], int | None], T], expected: str = "") -> T:
    """Read the files of a split, of training no more than data.limit; what is refused meanwhile names the split.

    `read` takes the files and the most examples to return. `expected` says what to give where there are no files.
    """
    data, where = recipe.data, getattr(recipe.data, split)
    if expected and not where:
        raise UserError(f"data.{split} is empty; give {expected}.{hint(split)}")
    try:
        return read(where, data.limit or None if split == "train" else None)
    except UserError as error:
        raise UserError(f"data.{split}: {error}{hint(split, error)}") from None


def train_and_valid(
    recipe: Recipe, train: Sequence[T], read: Callable[[Recipe, str], Sequence[T]], group: Callable[[T], Hashable], what: str
) -> tuple[Sequence[T], Sequence[T]]:
    """Read validation data, or hold a share of training out; examples of one group are then on one side."""
    if recipe.data.valid or not recipe.data.valid_fraction:
        return train, read(recipe, "valid")
    return split_valid(train, group, recipe.data.valid_fraction, what)


def warn_of_overlap(train: Iterable[Hashable], test: Sequence[Hashable], what: str, say: Say) -> None:
    """Warn of test examples that are also training examples: a score over those is no evidence of learning."""
    seen = set(train)
    if shared := sum(example in seen for example in test):
        say(f"warning: {shared} of {len(test)} test {what} are also in train, so the score will flatter.")

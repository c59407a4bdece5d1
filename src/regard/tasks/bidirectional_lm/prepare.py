"""Prepare running text for two networks that predict it, one the next word, the other the previous one.

The trained model is then used by other tasks: `task.init_from=runs/elmo` in classification and tagging, `task.name=embedding` for
vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from regard.core.errors import UserError
from regard.data.batching.windows import Windows
from regard.families.elmo import ELMo
from regard.families.flops import Part
from regard.objectives.base import Objective
from regard.objectives.causal_lm import BidirectionalLMLoss
from regard.runs.folder import Say
from regard.runs.load import window_of
from regard.runs.recipe import Recipe
from regard.tasks.corpus import Text, read_running
from regard.tasks.language_model.prepare import must_be_enough, read_test
from regard.tasks.prepared import Measured, RunningText, losses_of, mean_losses, perplexity
from regard.training.loop import Validation

PARTS = ("ahead", "back")


@dataclass(frozen=True, kw_only=True)
class ReadText(RunningText):
    """Running text for two networks, one for each direction."""

    def build(self, seed: int) -> ELMo:
        return ELMo(self.recipe.model, self.vocabulary_size, seed)

    def objective(self) -> BidirectionalLMLoss:
        return BidirectionalLMLoss()

    def source(self, *, packed: bool) -> Windows:
        return self._windows(self.train)

    def _windows(self, text: Text) -> Windows:
        train = self.recipe.train
        return Windows(text.ids, window_of(self.recipe), train.tokens_per_batch, train.seed, text.starts)

    def valid_batches(self) -> Windows:
        return self._windows(self.valid)

    def measure(self, model: nn.Module, objective: Objective, batches: Windows) -> Measured:
        return Measured(mean_losses(losses_of(model, objective, batches.in_order())))

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss on the validation text, and the perplexity of each direction."""
        means = measured.means
        return Validation({"nll": means["nll"], **{f"{part}_perplexity": perplexity(means[part]) for part in PARTS}}, [])

    def example(self) -> tuple[Part, int]:
        window = window_of(self.recipe)
        return self.count(window), window


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> ReadText:
    if recipe.data.document_mask:
        raise UserError(
            "data.document_mask=true keeps documents that share a window apart, but a recurrent network carries one word to the "
            "next; set data.document_mask=false: an end token tells it where a document ends."
        )
    test = read_test(recipe) if recipe.data.test else None
    window = window_of(recipe)
    running = read_running(recipe, folder, say, ended=True)
    must_be_enough(recipe, running.train, running.valid, window)
    return ReadText.of(recipe, running, test)

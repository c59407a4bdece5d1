"""`regard evaluate`: a run, a test set and the scores. All that can be refused is refused before the model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.atomic import check_place, partial_file
from regard.core.errors import UserError
from regard.data.sources.word_vectors import is_vector_file
from regard.runs.folder import Run, choose_device
from regard.runs.protocols import Result
from regard.runs.task import TASKS
from regard.tasks.predictor import with_plugin_metrics
from regard.tasks.word_vectors.predict import WordVectorModel, file_recipe


@dataclass(frozen=True)
class Scored:
    run: Path
    weights: str  # the name of the checkpoint; empty for a file of word vectors
    result: Result

    def lines(self) -> list[str]:
        return [*self.result.lines(), *([f"weights    {self.weights}"] if self.weights else [])]

    def as_dict(self) -> dict[str, Any]:
        return {"run": str(self.run), **({"weights": self.weights} if self.weights else {}), **self.result.as_dict()}


def score_run(folder: Path, settings: Sequence[str], device: str | None, output: Path | None, weights: str = "") -> Scored:
    """Settings may choose another test set and another search, `weights` another checkpoint than the one that is used otherwise.

    `output` gets what the model said, a line each.
    """
    of_file = is_vector_file(folder)
    if of_file and weights:
        raise UserError(f"--weights {weights} is for a run, and {folder} is a file of word vectors; leave it out.")
    recipe = file_recipe(folder, settings) if of_file else Run.open(folder).recipe_with(settings)
    where = choose_device(device)
    task = TASKS[recipe.task.name]
    if output is not None:
        check_place(output, "--output")
        if not task.has_outputs:
            raise UserError(
                f"--output {output}: task {recipe.task.name} is scored without outputs to write; leave the option out."
            )
    if not recipe.data.test:
        raise UserError(f"there is nothing to score: the run has no test set; give data.test=FILE{task.test_hint}.")
    test = task.read_test(recipe)
    used = "" if of_file else Run.open(folder, weights).weights().path.name
    answers = WordVectorModel.of_file(folder, settings) if of_file else task.open(Run.open(folder, used), recipe, where)
    result = with_plugin_metrics(answers.evaluate(test), test, task.name)
    if output is not None:
        with partial_file(output, "--output") as file:
            file.writelines(f"{text}\n" for text in result.outputs)
    return Scored(folder, used, result)

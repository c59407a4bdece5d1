"""The task `embed`: vectors of texts from a body that was trained for something else. It answers, and is never trained."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from regard.core.errors import UserError
from regard.runs.folder import Say
from regard.runs.protocols import Task
from regard.runs.recipe import Recipe
from regard.tasks.embedding.predict import Embedder


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> NoReturn:
    raise UserError(
        "task.name=embed is not trained: it takes the vectors of a body that is there already. Train another task, then run "
        "'regard predict RUN \"...\" task.name=embed'."
    )


def read_test(recipe: Recipe) -> NoReturn:
    raise UserError("task.name=embed has no test set: vectors have no score of their own; leave data.test out.")


TASK = Task(prepare, read_test, Embedder.of, says=False, adopt=Embedder.of_start)

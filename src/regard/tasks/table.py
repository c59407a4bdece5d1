"""Every task by its name, and how a run or a public checkpoint is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from regard.data.word_vectors import is_vector_file
from regard.errors import UserError
from regard.recipe import Recipe
from regard.tasks import answer, caption, classify, denoise, embed, fill, read, reply, retrieve, tag, translate, words, write
from regard.tasks.adopting import recipe_of, typed_task
from regard.tasks.lexicon import Lexicon
from regard.tasks.run import Run, choose_device
from regard.tasks.start import Start, start_of
from regard.tasks.task import Adopted, Answers, Task

TASKS: dict[str, Task] = {
    "translate": translate.TASK,
    "reply": reply.TASK,
    "retrieve": retrieve.TASK,
    "write": write.TASK,
    "classify": classify.TASK,
    "embed": embed.TASK,
    "answer": answer.TASK,
    "tag": tag.TASK,
    "fill": fill.TASK,
    "read": read.TASK,
    "denoise": denoise.TASK,
    "words": words.TASK,
    "caption": caption.TASK,
}
HUB = "hf:"


def open_run(name: Path | str, device: str | None = None, assignments: Sequence[str] = ()) -> Answers:
    """What a run was trained for, ready to be done; settings may choose another search, or another task that its weights allow.

    A Hugging Face folder is opened as it is, and so is a file of word vectors. A model on the hub is named hf:NAME, so that no
    mistyped folder is looked for there.
    """
    where = choose_device(device)
    if is_vector_file(name):
        return Lexicon.of_file(Path(name), assignments)
    if is_public(name):
        start = start_of(str(name).removeprefix(HUB))
        return adopted(start, recipe_of(start, assignments), where)
    run = Run.open(name)
    if typed_task(assignments) not in (None, run.recipe.task.name):
        start = start_of(str(name))
        return adopted(start, recipe_of(start, assignments), where)
    recipe = run.recipe_with(assignments)
    return TASKS[recipe.task.name].open(run, recipe, where)


def adopted(start: Start, recipe: Recipe, device: torch.device) -> Adopted:
    """A checkpoint as it is, for the task of this recipe."""
    if (adopt := TASKS[recipe.task.name].adopt) is None:
        raise UserError(f"{start.name} cannot be opened for task {recipe.task.name} as it is; train from it with task.start.")
    return adopt(start, recipe, device)


def is_public(name: Path | str) -> bool:
    """A Hugging Face folder, or a name on its hub; anything else should be a run."""
    folder = Path(name)
    return str(name).startswith(HUB) or ((folder / "config.json").is_file() and not (folder / "recipe.toml").exists())

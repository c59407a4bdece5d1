"""A checkpoint opened as it is, without training: which task its heads are for, and the recipe that such a run would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config import override
from regard.errors import UserError
from regard.families.hub import local_folder
from regard.families.public.sentences import Sentences, read_sentences
from regard.families.vectors import VectorsConfig
from regard.recipe import TASKS, Recipe, Tables, made, typed_task
from regard.tasks.start import Start

OF_HEAD = {"classes": "classify", "tags": "tag", "span": "answer", "replaced": "fill", "head": "fill"}
WITHOUT_MASKS = {"gpt": "write", "elmo": "read"}  # what a head for words is for, where no word is masked
"""The task that a head was trained for, by where its weights lie; of several heads the first here decides."""

TRAIN = {"steps": 1, "warmup": 0}  # of nothing
SAMPLE = {"search": "sample"}


def recipe_of(start: Start, assignments: Sequence[str] = ()) -> Recipe:
    """What a run of these weights would say about itself; it has no data, and a search that suits its task."""
    task = typed_task(assignments) or task_of(start)
    family = start.settings["model"]["family"]
    _must_suit(start, family, task)
    about = {"name": Path(start.name).name or family, "title": f"{start.name}, imported", "paper": ""}
    tables: Tables = {"recipe": about, "task": {"name": task}, **start.settings, "data": {}, "objective": {}}
    tables |= {"train": dict(TRAIN), "decode": dict(SAMPLE) if task == "write" else {}}
    if task == "embed":
        tables |= _pooled(start)
    elif task == "retrieve":
        tables["objective"] = {"pooling": _pooled(start)["objective"]["pooling"]}
    elif task == "classify" and start.heads.classes == 1:
        tables["objective"] = {"name": "regression"}
    elif task == "fill" and "next_sentence" in _parts(start):
        tables["objective"] = {"next_sentence": True}
    override(tables, list(assignments))
    return made(tables)


def task_of(start: Start) -> str:
    """What its weights were trained for: a GPT writes, a body without any head gives vectors."""
    parts, family = _parts(start), start.settings["model"]["family"]
    if family == "gpt" or (family in WITHOUT_MASKS and "head" in parts):
        return WITHOUT_MASKS[family]
    return next((task for head, task in OF_HEAD.items() if head in parts), "embed")


def _must_suit(start: Start, family: str, task: str) -> None:
    if task in TASKS and family not in TASKS[task].families:
        able = " or ".join(TASKS[task].families)
        raise UserError(f"{start.name} is a {family}, and task.name={task} needs a {able}; give another, or leave task.name out.")
    heads = {head for head, its in OF_HEAD.items() if its == task}
    if heads and heads.isdisjoint(_parts(start)):
        raise UserError(
            f"{start.name} was not trained for task {task}: it has no head for it. Train one with task.start={start.name}, or "
            f"open it for task.name={task_of(start)}."
        )


def _parts(start: Start) -> set[str]:
    return {name.partition(".")[0] for name in start.weights}


def _pooled(start: Start) -> dict[str, dict[str, Any]]:
    """As a folder of sentence-transformers says; else the mean of as many tokens as there are positions."""
    found = read_sentences(local_folder(start.name)) or Sentences(VectorsConfig(), 0)
    model = start.settings["model"]
    positions = model["maximum_length"] if model.get("position") == "learned" else 0
    cut = min(found.maximum_tokens or positions, positions or found.maximum_tokens)
    return {
        "data": {"maximum_tokens": cut},
        "objective": {"pooling": found.vectors.pooling, "normalised": found.vectors.normalised},
    }

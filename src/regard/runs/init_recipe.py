"""The recipe that a training begins with: what it says itself, what its checkpoint or teacher says, and settings that say `auto`.

A run chooses what is `auto` once, when it begins, and keeps its choice wherever it is continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from regard.core.config import Typed, format_value
from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.runs.folder import Run, Say
from regard.runs.pretrained import InitCheckpoint, Settings, marks_of, settings_of, start_of
from regard.runs.recipe import DEFAULT_TASK, Recipe, Tables, build_recipe, builtin_names, named_tables
from regard.runs.task import TASKS
from regard.text.config import PairTextConfig
from regard.training.compile import fastest_precision, multiplies_bf16
from regard.training.config import AUTO

OTHER: tuple[str, ...] = ("dropout", "attention_dropout", "word_dropout", "output_dropout", "deviation", "visibility", "pooler")
OTHER += ("drop_path", "mixer", "features", "redraw_every")
MAY_BE_OTHER = tuple(f"model.{key}" for key in OTHER)  # the weights mean the same
MAY_BE_OTHER += ("text.vectors", "text.freeze_vectors")  # which they were before training
MAY_BE_TYPED = ("model.pooling", "model.image_size", "model.antialias")  # of images: positions are interpolated


def load_recipe_to_train(name: str, assignments: Sequence[str], folder: Path | None = None) -> Recipe:
    """Load a recipe to train; where training starts from a checkpoint, with its model settings and special tokens.

    Some settings of the model may be changed (dropout, say), those of the vocabulary may not. A run in `folder` that has begun
    keeps them, so the checkpoint it started from may be gone.
    """
    tables = named_tables(name, assignments)
    if not (start := str(tables["task"].get("init_from", ""))):
        return _of_teacher(tables) if tables["objective"].get("name") == "distillation" else build_recipe(tables)
    begun = _begun(folder, start)
    settings = settings_of(begun) if begun else _told(start).settings
    settings = _of_body(settings, str(tables["task"].get("name", DEFAULT_TASK)))
    if FAMILIES[settings["model"]["family"]].has("seq2seq"):
        task = TASKS.get(tables["task"].get("name", DEFAULT_TASK))
        if not settings["text"].get("joint", True) and task is not None and not hasattr(task.text, "joint"):
            raise UserError(
                f"task.init_from={start} has two tokenizers, and task.name={task.name} reads and writes with one; give another "
                "start, or train with task.name=translation."
            )
        marks = asdict(begun.recipe.decode) if begun else _told(start).decode
        tables |= {"decode": marks_of(marks) | tables["decode"]}
    if isinstance(tables["task"]["init_from"], Typed):
        tables |= {section: _still_chosen(section, tables[section], settings[section]) for section in ("text", "model")}
    recipe = build_recipe(tables | {section: settings[section] | tables[section] for section in ("text", "model")})
    for name, value, theirs in _different(recipe, settings):
        if name == "model.maximum_length" and recipe.model.maximum_length > settings["model"]["maximum_length"]:
            continue
        raise UserError(
            f"{name}={value} cannot be set with task.init_from={start}, which has {theirs}; leave it out of the command and of "
            "the recipe."
        )
    return recipe


def _of_body(settings: Settings, task: str) -> Settings:
    """Return the settings of the part that goes on where the task is another: of a masked autoencoder, its encoder's."""
    family = FAMILIES[settings["model"]["family"]]
    body = getattr(family.config(**settings["model"]), "body_settings", None)
    return settings if body is None or task not in TASKS or TASKS[task].takes(family) else settings | {"model": asdict(body)}


def _of_teacher(tables: Tables) -> Recipe:
    """Complete a student's recipe by its teacher's settings, with half of the layers; its vocabulary is always the teacher's."""
    teacher, wish = str(tables["objective"].get("teacher", "")), tables["model"]
    if teacher and not (teacher.startswith("hf:") or Path(teacher).is_dir()):
        known = next((name for name in builtin_names() if Path(teacher) == Path("runs", name)), None)
        cure = f"train it first, 'regard train {known}'" if known else "give a run that classifies, or a public folder"
        raise UserError(f"objective.teacher={teacher} does not exist; {cure}, or name a model on the hub as hf:NAME.")
    if not teacher:
        return build_recipe(tables)  # which refuses it
    settings = start_of(teacher).whole().settings
    model, text = settings["model"], settings["text"]
    if (family := str(wish.get("family", model["family"]))) != model["family"]:
        raise UserError(f"a {family} is to learn, but objective.teacher={teacher} is a {model['family']}; give another teacher.")
    recipe = build_recipe(
        tables | {"text": text | tables["text"], "model": model | {"layers": (model["layers"] + 1) // 2} | wish}
    )
    for name, value, theirs in _different(recipe, settings):
        if name.startswith("text."):
            raise UserError(f"{name}={value}: a student has the vocabulary of its teacher, {teacher}; leave it out.")
        if recipe.objective.inherit and (name != "model.layers" or recipe.model.layers > model["layers"]):
            raise UserError(
                f"{name}={value}: a student that begins with layers of its teacher, {teacher}, has {theirs} there, and no more "
                "layers than it; leave it out, or set objective.inherit=false."
            )
    return recipe


def _different(recipe: Recipe, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """`section.key`, what it is in the recipe and what in these settings, for all that weights depend on."""
    for section, theirs in settings.items():
        for key, value in asdict(getattr(recipe, section)).items():
            told, name = theirs.get(key, getattr(PairTextConfig, key, None)), f"{section}.{key}"
            if value != told and name not in (*MAY_BE_OTHER, *MAY_BE_TYPED):
                yield name, format_value(value), format_value(told)


def _told(name: str) -> InitCheckpoint:
    """Whoever did not type it, because the recipe has it, should hear where it stands."""
    try:
        return start_of(name)
    except UserError as error:
        raise UserError(f"task.init_from={name}: {error}") from None


def _still_chosen(section: str, table: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """A recipe's own body and vocabulary are for training from scratch: a start that is typed is asked for in their stead.

    Of what may be other, what its family has a setting for.
    """
    others = {key for key in theirs if f"{section}.{key}" in MAY_BE_OTHER}
    return {key: value for key, value in table.items() if isinstance(value, Typed) or key in others}


def _begun(folder: Path | None, start: str) -> Run | None:
    """Return the run in this folder, if it has begun with this checkpoint."""
    if folder is None or not (folder / "recipe.toml").is_file() or (run := Run(folder)).never_saved:
        return None
    return run if run.recipe.task.init_from == start else None


def with_begun_settings(recipe: Recipe, folder: Path) -> Recipe:
    """Fill in `auto` with what the run in this folder has chosen, if it has begun: another choice would be another training."""
    if not (folder / "recipe.toml").is_file() or (run := Run(folder)).never_saved:
        return recipe
    before = run.recipe.train
    chosen = {key: getattr(before, key, AUTO) for key, value in vars(recipe.train).items() if value == AUTO}
    return _changed(recipe, **chosen)


def with_precision(recipe: Recipe, device: torch.device, say: Say) -> Recipe:
    """Choose the precision that is fastest on this device. One that was chosen before stays, with a warning if it is slow."""
    if recipe.train.precision == "bf16" and not multiplies_bf16(device):
        say(
            f"warning: train.precision=bf16 is emulated on this {device.type}, which has no instructions for it, and takes about "
            "twice as long as fp32; a new run with train.precision=auto takes the faster one."
        )
    return _changed(recipe, precision=fastest_precision(device)) if recipe.train.precision == AUTO else recipe


def with_metric(recipe: Recipe, metric: str) -> Recipe:
    """Choose the figure of validation by which a task is judged."""
    return _changed(recipe, best=metric) if recipe.train.best == AUTO else recipe


def _changed(recipe: Recipe, **chosen: str) -> Recipe:
    return replace(recipe, train=replace(recipe.train, **chosen)) if chosen else recipe

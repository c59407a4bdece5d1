"""`regard train`: a recipe and a folder become a run. The same call again continues it; once more, and there is nothing to do.

It prints the recipe's title and what the command changed in it, and in the end what to type next for a run of this task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.core.config import format_value
from regard.core.errors import UserError
from regard.data.loader import Loader, Source, bounded
from regard.families import FAMILIES
from regard.runs.cost import estimate, grams_per_kwh, must_fit_memory
from regard.runs.folder import Run, Say
from regard.runs.init_recipe import with_begun_settings, with_metric, with_precision
from regard.runs.lock import check_data, check_folder, must_fit_disk, run_lock
from regard.runs.model_card import write_card
from regard.runs.prepared import Prepared
from regard.runs.protocols import Result
from regard.runs.recipe import DEFAULT_TASK, Recipe, named_tables
from regard.runs.task import TASKS
from regard.tasks.notices import pattern_notice
from regard.tasks.predictor import with_plugin_metrics
from regard.tasks.word_init import check_vectors, fill_vectors
from regard.training.data_parallel import ParallelModel
from regard.training.distributed import SINGLE_PROCESS, SilentLog, World
from regard.training.logging import RunLog, clock
from regard.training.loop import train
from regard.training.progress import Interrupt, Progress, catch_signals, done
from regard.training.resume import average, resume


@dataclass(frozen=True)
class Outcome:
    run: Run
    progress: Progress
    result: Result | None
    prepared: Prepared
    interrupted: int = 0  # exit code of the signal that stopped it


def train_run(recipe: Recipe, folder: Path, device: torch.device, say: Say) -> Outcome:
    return train_prepared(prepare_run(recipe, folder, device, say), folder, device, say)


def prepare_run(recipe: Recipe, folder: Path, device: torch.device, say: Say, world: World = SINGLE_PROCESS) -> Prepared:
    """All that can be refused is refused here, before anything is written."""
    recipe = with_begun_settings(recipe, folder)
    if world.size > 1 and getattr(recipe.model, "memory", 0) > 0:
        raise UserError(
            f"model.memory={recipe.model.memory} is carried from batch to batch by one process, and here are {world.size}; start "
            "one, or set model.memory=0."
        )
    with world.fail_together():
        if world.is_main:
            check_folder(recipe, folder)
    grams_per_kwh()
    prepared = _prepared(recipe, None if Run(folder).never_saved else folder, device, say)
    world.check_equal(
        str(prepared.fingerprints()), "the processes do not read the same training data; put it where all machines see it."
    )
    check_vectors(prepared)
    if TASKS[recipe.task.name].trainer is None:
        say(_plan(prepared, device))
    if not (recipe.train.fsdp and world.size > 1):
        must_fit_memory(prepared, device)
    if world.is_main:
        must_fit_disk(prepared, folder)
    return prepared


def _prepared(recipe: Recipe, folder: Path | None, device: torch.device, say: Say) -> Prepared:
    """Prepare the data; then fill in what depends on it: steps from epochs, and settings that are `auto`."""
    recipe = with_precision(recipe, device, say)
    task = TASKS[recipe.task.name]
    prepared = task.prepare(recipe, folder, say)
    if task.trainer is not None:
        return prepared
    if recipe.train.lora and folder is None and getattr(prepared, "start", None) is None:
        raise UserError(
            f"train.lora={recipe.train.lora} adapts trained weights, and task.name={recipe.task.name} does not begin with any; "
            "leave train.lora out."
        )
    recipe = with_metric(recipe, prepared.metric)
    if recipe.train.epochs:
        batches = len(_source(prepared, device).plan(0))
        recipe = replace(recipe, train=replace(recipe.train, steps=recipe.train.steps_of(batches)))
    return replace(prepared, recipe=recipe)


def _plan(prepared: Prepared, device: torch.device) -> str:
    """Describe the length of the training in a line; a shortened warm-up is mentioned."""
    train, batches = prepared.recipe.train, len(_source(prepared, device).plan(0))
    warmup = f"{train.warmup_steps:,} of warm-up" if train.warmup_steps else "no warm-up"
    if train.decays and train.warmup >= 1 and train.warmup_steps < train.warmup:
        warmup += f" (train.warmup={train.warmup:g} is more than {train.warmup_limit:g} of the steps)"
    epochs = f"{train.steps / max(1, batches):.1f} epochs of {batches:,} batches"
    return f"plan: {train.steps:,} steps, {epochs}; {warmup}; best by {train.best}; {train.precision} on {device}"


def train_prepared(prepared: Prepared, folder: Path, device: torch.device, say: Say, world: World = SINGLE_PROCESS) -> Outcome:
    """All of `world` train; the first process alone writes the run and, when they are done, scores it."""
    recipe = prepared.recipe
    with run_lock(recipe, folder, prepared, say, world) as run:
        with catch_signals() as interrupt:
            if (trainer := TASKS[recipe.task.name].trainer) is not None:
                progress = trainer.train(prepared, run, say, interrupt)
            else:
                progress = _run_loop(prepared, run, device, say, world, interrupt)
        if interrupt or not world.is_main:
            return Outcome(run, progress, None, prepared, interrupt.exit_code if interrupt else 0)
        steps = f"{progress.step:,} step{'s' * (progress.step != 1)}"
        say(f"trained {steps}, {progress.tokens:,} {prepared.unit}, in {clock(progress.seconds)}")
        if recipe.train.average > 1:
            average(run.store(say), recipe.train.average, progress.step)
        result = _scored(run, prepared, device) if prepared.test else None
        write_card(run, progress, result, prepared, device)
        return Outcome(run, progress, result, prepared)


def _run_loop(prepared: Prepared, run: Run, device: torch.device, say: Say, world: World, interrupt: Interrupt) -> Progress:
    """Train by the common loop."""
    config, model, store = prepared.recipe.train, prepared.model(), run.store(say)
    if prepared.recipe.text.vectors:
        fill_vectors(model, prepared, say)
    parallel = ParallelModel(model, world, config.fsdp, device)
    optimizer, progress = resume(store, config, model, parallel)
    if not progress.step and (damaged := sorted(path.name for path in run.checkpoints())):  # hours may be in them
        raise UserError(
            f"none of the checkpoints in {run.folder} can be read ({', '.join(damaged)}); copy them again from where they were "
            f"made, delete {run.folder / 'checkpoints'} to start over, or give another --out."
        )
    if done(config, progress):
        say(f"{run.folder} is trained to step {progress.step:,}; nothing left to train, only to score")
    elif progress.step:
        say(f"continuing from step {progress.step:,} of {config.steps:,}")
    log = RunLog(run.folder, config.steps, progress.step, prepared.unit) if world.is_main else SilentLog()
    objective, accumulate = prepared.objective(), max(config.accumulate, progress.accumulate)
    source, pin = _source(prepared, device), device.type == "cuda"
    loader = Loader(source, accumulate=accumulate, rank=world.rank, world=world.size, pin=pin)
    validate = prepared.validator(objective)
    return train(model, objective, loader, validate, config, store, log, progress, optimizer, interrupt, parallel)


def _scored(run: Run, prepared: Prepared, device: torch.device) -> Result:
    """Score the run on the test set, beside its teacher if it has one."""
    task = TASKS[prepared.recipe.task.name]
    answers = task.open(run, prepared.recipe, device)
    result = with_plugin_metrics(answers.evaluate(prepared.test), prepared.test, task.name)
    return result if task.compare is None else task.compare(prepared, answers, result, device)


def _source(prepared: Prepared, device: torch.device) -> Source:
    """Return the training batches; on a GPU in half precision packed without padding, where the model's visibility allows it."""
    recipe = prepared.recipe
    packed = device.type == "cuda" and recipe.train.precision == "bf16" and recipe.model.packable
    return bounded(prepared.source(packed=packed), recipe.train.examples_per_batch)


def dry_run_lines(recipe: Recipe, device: torch.device, say: Say, folder: Path | None = None) -> list[str]:
    """Return what a training would read, hold and cost, without writing; refuse what a training in `folder` would refuse."""
    if folder is None:
        prepared = _prepared(recipe, None, device, say)
        must_fit_memory(prepared, device)
    else:
        prepared = prepare_run(recipe, folder, device, say)
        check_data(folder, prepared)
    trainer = TASKS[recipe.task.name].trainer
    lines = estimate(prepared, device).lines() if trainer is None else trainer.estimate(prepared)
    whole = pattern_notice(recipe.model)
    return [*lines, f"visibility        {whole}"] if whole else lines


def summary_lines(name: str, settings: Sequence[str], recipe: Recipe) -> list[str]:
    """Return the title of recipe `name`, and what the typed settings, which made `recipe`, change in it."""
    tables, task = named_tables(name), TASKS[recipe.task.name]
    first = {"task.name": DEFAULT_TASK, "model.family": task.families()[0], "objective.name": task.objectives[0]}
    title = f": {recipe.recipe.title}" if recipe.recipe.title else ""
    lines = [f"recipe {recipe.recipe.name}{title}"]
    for key in dict.fromkeys(setting.partition("=")[0].strip() for setting in settings):
        section, _, field = key.partition(".")
        values, table = getattr(recipe, section), tables[section]
        now, own = getattr(values, field), table.get(field, first.get(key, getattr(type(values), field, None)))
        if own != now and _shown(own) != _shown(now):
            lines.append(f"  {key}={_shown(now)}{f' (the recipe has {_shown(own)})' if field in table else ''}")
    return lines


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else format_value(value)


def to_try(recipe: Recipe, folder: Path) -> str:
    return f"regard predict {folder} {_prompt(recipe)}"


def to_look(recipe: Recipe, folder: Path) -> str | None:
    """Return the `regard lens` command for a run; None where lens has nothing to draw for a single text."""
    family = FAMILIES[recipe.model.family]
    if getattr(recipe.model, "attention", None) == "none" or not family.has("attention"):
        return None
    options = "" if family.has("nested_documents") else TASKS[recipe.task.name].lens
    return None if options is None else f"regard lens {folder} {_prompt(recipe)} {options}".rstrip()


def _prompt(recipe: Recipe) -> str:
    task = TASKS[recipe.task.name]
    return task.prompts.get(recipe.objective.name, task.prompt)

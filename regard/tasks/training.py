"""`regard train`: a recipe and a folder become a run. The same call again continues it; once more, and there is nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.data.loader import Loader
from regard.errors import UserError
from regard.evaluate.bleu import Scores
from regard.objective.translation import TranslationLoss
from regard.recipe import Recipe
from regard.tasks.card import write_card
from regard.tasks.cost import estimate
from regard.tasks.run import Run
from regard.tasks.translate import Prepared, Say, data_record, evaluate, prepare, validator
from regard.tasks.translator import Translator, build_model
from regard.train.interrupt import interruptible
from regard.train.loop import Progress, average, resume, train
from regard.train.runlog import RunLog, clock


@dataclass(frozen=True)
class Outcome:
    run: Run
    progress: Progress
    scores: Scores | None
    outputs: list[str]
    prepared: Prepared
    interrupted: int = 0  # exit code of the signal that stopped it


def train_run(recipe: Recipe, folder: Path, device: torch.device, say: Say) -> Outcome:
    run = _claim(recipe, folder, say)
    with run.locked():
        prepared = prepare(recipe, folder, say)
        _same_data(run, prepared)
        model = build_model(recipe, prepared.tokenizers).to(device)
        store = run.store(say)
        optimizer, progress = resume(store, recipe.train, model)
        if progress.step:
            say(f"continuing from step {progress.step:,} of {recipe.train.steps:,}")
        log = RunLog(folder, recipe.train.steps, progress.step)
        objective = TranslationLoss(recipe.objective)
        loader = Loader(
            prepared.train, tokens=recipe.train.tokens_per_batch, seed=recipe.train.seed, accumulate=recipe.train.accumulate
        )
        with interruptible() as interrupt:
            validate = validator(recipe, prepared, objective)
            progress = train(model, objective, loader, validate, recipe.train, store, log, progress, optimizer, interrupt)
        if interrupt:
            return Outcome(run, progress, None, [], prepared, interrupt.exit_code)
        say(f"trained {progress.step:,} steps, {progress.tokens:,} target tokens, in {clock(progress.seconds)}")
        if recipe.train.average > 1:
            average(store, recipe.train.average, progress.step)
        scores: Scores | None = None
        outputs: list[str] = []
        if prepared.test_pairs:
            translator = Translator.open(folder, str(device))
            scores, outputs = evaluate(translator, prepared.test_pairs)
        write_card(run, recipe, progress, scores, prepared)
        return Outcome(run, progress, scores, outputs, prepared)


def dry_run_lines(recipe: Recipe, device: torch.device, say: Say) -> list[str]:
    """What a training would read, hold and cost. Nothing is written."""
    prepared = prepare(recipe, None, say)
    return estimate(recipe, prepared, device).lines(recipe)


def _claim(recipe: Recipe, folder: Path, say: Say) -> Run:
    """The folder as a run of this recipe: new, or one whose settings are the same but for what may change."""
    if not (folder / "recipe.toml").exists():
        if folder.exists() and not folder.is_dir():
            raise UserError(f"--out {folder} is a file; give a folder.")
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"--out {folder} holds other files and is not a run; give a new or empty folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (run := Run(folder)).write("recipe.toml", recipe.to_toml())
        except OSError as error:
            raise UserError(f"--out {folder} cannot be written: {error.strerror}; give another folder.") from None
        return run
    run = Run.open(folder)
    before = run.recipe
    allowed = replace(before, decode=recipe.decode, train=replace(before.train, steps=recipe.train.steps))
    if different := recipe.differences(allowed):
        raise UserError(
            f"{folder} was begun with other settings: {'; '.join(different[:6])}. "
            f"Give --out ANOTHER_FOLDER for a new run, or the same settings to continue this one."
        )
    if changed := recipe.differences(before):
        say(f"settings changed since the run began: {'; '.join(changed)}")
        run.write("recipe.toml", recipe.to_toml())
    return run


def _same_data(run: Run, prepared: Prepared) -> None:
    record = run.read_json("data.json")
    if record is None:
        run.write("data.json", data_record(prepared))
    elif record.get("train_sha256") != prepared.fingerprint():
        raise UserError(
            f"the training data changed since {run.folder} was begun ({record.get('train_pairs'):,} pairs then, "
            f"{len(prepared.train):,} now); give the same data to continue, or another --out for a new run."
        )

"""May this recipe train in this folder? Asked before anything is read or written, and once more with the folder locked.

A new folder appears only when the data has been read and found good, so a refused recipe leaves nothing behind; and of a run
that has checkpoints nothing changes until its settings and its data prove to be the same.
"""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

from regard.core.atomic import flush_file, flush_folder
from regard.core.errors import UserError
from regard.core.files import format_size
from regard.runs.folder import RECORD, Run, Say
from regard.runs.prepared import Prepared
from regard.runs.recipe import Recipe
from regard.training.config import MAY_CHANGE
from regard.training.distributed import SINGLE_PROCESS, World


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Refuse a folder that is something else, cannot be made, or holds a run with other settings."""
    if (folder / "recipe.toml").exists():
        run = Run.open(folder)
        with run.locked():
            if not run.never_saved:
                _same_settings(run, recipe)
        return
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file; give a folder.")
    if folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise UserError(f"--out {folder} holds other files and is not a run; give a new or empty folder.")
    _try_to_make(folder)


def check_data(folder: Path, prepared: Prepared) -> None:
    """Refuse data that a run in this folder was not begun with; a new folder has none."""
    run = Run(folder)
    if (folder / "recipe.toml").exists() and not run.never_saved:
        _same_data(run, prepared)


def must_fit_disk(prepared: Prepared, folder: Path) -> None:
    """Refuse a disk without room for one checkpoint: the weights, and as much again of what the optimizer keeps."""
    needed, free = 2 * 4 * prepared.example()[0].parameters, shutil.disk_usage(existing(folder)).free
    if needed > free:
        raise UserError(
            f"--out {folder}: a checkpoint of this model takes at least {format_size(needed)}, and that disk has "
            f"{format_size(free)} left; free some space there, or give another folder."
        )


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _try_to_make(folder: Path) -> None:
    """Create the folder and remove it again: permissions alone do not say whether that is possible."""
    above = existing(folder)
    if not above.is_dir():
        raise UserError(f"--out {folder} cannot be made: {above} is a file; give another folder.")
    try:
        Path(tempfile.mkdtemp(prefix=".regard-", dir=above)).rmdir()
    except OSError as error:
        what = "is not yours to write in" if error.errno in (errno.EACCES, errno.EPERM) else f"takes none ({error.strerror})"
        raise UserError(f"--out {folder} cannot be made: {above} {what}; give another folder.") from None


@contextmanager
def run_lock(recipe: Recipe, folder: Path, prepared: Prepared, say: Say, world: World = SINGLE_PROCESS) -> Iterator[Run]:
    """Create or continue a run in a folder, and lock it. One process does so for all."""
    run = Run(folder)
    with ExitStack() as lock:
        with world.fail_together():
            if world.is_main:
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise UserError(f"--out {folder} cannot be made: {error.strerror}; give another folder.") from None
                lock.enter_context(run.locked())
                if run.never_saved or not (folder / "recipe.toml").exists():
                    _begin(run, recipe, prepared)
                else:
                    _continue(run, recipe, prepared, say)
        yield run


def _begin(run: Run, recipe: Recipe, prepared: Prepared) -> None:
    run.write("recipe.toml", recipe.to_toml())
    _save_vocabularies(run, prepared)
    _record(run, prepared)


def _save_vocabularies(run: Run, prepared: Prepared) -> None:
    for name, tokenizer in prepared.vocabularies.items():
        tokenizer.save(run.folder / name)
        flush_file(run.folder / name)
    flush_folder(run.folder)


def _record(run: Run, prepared: Prepared) -> None:
    """Record what the run was begun with, to be compared whenever it is continued or used."""
    record = {"amounts": prepared.amounts(), "sha256": prepared.fingerprints(), "seals": run.seals()}
    run.write(RECORD, json.dumps(record, indent=2) + "\n")


def _continue(run: Run, recipe: Recipe, prepared: Prepared, say: Say) -> None:
    _same_settings(run, recipe)
    _same_data(run, prepared)
    run.require_sealed()
    if changed := recipe.differences(run.recipe):
        say(f"settings changed since the run began: {'; '.join(changed)}")
        run.write("recipe.toml", recipe.to_toml())
    if not all((run.folder / name).exists() for name in prepared.vocabularies):
        _save_vocabularies(run, prepared)
    if run.record()["seals"] != run.seals():
        _record(run, prepared)  # it was lost, or another version of Regard has just written the recipe with more keys


def _same_settings(run: Run, recipe: Recipe) -> None:
    """All but the search, how many steps to take, and how they are shared out."""
    free = {f"train.{key}" for key in MAY_CHANGE} | {f"decode.{field.name}" for field in fields(recipe.decode)}
    if different := [told for told in recipe.differences(run.recipe) if told.partition("=")[0] not in free]:
        raise UserError(
            f"{run.folder} was begun with other settings: {'; '.join(different[:6])}{'; ...' if different[6:] else ''}. "
            "Give --out ANOTHER_FOLDER for a new run, or the same settings to continue this one."
        )


def _same_data(run: Run, prepared: Prepared) -> None:
    record, now = run.record(), prepared.amounts()
    kept, before = record["sha256"], record["amounts"]
    for split, digest in prepared.fingerprints().items():
        if kept.get(split, digest) != digest:
            kind = {"train": "training", "valid": "validation"}[split]
            raise UserError(
                f"the {kind} data is not what {run.folder} was begun with ({before.get(split)} then, {now[split]} now); give the "
                "same data to continue, or another --out for a new run."
            )

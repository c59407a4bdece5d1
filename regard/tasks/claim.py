"""May this recipe train in this folder? Asked before anything is read or written, and once more with the folder locked.

A new folder appears only when the data has been read and found good, so a refused recipe leaves nothing behind; and of a run
that has checkpoints nothing changes until its settings and its data prove to be the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from regard.errors import UserError
from regard.recipe import Recipe
from regard.tasks.run import Run, Say
from regard.tasks.translate import Prepared, data_record
from regard.tasks.translator import Tokenizers


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
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        what = "is not yours to write in" if above.is_dir() else "is a file"
        raise UserError(f"--out {folder} cannot be made: {above} {what}; give another folder.")


@contextmanager
def claimed(recipe: Recipe, folder: Path, prepared: Prepared, say: Say) -> Iterator[Run]:
    """The folder as the run of this recipe and this data, and nobody else's meanwhile."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder} cannot be made: {error.strerror}; give another folder.") from None
    run = Run(folder)
    with run.locked():
        if run.never_saved or not (folder / "recipe.toml").exists():
            _begin(run, recipe, prepared)
        else:
            _continue(run, recipe, prepared, say)
        yield run


def _begin(run: Run, recipe: Recipe, prepared: Prepared) -> None:
    run.write("recipe.toml", recipe.to_toml())
    prepared.tokenizers.save(run.folder, recipe.text.joint)
    run.write("data.json", data_record(prepared))


def _continue(run: Run, recipe: Recipe, prepared: Prepared, say: Say) -> None:
    _same_settings(run, recipe)
    _same_data(run, prepared)
    if changed := recipe.differences(run.recipe):
        say(f"settings changed since the run began: {'; '.join(changed)}")
        run.write("recipe.toml", recipe.to_toml())
    if not all((run.folder / name).exists() for name in Tokenizers.files(recipe.text.joint)):
        prepared.tokenizers.save(run.folder, recipe.text.joint)
    if not (run.folder / "data.json").exists():
        run.write("data.json", data_record(prepared))


def _same_settings(run: Run, recipe: Recipe) -> None:
    """All but the search, and how many steps to take."""
    before = run.recipe
    allowed = replace(before, decode=recipe.decode, train=replace(before.train, steps=recipe.train.steps))
    if different := recipe.differences(allowed):
        raise UserError(
            f"{run.folder} was begun with other settings: {'; '.join(different[:6])}{'; ...' if different[6:] else ''}. "
            "Give --out ANOTHER_FOLDER for a new run, or the same settings to continue this one."
        )


def _same_data(run: Run, prepared: Prepared) -> None:
    record = run.read_json("data.json")
    if record is not None and record.get("train_sha256") != prepared.fingerprint():
        raise UserError(
            f"the training data is not what {run.folder} was begun with ({record.get('train_pairs')} pairs then, "
            f"{len(prepared.train)} now); give the same data to continue, or another --out for a new run."
        )

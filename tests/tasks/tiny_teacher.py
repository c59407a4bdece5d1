"""A teacher of two layers that knows its rows, and the recipe by which a student learns from it: what tests of `distil` share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import Recipe
from tests.tasks.tiny_labels import PAIRS, ROWS, recipe, train_as, write_rows

STUDY = [  # as the teacher studied, for one who has its width and half its layers
    *("data.test=", "train.steps=30", "train.warmup=0.1", "train.tokens_per_batch=256", "train.learning_rate=1e-2"),
    *("train.validate_every=30", "train.checkpoint_every=30", "model.dropout=0"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def teacher(family: str = "bert", pairs: bool = False) -> Path:
    """A run: to be read, not changed. Its rows lie beside it, as rows.tsv."""
    return _teacher(family, pairs)


@cache
def _teacher(family: str, pairs: bool) -> Path:
    folder = Path(_kept.name) / f"{family}-{pairs}"
    folder.mkdir()
    data = write_rows(folder / "rows.tsv", PAIRS if pairs else ROWS)
    settings = [f"model.family={family}", "model.layers=2", "objective.language=0", "train.steps=60", "train.validate_every=60"]
    train_as(recipe(data, *settings), folder / "run")
    return folder / "run"


def lesson(*settings: str, master: Path | None = None) -> Recipe:
    """A student's recipe, on its teacher's own rows unless they are set otherwise."""
    master = master or teacher()
    data = master.parent / "rows.tsv"
    return load_recipe_to_train(
        "distil", [f"objective.teacher={master}", f"data.train={data}", f"data.valid={data}", *STUDY, *settings]
    )

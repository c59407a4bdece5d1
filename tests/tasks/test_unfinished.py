"""A run whose training has not come to its end says so, once, wherever it is used, and how to continue it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from regard.runs import folder as runs
from regard.runs.folder import Run
from tests.command import SENTENCES, copy_of_run, regard, tiny
from tests.tasks import tiny_words

TEXT = SENTENCES[0][0]


def stopped(folder: Path) -> Path:
    """A run that was killed after its tenth step of twenty."""
    run = copy_of_run(folder)
    for name in ("step-00000020", "best-00000020"):
        shutil.rmtree(run / "checkpoints" / name)
    return run


@pytest.mark.parametrize(
    "command", [["predict", "RUN", TEXT], ["evaluate", "RUN"], ["lens", "RUN", TEXT], ["lens", "RUN", TEXT, "--show", "weights"]]
)
def test_whoever_uses_it_is_told_once_and_how_to_go_on(command: list[str], tmp_path: Path) -> None:
    run = stopped(tmp_path)
    result = regard(*[str(run) if word == "RUN" else word for word in command])
    assert result.code == 0, result.err
    told = f"{run} is unfinished: it is trained to step 10 of 20. To continue: regard train {run}/recipe.toml --out {run}\n"
    assert result.err.count(told) == 1
    assert "unfinished" not in result.out


def test_what_it_says_to_type_finishes_the_run(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    line = next(line for line in regard("predict", run, TEXT).err.splitlines() if "unfinished" in line)
    assert regard(*line.partition("To continue: regard ")[2].split()).code == 0
    runs.WARNED.clear()
    assert regard("predict", run, TEXT).err == ""


def test_early_stopping_is_an_end(tmp_path: Path) -> None:
    settings = ["train.steps=400", "train.validate_every=2", "train.checkpoint_every=2", "train.patience=1"]
    assert regard("train", tiny(), *settings, "train.learning_rate=10", "--out", tmp_path / "run").code == 0
    assert max(Run(tmp_path / "run").checkpoints()).name < "step-00000400"
    assert regard("predict", tmp_path / "run", TEXT).err == ""


def test_a_state_that_makes_no_sense_is_not_told_of(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / "checkpoints" / "step-00000020" / "state.json").write_text('{"progress": {"step": "many"}}')
    assert "unfinished" not in regard("predict", run, TEXT).err


def test_word_vectors_count_their_own_steps(tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_words.trained(), tmp_path / "run"))
    assert regard("predict", run, "cat").err == ""
    whole = max(Run(run).checkpoints())
    shutil.rmtree(whole)
    before = int(max(Run(run).checkpoints()).name.removeprefix("step-"))
    told = regard("predict", run, "cat").err
    assert f"it is trained to step {before:,} of {int(whole.name.removeprefix('step-')):,}. To continue: regard train" in told

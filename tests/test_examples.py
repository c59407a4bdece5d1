"""Every file in examples/ is a plugin that works: trained for two steps with its command, opened again, refused without it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from regard.runs.plugins import SETTINGS
from tests.command import Result, tiny, trained
from tests.forked import forked

ROOT = Path(__file__).parents[1]
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
USED = {
    "visibility": ["model.visibility=dilated(2)"],
    "mixer": ["model.mixer=cosine"],
    "position": ["model.position=log-distance"],
    "objective": ["objective.name=z_loss", "objective.weight=1e-3"],
    "family": ["model.family=shallow_decoder"],
    "task": ["task.name=reversal"],
}


def run(*arguments: object) -> Result:
    return forked(*arguments, folder=ROOT)


@cache
def folder_of(kind: str) -> Path:
    """Train two steps with the example of this kind."""
    place = Path(mkdtemp())
    settings = [*USED[kind], "train.steps=2", "train.warmup=1", "train.validate_every=2", "train.checkpoint_every=2"]
    if kind == "task":
        (place / "lines.txt").write_text("the cat sees the dog\na bird sings\nthe dog sleeps\n" * 4, "utf-8")
        settings += [f"data.{split}={place / 'lines.txt'}" for split in ("train", "valid", "test")]
    ran = run("train", tiny(), *settings, "--plugin", EXAMPLES[kind], "--out", place / "run", "--device", "cpu")
    assert ran.code == 0, ran.err
    return place / "run"


def test_there_is_an_example_of_each_kind() -> None:
    assert set(EXAMPLES) == set(SETTINGS) == {*USED, "metric"}


@pytest.mark.parametrize("kind", USED)
def test_an_example_is_trained_and_opened_again(kind: str) -> None:
    folder = folder_of(kind)
    assert f'plugins = ["{kind}.py"]' in (folder / "recipe.toml").read_text("utf-8")
    opened = run("predict", folder, "the cat sees the dog .", "--plugin", EXAMPLES[kind])
    assert (opened.code, opened.out.count("\n")) == (0, 1), opened.err


@pytest.mark.parametrize("kind", USED)
def test_a_run_says_which_plugin_it_needs(kind: str) -> None:
    opened = run("predict", folder_of(kind), "the cat sees the dog .")
    assert opened.code == 2
    assert f"needs the plugin {kind}.py" in opened.err
    assert f"--plugin FOLDER/{kind}.py" in opened.err
    assert opened.err.count("\n") == 1


def test_a_metric_is_reported_by_evaluate() -> None:
    scored = run("evaluate", trained(), "--json", "--plugin", EXAMPLES["metric"])
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["length_ratio"] > 0
    assert "length_ratio" not in run("evaluate", trained(), "--json").out


def test_other_verbs_take_a_plugin_too() -> None:
    folder, plugin = folder_of("visibility"), ["--plugin", EXAMPLES["visibility"]]
    looked = run("lens", folder, "the cat sees the dog .", "--show", "weights", *plugin)
    assert looked.code == 0, looked.err
    explained = run("explain", folder, *plugin)
    assert "dilated(2)" in explained.out, explained.err
    assert run("evaluate", folder, *plugin).code == 0

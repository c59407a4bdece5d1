"""Every file in examples/ is a plugin that works: trained for two steps with its command, opened again, refused without it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from regard.runs.plugins import SETTINGS
from tests.command import tiny, trained

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


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what a plugin registers stays registered."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@cache
def folder_of(kind: str) -> Path:
    """Train two steps with the example of this kind."""
    place = Path(mkdtemp())
    settings = [*USED[kind], "train.steps=2", "train.warmup=1", "train.validate_every=2", "train.checkpoint_every=2"]
    if kind == "task":
        (place / "lines.txt").write_text("the cat sees the dog\na bird sings\nthe dog sleeps\n" * 4, "utf-8")
        settings += [f"data.{split}={place / 'lines.txt'}" for split in ("train", "valid", "test")]
    ran = run("train", tiny(), *settings, "--plugin", EXAMPLES[kind], "--out", place / "run", "--device", "cpu")
    assert ran.returncode == 0, ran.stderr
    return place / "run"


def test_there_is_an_example_of_each_kind() -> None:
    assert set(EXAMPLES) == set(SETTINGS) == {*USED, "metric"}


@pytest.mark.parametrize("kind", USED)
def test_an_example_is_trained_and_opened_again(kind: str) -> None:
    folder = folder_of(kind)
    assert f'plugins = ["{kind}.py"]' in (folder / "recipe.toml").read_text("utf-8")
    opened = run("predict", folder, "the cat sees the dog .", "--plugin", EXAMPLES[kind])
    assert (opened.returncode, opened.stdout.count("\n")) == (0, 1), opened.stderr


@pytest.mark.parametrize("kind", USED)
def test_a_run_says_which_plugin_it_needs(kind: str) -> None:
    opened = run("predict", folder_of(kind), "the cat sees the dog .")
    assert opened.returncode == 2
    assert f"needs the plugin {kind}.py" in opened.stderr
    assert f"--plugin FOLDER/{kind}.py" in opened.stderr
    assert opened.stderr.count("\n") == 1


def test_a_metric_is_reported_by_evaluate() -> None:
    scored = run("evaluate", trained(), "--json", "--plugin", EXAMPLES["metric"])
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["length_ratio"] > 0
    assert "length_ratio" not in run("evaluate", trained(), "--json").stdout


def test_other_verbs_take_a_plugin_too() -> None:
    folder, plugin = folder_of("visibility"), ["--plugin", EXAMPLES["visibility"]]
    looked = run("lens", folder, "the cat sees the dog .", "--show", "weights", *plugin)
    assert looked.returncode == 0, looked.stderr
    explained = run("explain", folder, *plugin)
    assert "dilated(2)" in explained.stdout, explained.stderr
    assert run("evaluate", folder, *plugin).returncode == 0

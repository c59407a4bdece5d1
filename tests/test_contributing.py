"""CONTRIBUTING is true: every file of "Add a part" is written into an empty folder, and its command trains with it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from regard.runs.plugins import SETTINGS
from tests.command import tiny
from tests.forked import forked
from tests.test_docs import ROOT, Block, blocks

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FILES = {found[1]: block for block in blocks(ROOT / "CONTRIBUTING.md") if (found := re.match(r"# (my_\w+)\.py\n", block.text))}
SHORT = ["train.steps=2", "train.warmup=1", "train.validate_every=2", "train.checkpoint_every=2"]


def command_of(name: str) -> list[str]:
    (line,) = re.findall(rf"^regard train translate .*--plugin {name}\.py .*$", TEXT, re.MULTILINE)
    return shlex.split(line)[3:]


def test_there_are_steps_for_each_kind() -> None:
    assert set(FILES) == {f"my_{kind}" for kind in SETTINGS}
    assert {f"### Add a{'n' * kind.startswith('o')} {kind}\n" in TEXT for kind in SETTINGS} == {True}


@pytest.mark.parametrize("name", FILES)
def test_a_part_is_added_by_its_steps(name: str, tmp_path: Path) -> None:
    block: Block = FILES[name]
    (tmp_path / f"{name}.py").write_text(block.text, "utf-8")
    ran = forked("train", tiny(), *command_of(name), *SHORT, "--device", "cpu", folder=tmp_path)
    assert ran.code == 0, ran.err
    (run,) = (tmp_path / "runs").iterdir()
    needed = f'plugins = ["{name}.py"]' in (run / "recipe.toml").read_text("utf-8")
    assert needed == (name != "my_metric")
    if name == "my_metric":
        assert "longest" in ran.out
    told = forked("predict", run, "the cat sees the dog .", "--plugin", f"{name}.py", folder=tmp_path)
    assert (told.code, told.out.count("\n")) == (0, 1), told.err

"""A run that a stranger made may be full of links, pipes and devices: nothing outside of it is read, written or waited for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.runs.folder import Run
from regard.training.logging import RunLog, read_metrics
from tests.command import copy_of_run, refused, regard

PRECIOUS = "not to be touched\n"
MORE = ("train.steps=22", "--device", "cpu")
OURS = (".lock", "metrics.jsonl", "samples.txt", "recipe.toml", "README.md", "data.json", "tokenizer.json", "curves.png")
DRAFTS = ("metrics.tmp", ".recipe.toml.tmp", ".README.md.tmp", ".data.json.tmp", ".tokenizer.json.tmp", "curves.tmp.png")


def linked(folder: Path, name: str) -> tuple[Path, Path]:
    """A copy of a run in which this file is a link out of it, and what the link leads to."""
    run, precious = copy_of_run(folder), folder / "precious"
    precious.write_text((run / name).read_text("utf-8", "replace") if (run / name).exists() else PRECIOUS)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(precious)
    return run, precious


@pytest.mark.parametrize("name", [*OURS, *DRAFTS])
def test_training_goes_on_without_following_a_link_out(name: str, tmp_path: Path) -> None:
    run, precious = linked(tmp_path, name)
    before = precious.read_bytes()
    refused(regard("train", run / "recipe.toml", *MORE, "--out", run), name, "leads out of", "Copy the file")
    assert precious.read_bytes() == before


@pytest.mark.parametrize("name", ["recipe.toml", "data.json", "tokenizer.json"])
def test_what_a_run_is_used_with_is_its_own(name: str, tmp_path: Path) -> None:
    run, _ = linked(tmp_path, name)
    refused(regard("predict", run, "the cat sees the dog ."), name, "leads out of")


def test_a_link_to_nothing_makes_nothing(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / "samples.txt").unlink()
    (run / "samples.txt").symlink_to(tmp_path / "new")
    refused(regard("train", run / "recipe.toml", *MORE, "--out", run), "samples.txt", "leads out of")
    assert not (tmp_path / "new").exists()


def test_links_within_a_run_and_of_the_run_itself_are_followed(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / "tokenizer.json").rename(run / "kept.json")
    (run / "tokenizer.json").symlink_to("kept.json")
    (tmp_path / "short").symlink_to(run)
    assert regard("predict", tmp_path / "short", "the cat sees the dog .").code == 0


def test_checkpoints_may_lie_on_another_disk(tmp_path: Path) -> None:
    run, disk = copy_of_run(tmp_path), tmp_path / "disk"
    shutil.move(run / "checkpoints", disk)
    (run / "checkpoints").symlink_to(disk)
    assert regard("train", run / "recipe.toml", *MORE, "--out", run).code == 0
    assert (run / "checkpoints").is_symlink()
    assert (disk / "step-00000022").is_dir()


def test_the_checkpoints_of_another_run_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    mine = copy_of_run(tmp_path)
    run = Path(shutil.copytree(mine, tmp_path / "evil"))
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(mine / "checkpoints")
    before = sorted(path.name for path in (mine / "checkpoints").iterdir())
    refused(regard("train", run / "recipe.toml", *MORE, "--out", run), "checkpoints of another run")
    assert sorted(path.name for path in (mine / "checkpoints").iterdir()) == before


def test_a_link_in_a_folder_that_is_no_run_yet(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text(PRECIOUS)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="leads out of"), Run(tmp_path / "new").locked():
        pass
    assert (tmp_path / "precious").read_text() == PRECIOUS


@pytest.mark.parametrize("name", [".lock", "recipe.toml", "data.json", "metrics.jsonl", "tokenizer.json"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    told = name if name in ("recipe.toml", "tokenizer.json") else "a pipe"
    refused(regard("train", run / "recipe.toml", *MORE, "--out", run), name, told)


def test_a_log_writes_through_no_link_that_is_put_there_later(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 10, 0)
    (tmp_path / "precious").write_text(PRECIOUS)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").symlink_to("precious")
    with pytest.raises(UserError, match="nothing is written through links"):
        log.record(step=1, loss=1.0)
    assert (tmp_path / "precious").read_text() == PRECIOUS


def test_metrics_that_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="leads out of"):
        read_metrics(tmp_path / "metrics.jsonl")


def test_drafts_of_the_dead_are_cleared_and_those_of_the_living_stay(tmp_path: Path) -> None:
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    gone = [f".README.md.{child}-0123abcd.tmp", f".metrics.jsonl.{os.getpid()}-0123abcd.tmp"]
    live = [f".README.md.{os.getppid()}-0123abcd.tmp", ".notes.tmp", "README.md"]
    for name in gone + live:
        (tmp_path / name).write_text("x")
    with Run(tmp_path).locked():
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*live, ".lock"])

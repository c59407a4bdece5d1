"""Run folders that are none, or no longer whole: told by file, never trained over, and mended where a copy is at hand."""

from __future__ import annotations

import errno
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from regard.runs.folder import Run
from tests.command import contents, copy_of_run, refused, regard, regard_apart, tiny, trained, write_tiny

USES: list[tuple[str, list[str]]] = [("predict", ["the cat"]), ("evaluate", []), ("lens", ["the cat"])]


@pytest.mark.parametrize(("verb", "rest"), USES)
def test_a_folder_that_is_no_run(verb: str, rest: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    before = contents(tmp_path)
    refused(regard(verb, tmp_path / "none", *rest), "none does not exist", "'regard train translate'")
    refused(regard(verb, tmp_path / "file", *rest), "file is a file, not a run folder")
    refused(regard(verb, tmp_path / "folder", *rest), "folder is not a run", "recipe.toml", "'regard train RECIPE --out FOLDER'")
    assert contents(tmp_path) == before


def test_explaining_what_is_no_run(tmp_path: Path) -> None:
    refused(regard("explain", tmp_path), "is not a run", "recipe.toml")
    refused(regard("explain", tmp_path / "none"), "none does not exist", "'regard recipes'")


@pytest.mark.parametrize(
    ("name", "told"),
    [("file", "is a file; give a folder"), ("file/below", "file is a file"), ("full", "holds other files and is not a run")],
)
def test_a_place_for_a_run_that_is_none(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    before = contents(tmp_path)
    result = regard("train", tiny(), "--out", tmp_path / name)
    assert refused(result, f"--out {tmp_path / name}", told) == result.err
    assert contents(tmp_path) == before


def test_a_folder_somebody_trains_in(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    with Run(run).locked():
        refused(regard("train", tiny(), "--out", run), "another process is training", str(run), "another --out")


# ------------------------------------------------------------------------------------------------------------- files of a run


def unlink(name: str) -> Callable[[Path], object]:
    return lambda run: (run / name).unlink()


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (unlink("tokenizer.json"), ("no tokenizer at", "tokenizer.json", "'regard train'")),
        (write("tokenizer.json", b"{"), ("tokenizer.json", "opy it again")),
        (write("tokenizer.json", b"\xff\xfe\0"), ("tokenizer.json", "opy it again")),
        (write("tokenizer.json", b""), ("tokenizer.json", "opy it again")),
        (unlink("recipe.toml"), ("is not a run", "recipe.toml")),
        (write("recipe.toml", b"[train"), ("recipe.toml is not valid TOML", "copy the file again")),
        (write("recipe.toml", b"\xff"), ("recipe.toml is not UTF-8",)),
        (write("recipe.toml", b"[trian]"), ("recipe.toml", "no section [trian]")),
        (lambda run: shutil.rmtree(run / "checkpoints"), ("has no checkpoint yet", "'regard train", "recipe.toml --out")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_damaged_file_of_a_run(damage: Callable[[Path], object], told: tuple[str, ...], tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    damage(run)
    before = contents(run)
    for verb, rest in USES:
        result = regard(verb, run, *rest)
        assert refused(result, *told) == result.err
    assert contents(run) == before


def test_a_tokenizer_of_another_run(tmp_path: Path) -> None:
    run, other = copy_of_run(tmp_path), tmp_path / "other"
    settings = ["text.tokenizer=character", "train.steps=1", "data.test="]
    assert regard("train", tiny(), *settings, "--out", other).code == 0
    shutil.copy(other / "tokenizer.json", run)
    refused(regard("predict", run, "the cat"), "do not fit", "tokenizer", "from another run")
    refused(regard("train", tiny(), "--out", run), "the training data is not what", "another --out")


def test_a_lost_tokenizer_is_learned_again(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / "tokenizer.json").unlink()
    assert regard("train", tiny(), "--out", run).code == 0
    assert (run / "tokenizer.json").read_bytes() == (trained() / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"seals": ["a"]}', b'{"sha256": "a"}', b'{"amounts": 5}'])
def test_a_damaged_record_of_the_data(content: bytes, tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / "data.json").write_bytes(content)
    before = contents(run)
    refused(regard("train", tiny(), "--out", run), "data.json is damaged", "delete it")
    assert contents(run) == before


# ---------------------------------------------------------------------------------------------------------------- checkpoints


def flip(run: Path, *names: str) -> None:
    """One bit of the weights, which no file format notices."""
    for name in names:
        path = run / "checkpoints" / name / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)


def weights(run: Path, name: str = "step-00000020") -> bytes:
    return (run / "checkpoints" / name / "model.safetensors").read_bytes()


def test_a_damaged_newest_checkpoint_is_computed_again(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    flip(run, "step-00000020")
    result = regard("train", tiny(), "--out", run)
    assert result.code == 0
    assert "step-00000020 is damaged (model.safetensors: sha256 differs); using step-00000010 instead." in result.err
    assert "continuing from step 10 of 20" in result.err
    assert weights(run) == weights(trained())


def test_a_damaged_best_checkpoint_is_replaced_by_the_newest(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (best,) = [path.name for path in (run / "checkpoints").glob("best-*")]
    flip(run, best)
    result = regard("predict", run, "the cat", "--json")
    assert result.code == 0
    assert f"{best} is damaged" in result.err
    assert "using step-00000020 instead" in result.err
    assert result.out.startswith('{"source": "the cat"')  # the warning is not in the way of a program


def test_checkpoints_that_are_all_damaged(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    flip(run, *(path.name for path in (run / "checkpoints").iterdir()))
    before = contents(run)
    for verb, rest in USES:
        refused(regard(verb, run, *rest), "has no checkpoint that can be read", "copy the run again")
    told = refused(regard("train", tiny(), "--out", run), "none of the checkpoints", "step-00000010, step-00000020")
    assert f"delete {run / 'checkpoints'} to start over" in told
    assert contents(run) == before
    shutil.rmtree(run / "checkpoints")
    assert regard("train", tiny(), "--out", run).code == 0
    assert weights(run) == weights(trained())


# -------------------------------------------------------------------------------------------------------------- a disk that ends


def test_a_disk_that_is_full_when_the_run_is_begun(tmp_path: Path) -> None:
    with patch(
        "regard.core.files.create_file", side_effect=OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "o" / "x"))
    ):
        refused(regard("train", tiny(), "--out", tmp_path / "o"), "No space left on device", "run the same command again")
    assert regard("train", tiny(), "train.steps=1", "--out", tmp_path / "o").code == 0


def test_a_disk_that_takes_no_checkpoint(tmp_path: Path) -> None:
    """The operating system itself refuses to write files of more than 10,000 bytes: a checkpoint has more."""
    recipe = write_tiny(tmp_path)
    command = ["train", recipe, "train.validate_every=20", "--out", tmp_path / "o"]
    small = (10_000, resource.RLIM_INFINITY)
    ended = regard_apart(*command, prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, small))
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert "regard: Saving the checkpoint step-00000010" in ended.err
    assert "File too large" in ended.err
    assert not any((tmp_path / "o" / "checkpoints").glob("[!.]*"))
    result = regard("train", recipe, "--out", tmp_path / "o")
    assert result.code == 0, result.err

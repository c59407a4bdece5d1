"""Commands that are no commands: one sentence, exit code 2, and where to look."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.command import RECIPE, contents, refused, regard, tiny, trained

MISTYPED = [
    (["trian"], "No such command 'trian'", "'train'", "'regard --help'"),
    (["evaluat", "run"], "'evaluat'", "'evaluate'"),
    (["frobnicate"], "'frobnicate'", "'regard --help'"),
    (["train"], "RECIPE", "'regard train --help'"),
    (["predict"], "RUN", "'regard predict --help'"),
    (["lens", "run"], "TEXT", "'regard lens --help'"),
    (["explain"], "RECIPE|RUN", "'regard explain --help'"),
    (["train", "translate", "--stesp", "3"], "--stesp", "'regard train --help'"),
    (["doctor", "--jsn"], "--jsn", "--json"),
    (["recipes", "translate"], "translate", "'regard recipes --help'"),
    (["doctor", "now"], "now"),
    (["bench", "nothing-of-the-kind"], "no benchmark 'nothing-of-the-kind'", "'regard bench' lists them"),
    (["train", "translate", "--out"], "--out", "argument"),
    (["predict", "run", "-dash"], "-d", "'regard predict --help'"),
    (["--version-of-nothing"], "--version-of-nothing"),
]


@pytest.mark.parametrize("case", MISTYPED, ids=lambda case: " ".join(case[0]))
def test_a_mistyped_command(case: tuple[list[str], str]) -> None:
    arguments, *told = case
    assert refused(regard(*arguments), *told).count("\n") == 1


def test_an_unknown_recipe_names_the_nearest() -> None:
    for verb in ("train", "explain"):
        refused(regard(verb, "transalte"), "'transalte'", "did you mean 'translate'?", ".toml")


@pytest.mark.parametrize("device", ["gpu", "", "cuda:-1", "cpu:x", "CUDA", "mps", "cuda:99999999999999999999"])
@pytest.mark.parametrize("verb", ["train", "predict", "evaluate", "lens"])
def test_a_device_that_is_none(verb: str, device: str, tmp_path: Path) -> None:
    rest = {"train": [tiny(), "--out", tmp_path / "o"], "predict": [trained(), "x"], "lens": [trained(), "x"]}
    refused(regard(verb, *rest.get(verb, [trained()]), "--device", device), f"--device {device}", "cpu")
    assert not (tmp_path / "o").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device")
def test_cuda_where_there_is_none(tmp_path: Path) -> None:
    refused(regard("train", tiny(), "--out", tmp_path / "o", "--device", "cuda"), "--device cuda", "no CUDA", "--device cpu")
    assert not (tmp_path / "o").exists()


WRONG_RECIPES = [
    ("[train", "is not valid TOML", "at end of document"),
    ("[train]\nsteps = 3 4\n", "is not valid TOML", "line 2"),
    ("\0", "is not valid TOML"),
    ("[trian]\nsteps = 3", "no section [trian]", "did you mean 'train'?"),
    ("steps = 3", "no section [steps]", "(known: data,"),
    ("train = 3", "train must be a section"),
    ("", "train.steps=0 must be at least 1"),
    (RECIPE + "bem = 3", "decode.bem is not a setting", "did you mean 'decode.beam'?"),
    (RECIPE + 'length_penalty = "big"', "decode.length_penalty", "a number"),
    (RECIPE + '[objective]\nname = "denoising"', "objective.name=denoising"),
]


@pytest.mark.parametrize("case", WRONG_RECIPES, ids=lambda case: case[1])
def test_a_recipe_that_is_none(case: tuple[str, ...], tmp_path: Path) -> None:
    text, *told = case
    (tmp_path / "wrong.toml").write_text(text)
    before = contents(tmp_path)
    for verb in ("explain", "train"):
        out = ["--out", tmp_path / "o"] if verb == "train" else []
        refused(regard(verb, tmp_path / "wrong.toml", *out), *told)
    assert contents(tmp_path) == before


def test_a_recipe_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    refused(regard("train", tmp_path / "none.toml"), "none.toml does not exist", "'regard recipes'")
    refused(regard("train", tmp_path / "latin.toml"), "latin.toml", "is not UTF-8 text (byte 6)")
    refused(regard("train", tmp_path), str(tmp_path), "recipe.toml")
    refused(regard("train", tmp_path / "latin.toml" / "x.toml"), "x.toml", "does not exist")


# ------------------------------------------------------------------------------------------------------------ a real process


def python_m_regard(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, **options)  # type: ignore[call-overload]


def test_the_same_in_a_real_process() -> None:
    ended = python_m_regard("train", "translate", "train.step=3")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"regard: train\.step is not a setting.*did you mean 'train\.steps'\?\n", ended.stderr)


def test_a_reader_that_leaves_is_no_mistake() -> None:
    """Whether it leaves before the first line or in the middle of many."""
    for reader in ("true", "head -1"):
        command = f"{sys.executable} -m regard recipes --json | {reader}"
        ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=600)
        assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_that_is_full_under_the_output() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "regard", "recipes"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
    assert ended.returncode == 2
    assert ended.stderr.startswith("regard: the output cannot be read or written: No space left on device.")
    assert "Traceback" not in ended.stderr

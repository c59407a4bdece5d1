"""A Perceiver in the tasks that take it: masked bytes, labels of texts that begin with them, and labels of images."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.command import refused, regard, tiny

TEXT = [
    "model.family=perceiver",
    "model.reads=text",
    "model.positions=learned",
    "model.width=16",
    "model.latents=4",
    "model.layers=1",
    "model.heads=2",
    "model.input_width=16",
    "model.maximum_length=64",
    "text.tokenizer=byte",
    "text.size=0",
    "text.lowercase=false",
    "train.steps=4",
    "train.warmup=1",
    "train.tokens_per_batch=512",
]
SMALL = ["model.width=16", "model.latents=4", "model.layers=1", "model.heads=2", "model.image_size=8", "model.bands=2"]
SHAPES = [f"data.{split}=builtin:shapes@count=20/{split}" for split in ("train", "valid", "test")]


def recipe(folder: Path, task: str, data: str) -> Path:
    path = folder / f"{task}.toml"
    splits = "".join(f'{split} = ["builtin:{data}/{split}"]\n' for split in ("train", "valid", "test"))
    path.write_text(f'[task]\nname = "{task}"\n[data]\n{splits}')
    return path


@cache
def masked() -> Path:
    folder = tiny().parent / "perceiver"
    folder.mkdir(exist_ok=True)
    result = regard("train", recipe(folder, "masked_lm", "python-reference"), *TEXT, "--out", folder / "masked")
    assert result.code == 0, result.err
    return folder / "masked"


def test_masked_bytes_are_filled_in() -> None:
    found = json.loads(regard("predict", masked(), "the [MASK]at", "--json").out)
    assert len(found["blanks"]) == 1
    refused(regard("lens", masked(), "the [MASK]at", "--show", "weights"), "by way of 4 latents only")


def test_a_classifier_begins_with_masked_bytes(tmp_path: Path) -> None:
    given = [*TEXT, "data.limit=60", "data.maximum_tokens=64", f"task.init_from={masked()}"]
    result = regard("train", recipe(tmp_path, "classification", "reviews"), *given, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    answer = regard("predict", tmp_path / "run", "a good film")
    assert answer.code == 0, answer.err
    refused(regard("lens", tmp_path / "run", "a good film", "--show", "weights"), "by way of 4 latents only")


def test_images_have_labels(tmp_path: Path) -> None:
    given = [*SMALL, *SHAPES, "train.epochs=1", "train.examples_per_batch=10"]
    result = regard("train", "perceiver", *given, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    scored = json.loads(regard("evaluate", tmp_path / "run", "--json").out)
    assert 0 <= scored["accuracy"] <= 1
    answer = regard("predict", tmp_path / "run", "builtin:shapes/test/3")
    assert answer.code == 0, answer.err


def test_images_are_read_as_images_alone(tmp_path: Path) -> None:
    refused(
        regard("train", "perceiver", *SHAPES, "model.stem=false", "model.reads=text", "--out", tmp_path / "run"),
        "set model.reads=image",
    )


@pytest.mark.parametrize("reads", ["image", "both", "series"])
def test_words_are_read_as_text_alone(reads: str, tmp_path: Path) -> None:
    result = regard(
        "train", recipe(tmp_path, "masked_lm", "python-reference"), *TEXT, f"model.reads={reads}", "--out", tmp_path / "run"
    )
    refused(result, f"model.reads={reads} reads no words to fill in")

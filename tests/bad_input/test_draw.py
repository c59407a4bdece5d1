"""Images, settings and wishes that cannot be trained on or drawn, through the command: one sentence each, and nothing is left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command import contents, refused, regard
from tests.tasks.image_generation.tiny_images import TINY, trained, write_image


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (("data.train=",), ["data.train is empty", "a folder of images"]),
        (("data.valid=",), ["data.valid is empty"]),
        (("data.train=nowhere/",), ["nowhere"]),
        (("data.keep=1",), ["data.keep=1"]),
        (("data.keep=0",), ["data.keep=0"]),
        (("model.levels=5000",), ["5000 colours are more than the", "that the training images have"]),
        (("model.pixels=grey", "model.levels=300"), ["model.levels=300 is more than the 256"]),
        (("model.classes=7",), ["data.train has 10 classes, and model.classes=7", "set model.classes=10"]),
        (("data.valid=builtin:shapes/tset",), ["no split 'tset'"]),
        (("model.small=3",), ["model.small=3", "such as 4"]),
        (("model.output=logistic",), ["colours of a palette have none"]),
        (("model.coupled=true",), ["model.coupled=true is for"]),
        (("model.pixels=hsv",), ["model.pixels=hsv"]),
        (("model.visibility=image-local-2d(9, 2, 2, 2, 2)",), ["has 8 in a row"]),
        (("model.maximum_length=64",), ["model.maximum_length=64 is for texts"]),
        (("model.family=gpt",), ["model.family=gpt is not known", "image_transformer"]),
        (("objective.name=causal_lm",), ["objective.name=causal_lm is not known", "pixels"]),
        (("text.tokenizer=word",), ["text.tokenizer"]),
        (("task.init_from=nowhere",), ["nowhere"]),
    ],
)
def test_what_cannot_be_trained_on(settings: tuple[str, ...], told: list[str], tmp_path: Path) -> None:
    refused(regard("train", "pixels", *TINY, *settings, "--out", tmp_path / "run", "--device", "cpu"), *told)
    assert contents(tmp_path) == {}


def test_images_that_are_broken_are_told_before_training(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    for n in range(3):
        write_image(folder / f"{n}.png", seed=n)
    (folder / "2.png").write_bytes((folder / "2.png").read_bytes()[:40])
    settings = (
        f"data.train={tmp_path / 'photos'}",
        "data.valid=",
        "data.valid_fraction=0.4",
        "model.classes=0",
        "model.levels=4",
    )
    refused(regard("train", "pixels", *TINY, *settings, "--out", tmp_path / "run", "--device", "cpu"), "2.png")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "wish", "told"),
    [
        ("classes", ["circle over squares"], ["'circle over squares' is no image file", "circle over square"]),
        ("grey", ["circle over square"], ["is no image file"]),
        ("grey", ["nowhere.png"], ["nowhere.png"]),
        ("grey", ["builtin:shapes/test"], ["give one, such as builtin:shapes/test/0"]),
        ("grey", ["builtin:shape/test/1"], ["builtin:shape/test/1"]),
        ("small", [], ["enlarges small images of 2 x 2 pixels"]),
        ("grey", ["a.png", "data.keep=0.01"], ["keeps 0 of the 8 rows"]),
        ("grey", ["a.png", "data.keep=0.99"], ["keeps 8 of the 8 rows"]),
        ("grey", ["decode.search=beam"], ["decode.search=beam", "an empty one"]),
        ("grey", ["decode.maximum_length=9"], ["decode.maximum_length is for texts"]),
        ("grey", ["decode.stop=x"], ["decode.stop is for texts"]),
        ("grey", ["decode.repetition_penalty=1.2"], ["decode.repetition_penalty is for texts"]),
        ("grey", ["decode.temperature=-1"], ["decode.temperature is -1"]),
        ("grey", ["decode.samples=0"], ["decode.samples is 0"]),
        ("grey", ["model.levels=9"], ["model.levels=9 (was 8) cannot be set for a trained run"]),
    ],
)
def test_wishes_that_cannot_be_drawn(kind: str, wish: list[str], told: list[str], tmp_path: Path) -> None:
    words = [str(write_image(tmp_path / word)) if word == "a.png" else word for word in wish]
    before = contents(tmp_path)
    refused(regard("predict", trained(kind), *words, "--output", tmp_path / "sheet.png", "--device", "cpu"), *told)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ((), "give --output sheet.png"),
        (("sheet.jpg",), "images are written as .png"),
        (("none/sheet.png",), "none"),
        (("taken",), "is a folder"),
    ],
)
def test_places_that_cannot_be_written(output: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    given = ("--output", tmp_path / output[0]) if output else ()
    refused(regard("predict", trained("grey"), *given, "--device", "cpu"), told)
    assert [path.name for path in tmp_path.rglob("*")] == ["taken"]


def test_an_image_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"not an image")
    wide = Image.fromarray(np.zeros((4, 40, 3), np.uint8))
    wide.save(tmp_path / "wide.png")
    refused(regard("predict", trained("grey"), tmp_path / "a.png", "--output", tmp_path / "s.png"), "a.png is not an image")
    result = regard("predict", trained("grey"), tmp_path / "wide.png", "--output", tmp_path / "s.png")
    assert result.code == 0, result.err  # another size is cut to its middle, as data.resize says


def test_a_run_whose_classes_or_weights_are_damaged(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained("classes"), tmp_path / "run"))
    labels = json.loads((run / "labels.json").read_text())
    (run / "labels.json").write_text(json.dumps(labels | {"labels": labels["labels"][::-1]}))
    refused(regard("predict", run, "--output", tmp_path / "s.png"), "labels.json")
    (run / "labels.json").unlink()
    refused(regard("predict", run, "--output", tmp_path / "s.png"), "labels.json")
    assert not (tmp_path / "s.png").exists()


def test_a_palette_that_is_broken_is_told_by_import(tmp_path: Path) -> None:
    public = ("model.classes=0", "model.grid=false", "model.position=learned", "model.norm=rms", "model.activation=quick_gelu")
    assert regard("train", "pixels", *TINY, *public, "--out", tmp_path / "run", "--device", "cpu").code == 0
    assert regard("export", tmp_path / "run", tmp_path / "out").code == 0
    path = tmp_path / "out" / "preprocessor_config.json"
    described = json.loads(path.read_text())
    for clusters, told in (
        (described["clusters"][:-1], "has 7 clusters"),
        ([[2, 0, 0]] * 8, "from -1 to 1"),
        (None, "no clusters"),
    ):
        path.write_text(json.dumps(described | {"clusters": clusters}))
        refused(regard("import", tmp_path / "out", tmp_path / "back"), told)
        assert not (tmp_path / "back").exists()
    path.unlink()
    refused(regard("import", tmp_path / "out", tmp_path / "back"), "preprocessor_config.json")

"""What a trained image classifier answers: files, folders, archives, tables, built-in images; in Python and by command."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.builtin.shapes import draw_shapes
from regard.tasks.registry import open_run
from tests.command import refused, regard, went_well
from tests.tasks.image_classification.tiny_images import trained


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """A folder of three images."""
    folder = tmp_path / "new"
    folder.mkdir()
    for n, image in enumerate(draw_shapes("test", range(3), 16)[0]):
        Image.fromarray(image).save(folder / f"{n}.png")
    return folder


def test_a_file_a_folder_an_archive_and_a_built_in_image_say_the_same(drawn: Path, tmp_path: Path) -> None:
    run = trained()
    with tarfile.open(tmp_path / "new.tar.gz", "w:gz") as archive:
        archive.add(drawn, "new")
    said = [
        regard("predict", run, drawn),
        regard("predict", run, *(drawn / f"{n}.png" for n in range(3))),
        regard("predict", run, tmp_path / "new.tar.gz"),
        regard("predict", run, *(f"builtin:shapes/test/{n}" for n in range(3))),
    ]
    assert all(map(went_well, said)), said
    answers = [[line.split("\t")[1:] for line in result.out.splitlines()] for result in said]
    assert all(len(answer) == 3 for answer in answers)
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_probabilities_are_the_softmax_of_the_models_scores(drawn: Path) -> None:
    run, name = trained("vit"), str(drawn / "1.png")
    told = json.loads(regard("predict", run, name, "--json").out)
    model = open_run(run, "cpu").model
    with torch.no_grad():
        expected = model(torch.from_numpy(np.asarray(Image.open(name)).copy())[None]).softmax(-1)[0]
    assert list(told["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-5)
    assert told["label"] == max(told["probabilities"], key=told["probabilities"].get)
    assert told["image"] == name


def test_images_of_another_size_mode_and_shape_are_read(tmp_path: Path) -> None:
    for name, picture in {
        "wide.jpg": Image.new("RGB", (50, 20), "red"),
        "grey.png": Image.new("L", (8, 8), 100),
        "cmyk.jpg": Image.new("CMYK", (20, 20)),
        "clear.webp": Image.new("RGBA", (20, 20), (0, 0, 0, 0)),
    }.items():
        picture.save(tmp_path / name)
    assert len(regard("predict", trained(), tmp_path).out.splitlines()) == 4


def test_a_table_comes_back_with_new_columns(drawn: Path) -> None:
    table = drawn / "list.csv"
    table.write_text("number,file,age\n1,0.png,3\n2,,4\n3,2.png,5\n")
    result = regard("predict", trained(), "--input", table)
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert list(rows[0]) == ["number", "file", "age", "predicted", "probability"]
    alone = [line.split("\t")[1] for line in regard("predict", trained(), drawn / "0.png", drawn / "2.png").out.splitlines()]
    assert [row["predicted"] for row in rows] == [alone[0], "", alone[1]]
    lines = drawn / "list.jsonl"
    lines.write_text('{"image": "2.png", "kept": 1}\n')
    told = json.loads(regard("predict", trained(), "--input", lines).out)
    assert told["kept"] == 1
    assert told["predicted"] == alone[1]


def test_a_list_of_paths_one_on_each_line(drawn: Path) -> None:
    (drawn.parent / "list.txt").write_text(f"{drawn / '0.png'}\n\n{drawn / '1.png'}\n")
    assert regard("predict", trained(), "--input", drawn.parent / "list.txt").out.count("\n") == 3


def test_python_opens_a_run_and_asks(drawn: Path) -> None:
    answers = open_run(trained(), "cpu")
    assert isinstance(answers(str(drawn / "0.png")), str)  # type: ignore[operator]
    assert len(answers([str(drawn / "0.png"), "builtin:shapes/test/0"])) == 2  # type: ignore[operator]


def test_what_cannot_be_predicted_is_said(drawn: Path, tmp_path: Path) -> None:
    run = trained()
    (drawn / "broken.png").write_bytes(b"no image")
    (tmp_path / "empty").mkdir()
    for given, told in (
        (drawn / "missing.png", "missing.png does not exist"),
        (drawn / "broken.png", "broken.png is not an image that can be read"),
        (drawn, "broken.png is not an image that can be read"),
        (tmp_path / "empty", "holds no pictures"),
        ("builtin:shapes/test/9999", "names no image"),
        ("builtin:shapes", "lacks a split"),
    ):
        refused(regard("predict", run, given), told)
    refused(regard("predict", run, drawn / "0.png", "model.width=32"), "cannot be set for a trained run")
    other = tmp_path / "other"
    shutil.copytree(run, other)
    (other / "labels.json").unlink()
    refused(regard("predict", other, drawn / "0.png"), "There are no labels")
    shutil.copytree(run, tmp_path / "third")
    (tmp_path / "third" / "labels.json").write_text('{"texts": 1, "labels": ["a", "b"]}')
    refused(regard("predict", tmp_path / "third", drawn / "0.png"), "do not fit its labels.json")

"""Wrong images, questions and answers, in files and typed: one sentence each, and nothing left behind."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from PIL import Image

from tests.command import contents, refused, regard
from tests.command import trained as translator
from tests.tasks.tiny_visual_questions import SMALL, TRAIN, trained, write_images

GOOD = {"image": "0.png", "question": "what is it ?", "answer": "red"}
COLUMNS = "data.columns=IMAGE,QUESTION,ANSWER"
TRIPLE = '["question", "answer", 7]'


def lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in (GOOD, {**GOOD, "answer": "blue"}, *records)).encode()


def about(image: str) -> bytes:
    return lines({**GOOD, "image": image})


def bomb() -> bytes:
    """Return a PNG of a few bytes that says it has 60,000 x 60,000 pixels."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b""), b"IEND")
    parts = [struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


FILES: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("empty.tsv", b"", ("empty.tsv",)),
    ("blank.jsonl", b"\n\n", ("blank.jsonl",)),
    ("half.jsonl", lines() + b'{"image": "0', ("half.jsonl, line 3", "not JSON")),
    ("list.jsonl", lines() + b"[1]\n", ("line 3", "object expected")),
    ("noimage.jsonl", lines({"question": "x", "answer": "y"}), ("line 3", "no column 'image'", COLUMNS)),
    ("noanswer.jsonl", lines({"image": "0.png", "question": "x"}), ("line 3", "no column 'answer'")),
    ("number.jsonl", lines({**GOOD, "answer": 3}), ("column 'answer' holds int",)),
    ("answers.jsonl", lines({"image": "0.png", "question": "x", "answers": []}), ("answers must be a list",)),
    ("silent.jsonl", lines({**GOOD, "question": " "}), ("line 3", "the question is empty")),
    ("nothing.jsonl", lines({**GOOD, "answer": ""}), ("line 3", "the answer is empty")),
    ("long.jsonl", lines({**GOOD, "question": "x" * 3000}), ("3,000 characters", "2,000 are taken at most")),
    ("latin.tsv", "0.png\tcafé ?\tyes\n".encode("latin-1"), ("latin.tsv, line 1", "not UTF-8", "iconv")),
    ("two.tsv", b"0.png\twhat?\n", ("line 1", "columns found: 2, expected: 3")),
    ("quote.csv", b'0.png,"what,red\n', ("quote.csv", "not CSV")),
    ("cut.tsv.gz", gzip.compress(b"0.png\twhat?\tred\n")[:-9], ("not a whole gzip file",)),
    ("pairs.json", b'{"a": 1}', ("a list expected", "easy-VQA")),
    ("triple.json", b'[["what?", "red"]]', ("question 1", TRIPLE)),
    ("boolean.json", b'[["what?", "red", true]]', ("question 1", TRIPLE)),
    ("missing.jsonl", about("7.png"), ("there is no image", "images/7.png", "data.images")),
    ("outside.jsonl", about("../secret.png"), ("secret.png",)),
    ("broken.jsonl", about("broken.png"), ("broken.png is not an image that can be read",)),
    ("bomb.jsonl", about("bomb.png"), ("bomb.png is not an image that can be read", "decompression bomb")),
    ("notes.jsonl", about("notes.txt"), ("notes.txt is not an image that can be read",)),
]


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize(("name", "content", "told"), FILES, ids=[name for name, _, _ in FILES])
def test_a_wrong_file(split: str, name: str, content: bytes, told: tuple[str, ...], tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    stored = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stored, "PNG")
    (tmp_path / "images/broken.png").write_bytes(stored.getvalue()[:40])
    (tmp_path / "images/bomb.png").write_bytes(bomb())
    (tmp_path / "images/notes.txt").write_text("no image")
    (tmp_path / "good.jsonl").write_bytes(lines())
    (tmp_path / name).write_bytes(content)
    before = contents(tmp_path)
    where = [f"data.{part}={tmp_path / (name if part == split else 'good.jsonl')}" for part in ("train", "valid")]
    given = [*where, f"data.images={tmp_path}/images"]
    result = regard("train", "vqa-scenes", *SMALL, *TRAIN, *given, "--out", tmp_path / "run")
    assert refused(result, *told).startswith(f"regard: data.{split}:")
    assert contents(tmp_path) == before


SETTINGS: list[tuple[str, tuple[str, ...]]] = [
    ("data.train=builtin:scene-question/train", ("builtin:scene-questions/train",)),
    ("data.train=builtin:scene-questions", ("lacks a split",)),
    ("data.train=builtin:scene-questions/trial", ("no split 'trial'",)),
    ("data.train=builtin:scene-questions@count=0/train", ("asks for no scene",)),
    ("data.train=nowhere.tsv", ("nowhere.tsv",)),
    ("data.columns=image,question", ("data.columns has 2 names",)),
    ("data.most_answers=1", ("data.most_answers=1 must be at least 2",)),
    ("data.n_best=0", ("data.n_best=0",)),
    ("data.maximum_question=0", ("data.maximum_question=0",)),
    ("model.family=gpt", ("model.family=gpt is not known for task.name=visual_questions",)),
    ("model.patch=5", ("model.image_size=16 is not a multiple of model.patch=5",)),
    ("objective.name=captioning", ("objective.name=captioning is not known",)),
    ("objective.smoothing=2", ("objective.smoothing=2.0",)),
    ("task.init_from=runs/other", ("runs/other",)),
]


@pytest.mark.parametrize(("setting", "told"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_a_wrong_setting(setting: str, told: tuple[str, ...], tmp_path: Path) -> None:
    refused(regard("train", "vqa-scenes", *SMALL, *TRAIN, setting, "--out", tmp_path / "run"), *told)
    assert contents(tmp_path) == {}


def test_a_perceiver_that_reads_one_input_is_refused(tmp_path: Path) -> None:
    result = regard("train", "vqa-scenes-perceiver", *TRAIN, "model.reads=image", "--out", tmp_path / "run")
    refused(result, "model.reads=image reads one input", "model.reads=both")


def test_one_answer_for_all_is_nothing_to_learn(tmp_path: Path) -> None:
    write_images(tmp_path)
    (tmp_path / "same.tsv").write_text("0.png\twhat?\tred\n1.png\twhat?\tred\n")
    given = [f"data.{split}={tmp_path}/same.tsv" for split in ("train", "valid")]
    refused(regard("train", "vqa-scenes", *SMALL, *TRAIN, *given, "--out", tmp_path / "run"), "one answer only, 'red'")


TYPED: list[tuple[list[str], tuple[str, ...]]] = [
    (["what is it?"], ("comes without an image", "IMAGE.png")),
    (["builtin:scenes/test/3"], ("comes without a question",)),
    (["nowhere.png", "what is it?"], ("nowhere.png",)),
    (["builtin:scenes/test/999999", "what?"], ("builtin:scenes/test",)),
    (["builtin:scenes/test/3\t "], ("the question is empty",)),
    (["\twhat?"], ("the image is empty",)),
]


@pytest.mark.parametrize(("texts", "told"), TYPED, ids=[texts[0].strip() for texts, _ in TYPED])
def test_a_wrong_question_typed(texts: list[str], told: tuple[str, ...]) -> None:
    refused(regard("predict", trained(), *texts), *told)


LOOKS: list[tuple[list[str], tuple[str, ...]]] = [
    (["builtin:scenes/test/3"], ("question is empty",)),
    (["nowhere.png", "what?"], ("nowhere.png",)),
    (["builtin:scenes/test/3", "what?", "--part", "encoder"], ("--part encoder",)),
]


@pytest.mark.parametrize(("texts", "told"), LOOKS)
def test_a_wrong_look(texts: list[str], told: tuple[str, ...]) -> None:
    refused(regard("lens", trained(), *texts), *told)


def test_two_texts_are_an_image_and_a_question_or_nothing() -> None:
    refused(regard("lens", translator(), "the cat", "the dog"), "one text is drawn at a time", "'the dog' is a second")


DAMAGED = ["", "{", "[]", '{"answers": ["a"]}', '{"answers": ["a", 3], "majority": "a", "by_question": {}}']


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_answers(content: str, tmp_path: Path) -> None:
    copytree(trained(), tmp_path / "run")
    (tmp_path / "run/answers.json").write_text(content)
    refused(regard("predict", tmp_path / "run", "builtin:scenes/test/3", "what?"), "answers.json")

"""A teacher that cannot teach this, or a student that cannot learn from it: one sentence each, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.command import contents, refused, regard
from tests.command import trained as translator
from tests.tasks.adopted_folder import folder_of
from tests.tasks.classification.test_prepare import language_model
from tests.tasks.tiny_labels import PAIRS, ROWS, TINY, train_as, write_rows
from tests.tasks.tiny_labels import recipe as classify_recipe
from tests.tasks.tiny_teacher import STUDY, teacher


def study(folder: Path, *settings: object, recipe: str = "distil") -> str:
    """What is told to whoever types this, once it was refused and has left nothing behind."""
    data = teacher().parent / "rows.tsv"
    given = [f"objective.teacher={teacher()}"] if recipe == "distil" else []
    before = contents(folder)
    typed = [*given, f"data.train={data}", f"data.valid={data}", *STUDY, *settings]
    result = regard("train", recipe, *typed, "--out", folder / "run", "--device", "cpu")
    assert contents(folder) == before
    return refused(result)


def is_told(message: str, *parts: str) -> bool:
    return all(part in message for part in parts)


SETTINGS: list[tuple[list[str], tuple[str, ...]]] = [
    (["objective.teacher="], ("objective.teacher is empty", "runs/bert-classify")),
    (["objective.teacher=runs/bert-classify"], ("does not exist", "'regard train bert-classify'")),
    (["objective.teacher=no/such/run"], ("no/such/run does not exist", "hf:NAME")),
    (["objective.temperature=0"], ("objective.temperature=0", "above 0")),
    (["objective.temperature=warm"], ("objective.temperature=warm", "number")),
    (["objective.soft=-1"], ("objective.soft=-1.0", "0 (off) or more")),
    (["objective.hard=nan"], ("objective.hard=nan",)),
    (["objective.soft=0", "objective.cosine=0"], ("nothing to teach",)),
    (["objective.temprature=3"], ("temprature", "did you mean 'objective.temperature'?")),
    (["objective.inherit=perhaps"], ("objective.inherit=perhaps", "true or false")),
    (["model.layers=3"], ("model.layers=3", "has 2 there", "objective.inherit=false")),
    (["model.layers=0"], ("model.layers=0",)),
    (["model.width=48"], ("model.width=48", "has 24 there", "objective.inherit=false")),
    (["model.norm_placement=pre"], ("model.norm_placement=pre", "objective.inherit=false")),
    (["model.family=gpt"], ("a gpt is to learn", "is a bert")),
    (["text.size=99"], ("text.size=99", "vocabulary of its teacher")),
    (["text.tokenizer=bpe"], ("text.tokenizer=bpe", "vocabulary of its teacher")),
    (["objective.inherit=false", "model.width=16"], ("objective.cosine=0.2", "16", "24", "set objective.cosine=0")),
    (["objective.inherit=false", "model.layers=3"], ("the student has", "parameters", "smaller")),
    (["objective.inherit=false", "model.width=96", "objective.cosine=0"], ("the student has", "parameters", "model.width")),
    (["data.unlabelled=no/such.txt"], ("data.unlabelled", "does not exist")),
    (["data.unlabelled=builtin:inference/train"], ("data.unlabelled", "texts found: 2, expected: 1")),
    (["data.unlabelled=builtin:remrks/train"], ("data.unlabelled", "did you mean 'remarks'?")),
    (["data.valid="], ("data.valid is empty",)),
]


@pytest.mark.parametrize(("settings", "told"), SETTINGS, ids=[" ".join(settings) for settings, _ in SETTINGS])
def test_a_setting_that_cannot_be(settings: list[str], told: tuple[str, ...], tmp_path: Path) -> None:
    message = study(tmp_path, *settings)
    assert is_told(message, *told), message


UNLABELLED: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("empty.txt", b"", ("empty.txt is empty",)),
    ("blank.txt", b"\n \n", ("blank.txt is empty",)),
    ("tab.txt", b"one text\nand two\ttexts\n", ("line 2", "texts found: 2, expected: 1")),
    ("wide.tsv", b"a\tb\tc\n", ("line 1", "columns found: 3 (a, b, c), expected: 1")),
    ("ragged.tsv", b"a\nb\tc\n", ("line 2", "columns found: 2, expected: 1")),
    ("names.jsonl", b'{"sentence": "a"}\n', ("line 1", "no column 'text'")),
    ("gap.jsonl", b'{"text": " "}\n', ("line 1", "is empty, but a text is needed")),
    ("latin.txt", b"caf\xe9\n", ("line 1, byte 4", "iconv")),
    ("word.docx", b"PK", ("neither text nor a table", "*.txt")),
    ("long.txt", b"very " * 20_000, ("line 1 is 20,002 tokens long", "data.maximum_tokens=24")),
]


@pytest.mark.parametrize(("name", "content", "told"), UNLABELLED, ids=[name for name, *_ in UNLABELLED])
def test_unlabelled_texts_that_are_none(name: str, content: bytes, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    message = study(tmp_path, f"data.unlabelled={tmp_path / name}")
    assert is_told(message, f"data.unlabelled: {tmp_path / name}", *told), message


def test_unlabelled_texts_are_for_students(tmp_path: Path) -> None:
    message = study(tmp_path, *TINY, "data.unlabelled=builtin:remarks/train", recipe="bert-classify")
    assert is_told(message, "data.unlabelled is for a student", "recipe distil"), message


# ------------------------------------------------------------------------------------------------- teachers of something else


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertModel", "BertForTokenClassification", "BertForQuestionAnswering"])
def test_a_public_folder_that_does_not_classify(kind: str, tmp_path: Path) -> None:
    message = study(tmp_path, f"objective.teacher={folder_of(kind)}")
    assert is_told(message, "does not sort texts into classes", "finetune-classify"), message


def test_a_language_model(tmp_path: Path) -> None:
    master = language_model(tmp_path)
    message = study(tmp_path, f"objective.teacher={master}", "model.family=gpt")
    assert is_told(message, f"objective.teacher={master} does not sort texts into classes"), message


def test_a_rater(tmp_path: Path) -> None:
    numbers = write_rows(tmp_path / "numbers.tsv", [(text, str(n)) for n, (text, _) in enumerate(ROWS)])
    typed = [*TINY, f"data.train={numbers}", f"data.valid={numbers}", "train.steps=5"]
    assert regard("train", "bert-similarity", *typed, "--out", tmp_path / "rater", "--device", "cpu").code == 0
    message = study(tmp_path, f"objective.teacher={tmp_path / 'rater'}")
    assert is_told(message, "does not sort texts into classes"), message


def test_a_translator(tmp_path: Path) -> None:
    message = study(tmp_path, f"objective.teacher={translator()}")
    assert is_told(message, f"objective.teacher={translator()} is a transformer", "give another teacher"), message


def test_a_folder_that_is_no_model_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a teacher")
    assert "config.json" in study(tmp_path, f"objective.teacher={tmp_path / 'folder'}")
    assert "does not exist" in study(tmp_path, f"objective.teacher={tmp_path / 'file'}")


def test_a_teacher_whose_labels_are_lost(tmp_path: Path) -> None:
    shutil.copytree(teacher(), tmp_path / "copy")
    (tmp_path / "copy" / "labels.json").unlink()
    assert "no labels at" in study(tmp_path, f"objective.teacher={tmp_path / 'copy'}")


# -------------------------------------------------------------------------------------------- data and starts that do not fit


def test_labels_that_the_teacher_does_not_know(tmp_path: Path) -> None:
    other = write_rows(tmp_path / "other.tsv", [(text, label.replace("good", "goood")) for text, label in ROWS])
    message = study(tmp_path, f"data.train={other}")
    assert is_told(message, "line 1", "'goood'", f"objective.teacher={teacher()}", "did you mean 'good'?"), message
    assert "'goood'" in study(tmp_path, f"data.valid={other}")


def test_pairs_for_a_teacher_of_texts_and_texts_for_one_of_pairs(tmp_path: Path) -> None:
    pairs = write_rows(tmp_path / "pairs.tsv", PAIRS)
    message = study(tmp_path, f"data.train={pairs}", f"data.valid={pairs}")
    assert is_told(message, "was trained on single texts", "pairs of texts"), message
    message = study(tmp_path, f"objective.teacher={teacher(pairs=True)}")
    assert is_told(message, "was trained on pairs of texts", "single texts"), message


def test_a_start_beside_the_teachers_layers_and_one_with_another_vocabulary(tmp_path: Path) -> None:
    message = study(tmp_path, f"task.init_from={teacher()}")
    assert is_told(message, "task.init_from=", "objective.inherit=true", "both say"), message
    rows = write_rows(tmp_path / "other.tsv", [(f"{text} entirely", label) for text, label in ROWS])
    train_as(classify_recipe(rows, "model.family=bert", "objective.language=0", "train.steps=5"), tmp_path / "start")
    message = study(tmp_path, f"task.init_from={tmp_path / 'start'}", "objective.inherit=false")
    assert is_told(message, "another vocabulary than its student"), message

"""Pre-training and filling in with what cannot be: one sentence each, before anything is trained or written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.command import Result, contents, refused, regard
from tests.tasks.tiny_masks import TINY, data, trained

WRONG = [
    ("bert", "objective.mask_rate=0", "objective.mask_rate=0.0 must be between 0 and 1"),
    ("bert", "objective.mask_rate=1.5", "objective.mask_rate=1.5 must be between 0 and 1"),
    ("bert", "objective.mask_rate=nan", "objective.mask_rate=nan"),
    ("bert", "objective.mask_rat=0.2", "objective.mask_rat is not a setting", "mask_rate"),
    ("bert", "objective.weight=50", "objective.weight is not a setting"),
    ("bert", "objective.name=replaced", "objective.name=replaced", "model.family=electra"),
    ("bert", "objective.name=mask", "objective.name=mask", "did you mean 'masked'?"),
    ("bert", "objective.whole_words=perhaps", "objective.whole_words=perhaps must be true or false"),
    ("bert", "model.family=gpt", "model.family=gpt", "task.name=masked_lm", "bert"),
    ("bert", "model.family=electra", "model.family=electra", "objective.name=replaced"),
    ("bert", "data.window=4", "data.window=4 leaves 2 tokens beside the marks"),
    ("bert", "data.window=400", "data.window=400 is more than model.maximum_length=24"),
    ("bert", "data.train=", "data.train is empty", "give a text file"),
    ("bert", "data.train=no-such.txt", "no-such.txt does not exist"),
    ("bert", "data.valid=no-such.txt", "no-such.txt does not exist"),
    ("bert", "data.test=no-such.txt", "no-such.txt does not exist"),
    ("bert", "data.columns=text", "data.columns is not a setting", "column"),
    ("bert", "task.init_from=nowhere", "nowhere"),
    ("bert", "model.deviation=0", "model.deviation=0.0 must be above 0"),
    ("electra", "objective.weight=0", "objective.weight=0.0 must be above 0"),
    ("electra", "objective.weight=inf", "objective.weight=inf must be above 0"),
    ("electra", "objective.next_sentence=true", "objective.next_sentence is not a setting"),
    ("electra", "model.generator_width=12", "model.generator_width=12 must"),
    ("electra", "model.family=bert", "model.generator_width is not a setting"),
]


def train(family: str, *settings: str, out: Path) -> Result:
    narrow = ["model.generator_width=8"] if family == "electra" else []
    return regard("train", family, f"data.train={data()}", *TINY, *narrow, *settings, "--out", out, "--device", "cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("family", "setting", "told"), [(row[0], row[1], row[2:]) for row in WRONG], ids=lambda x: str(x)[:40])
def test_settings_that_cannot_be(family: str, setting: str, told: tuple[str, ...], tmp_path: Path) -> None:
    refused(train(family, setting, out=tmp_path / "run"), *told)
    assert not (tmp_path / "run").exists()


TEXTS = {
    "empty": ("", "is empty"),
    "blank": ("  \n\n \n", "is empty"),
    "binary": ("a\0b" * 100, "a NUL byte"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_are_none(name: str, tmp_path: Path) -> None:
    text, told = TEXTS[name]
    (tmp_path / "text.txt").write_text(text)
    refused(train("bert", f"data.train={tmp_path / 'text.txt'}", out=tmp_path / "run"), "text.txt", told)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes("le chat naïf\n".encode("latin-1") * 50)
    refused(train("bert", f"data.train={tmp_path / 'text.txt'}", out=tmp_path / "run"), "is not UTF-8", "iconv")


def test_half_a_gzip_file(tmp_path: Path) -> None:
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(b"the cat sees the dog. " * 500)[:40])
    refused(train("bert", f"data.train={tmp_path / 'text.txt.gz'}", out=tmp_path / "run"), "not a whole gzip file")


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text(json.dumps({"body": "the cat"}) + "\n")
    refused(train("bert", f"data.train={tmp_path / 'text.jsonl'}", out=tmp_path / "run"), "'text'", "data.column")


def test_next_sentences_without_segments_or_without_text(tmp_path: Path) -> None:
    asked = "objective.next_sentence=true"
    refused(train("bert", asked, "model.segments=0", out=tmp_path / "run"), "model.segments=0", "model.segments=2")
    (tmp_path / "short.txt").write_text("the cat sees the dog.")
    told = ("data.valid", "too short to find sentences that do not follow each other", "objective.next_sentence=false")
    refused(train("bert", asked, f"data.valid={tmp_path / 'short.txt'}", out=tmp_path / "run"), *told)


@pytest.mark.parametrize("kind", ["word", "character", "byte"])
def test_whole_words_of_a_vocabulary_without_pieces_of_words(kind: str, tmp_path: Path) -> None:
    size = "text.size=0" if kind == "byte" else "text.size=90"
    result = train("bert", "objective.whole_words=true", f"text.tokenizer={kind}", size, out=tmp_path / "run")
    refused(result, "objective.whole_words=true joins pieces of words", "set it to false")


def test_a_text_of_strange_letters(tmp_path: Path) -> None:
    (tmp_path / "strange.txt").write_text("жуки лежат на дороге\n" * 60)
    result = train("bert", f"data.valid={tmp_path / 'strange.txt'}", out=tmp_path / "run")
    refused(result, "data.valid", "are pieces that the vocabulary knows", "give other text")


@pytest.mark.parametrize(
    ("family", "text", "told"),
    [
        ("bert", "the cat sees the dog.", "has no blank to fill in; write <mask>"),
        ("bert", "the [mask] sees", "has no blank"),
        ("bert", "[MASK] " * 30, "but the model has 24 positions"),
        ("bert", "caf\udce9 [MASK]", "half a character"),
        ("electra", "the [MASK] sees the dog.", "judges words and fills in none"),
        ("electra", "the cat " * 30, "but the model has 22 positions for them"),
        ("electra", "caf\udce9", "half a character"),
    ],
)
def test_texts_that_cannot_be_answered(family: str, text: str, told: str) -> None:
    before = contents(trained(family))
    refused(regard("predict", trained(family), text, "--device", "cpu"), told)
    assert contents(trained(family)) == before


@pytest.mark.parametrize("setting", ["model.width=32", "objective.mask_rate=0.3", "text.size=90", "task.name=tagging"])
def test_a_trained_run_stays_what_it_is(setting: str) -> None:
    told = setting.partition("=")[0].partition(".")[0]
    refused(regard("predict", trained("bert"), "the [MASK]", setting, "--device", "cpu"), told)

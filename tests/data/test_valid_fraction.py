"""Validation that is held out of training: the same share always, and what belongs together on one side; for every task."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regard.core.errors import UserError
from regard.data.config import split_rows
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.captioning import prepare as captioning
from regard.tasks.classification import prepare as classification
from regard.tasks.dialogue import prepare as dialogue
from regard.tasks.question_answering import prepare as question_answering
from regard.tasks.tagging import prepare as tagging
from regard.tasks.translation import prepare as translation
from tests.command import regard


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_groups_are_never_parted(groups: list[int], share: float) -> None:
    sizes = [groups.count(group) for group in set(groups)]
    try:
        kept, held = split_rows(groups, share, "rows")
    except UserError:
        assert round(share * len(groups)) == 0 or len(groups) - round(share * len(groups)) < max(sizes)
        with pytest.raises(UserError, match="leaves nothing"):
            split_rows(groups, share, "rows")
        return
    assert sorted([*kept, *held]) == list(range(len(groups)))
    assert not {groups[n] for n in kept} & {groups[n] for n in held}
    assert 0 <= len(held) - round(share * len(groups)) < max(sizes)
    assert [part.tolist() for part in split_rows(groups, share, "rows")] == [kept.tolist(), held.tolist()]


def write(path: Path, lines: list[Any]) -> str:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return str(path)


def texts(folder: Path) -> str:
    return write(folder / "a.tsv", [f"text {n % 15}\t{('good', 'bad')[n % 2]}" for n in range(30)])


def sentences(folder: Path) -> str:
    return write(
        folder / "a.conll", [line for n in range(30) for line in (["-DOCSTART- O"] * (n % 3 == 0) + [f"w{n} X", "y Y", ""])]
    )


def questions(folder: Path) -> str:
    return write(folder / "a.jsonl", [{"question": f"q{n}", "context": f"cat {n % 10}", "answer": "cat"} for n in range(30)])


def dialogues(folder: Path) -> str:
    return write(folder / "a.jsonl", [{"turns": ["hi", f"hello {n % 10}"]} for n in range(30)])


def pairs(folder: Path) -> str:
    return write(folder / "a.tsv", [f"source {n % 10}\ttarget {n}" for n in range(30)])


def images(folder: Path) -> str:
    for n in range(15):
        Image.new("RGB", (4, 4), (n // 3 * 10, 0, 0)).save(folder / f"{n}.png")  # three look alike
    return write(folder / "a.tsv", [f"{n % 15}.png\ta cat {n}" for n in range(30)])


def tagged(recipe: Recipe) -> tuple[Any, Any]:
    found = tagging.read_splits(recipe)
    return found["train"].sentences, found["valid"].sentences


def replied(recipe: Recipe) -> tuple[Any, Any]:
    found = dialogue.read_splits(recipe, lambda line: None)[1]
    return found["train"], found["valid"]


def captioned(recipe: Recipe) -> tuple[Any, Any]:
    return tuple(list(zip(part.images_NYXC, part.examples)) for part in captioning.read_to_learn(recipe))  # type: ignore[return-value]


Splits = Callable[[Recipe], tuple[Any, Any]]
TASKS: list[tuple[str, Callable[[Path], str], Splits, Callable[[Any], Hashable]]] = [
    ("bert-classify", texts, classification.read_to_learn, lambda example: example.text),
    ("bert-tag", sentences, tagged, lambda sentence: sentence.document),
    ("bert-answer", questions, question_answering.read_to_learn, lambda question: question.context),
    ("chat-single", dialogues, replied, lambda exchange: exchange.reply),
    ("chat-retrieval", dialogues, replied, lambda exchange: exchange.reply),
    ("translate-small", pairs, translation.read_to_learn, lambda pair: pair.source),
    ("caption-scenes", images, captioned, lambda both: int(both[0][0, 0, 0])),
]


@pytest.mark.parametrize(("name", "make", "read", "group"), TASKS, ids=[name for name, *_ in TASKS])
def test_every_task_holds_out(name: str, make: Any, read: Splits, group: Callable[[Any], Hashable], tmp_path: Path) -> None:
    settings = [f"data.train={make(tmp_path)}", "data.test=", "data.valid_fraction=0.2"]
    kept, held = ([group(example) for example in part] for part in read(load_recipe(name, [*settings, "train.seed=7"])))
    assert not set(kept) & set(held)
    assert len(kept) + len(held) == (15 if name == "caption-scenes" else 30)
    assert len(held) == round(0.2 * (len(kept) + len(held)))
    assert [group(example) for example in read(load_recipe(name, [*settings, "train.seed=8"]))[1]] == held
    with pytest.raises(UserError, match=r"data\.valid_fraction=0\.001 of .* leaves nothing"):
        read(load_recipe(name, [settings[0], "data.valid_fraction=0.001"]))
    with pytest.raises(UserError, match=r"data\.valid_fraction=1\.5 must be"):
        load_recipe(name, [settings[0], "data.valid_fraction=1.5"])
    with pytest.raises(UserError, match=r"data\.valid is empty.* data\.valid_fraction=0\.1"):
        read(load_recipe(name, [settings[0], "data.valid="]))
    with pytest.raises(UserError, match=r"data\.valid: .*does not exist.* data\.valid_fraction=0\.1"):
        read(load_recipe(name, [settings[0], f"data.valid={tmp_path}/nowhere.tsv"]))


def test_captions_stay_with_their_images(tmp_path: Path) -> None:
    recipe = load_recipe("caption-scenes", [f"data.train={images(tmp_path)}", "data.valid_fraction=0.4", "data.test="])
    for part in captioning.read_to_learn(recipe):
        for image_YXC, example in zip(part.images_NYXC, part.examples):
            number = int(example.name.removesuffix(".png"))
            assert np.all(image_YXC[..., 0] == number // 3 * 10)
            assert example.captions == (f"a cat {number}", f"a cat {number + 15}")


def test_a_file_of_one_document_is_parted_by_sentences(tmp_path: Path) -> None:
    data = write(tmp_path / "a.conll", ["-DOCSTART- O", "", *(line for n in range(20) for line in (f"w{n} X", "y Y", ""))])
    found = tagging.read_splits(load_recipe("bert-tag", [f"data.train={data}", "data.test=", "data.valid_fraction=0.2"]))
    assert (len(found["train"].sentences), len(found["valid"].sentences)) == (16, 4)


def test_it_is_said(tmp_path: Path) -> None:
    tiny = ("model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=32", "text.size=40", "--dry-run")
    data = f"data.train={sentences(tmp_path)}"
    told = regard("train", "bert-tag", data, "data.valid_fraction=0.2", *tiny, "--out", tmp_path / "run")
    assert "valid: data.valid_fraction=0.2 of train, picked at random and always the same" in told.err, told
    told = regard(
        "train", "bert-tag", data, data.replace("train", "valid"), "data.valid_fraction=0.2", *tiny, "--out", tmp_path / "run"
    )
    assert "data.valid_fraction=0.2 is not used" in told.err

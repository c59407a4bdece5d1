"""Texts that nobody has labelled are read from whatever labelled ones come in, and from plain lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.batching.labelled import UNLABELLED, LabelledTexts, make_batch
from regard.data.batching.pairs import Ragged
from regard.data.sources.labelled import read_unlabelled
from tools.corpora.inference import inferences
from tools.corpora.remarks import remarks

TEXTS = ["a good day", "an other, longer one", "é \u2028 ü"]


def read(path: Path, *columns: str, texts: int = 1) -> list[tuple[str, ...]]:
    found = read_unlabelled((str(path),), columns, texts)
    assert {example.label for example in found} == {""}
    return [example.texts for example in found]


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("lines.txt", "".join(f"{text}\n\n" for text in TEXTS), ()),
        ("lines.txt", "\r\n".join(TEXTS), ("sentence", "label")),
        ("table.tsv", "".join(f"{text}\n" for text in TEXTS), ()),
        ("table.tsv", "".join(f"{text}\twhatever\n" for text in TEXTS), ()),
        ("table.tsv", "".join(f"x\t{text}\n" for text in TEXTS), ("1", "0")),
        ("table.tsv", "sentence\n" + "".join(f"{text}\n" for text in TEXTS), ("sentence|content", "label")),
        ("table.csv", "".join(f'"{text}"\n' for text in TEXTS), ()),
        ("objects.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS), ()),
        ("objects.ndjson", "".join(json.dumps({"said": text, "label": 3}) + "\n" for text in TEXTS), ("said", "label")),
    ],
)
def test_texts_are_the_same_however_they_come(name: str, content: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, "utf-8", newline="")
    assert read(tmp_path / name, *columns) == [(text,) for text in TEXTS]
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read(packed, *columns) == [(text,) for text in TEXTS]


def test_pairs_have_a_tab_between_them_or_two_columns(tmp_path: Path) -> None:
    for name in ("pairs.txt", "pairs.tsv"):
        (tmp_path / name).write_text("a b\tc\nd\te f\n")
        assert read(tmp_path / name, texts=2) == [("a b", "c"), ("d", "e f")]
    (tmp_path / "labelled.tsv").write_text("a\tb\tyes\n")
    assert read(tmp_path / "labelled.tsv", texts=2) == [("a", "b")]


def test_labels_that_come_along_are_left_unread(tmp_path: Path) -> None:
    assert [e.texts for e in read_unlabelled(("builtin:remarks/valid",), (), 1)] == [(text,) for text, _ in remarks("valid")]
    found = read_unlabelled(("builtin:inference/valid",), (), 2)
    assert [example.texts for example in found] == [tuple(row[:2]) for row in inferences("valid")]


def test_several_are_read_one_after_the_other_and_places_are_named(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"\n{name}\n")
    found = read_unlabelled((str(tmp_path / "a.txt"), str(tmp_path / "b.txt")), (), 1)
    assert [(e.text, e.place) for e in found] == [(n, f"{tmp_path / n}, line 2") for n in ("a.txt", "b.txt")]


def test_a_table_without_a_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "header.tsv").write_text("text\n")
    with pytest.raises(UserError, match="there are no texts in it"):
        read(tmp_path / "header.tsv", "text", "label")


rows = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5), max_size=4)


@given(rows, rows)
def test_labelled_and_unlabelled_texts_are_joined(some: list[list[int]], more: list[list[int]]) -> None:
    one, other = (
        LabelledTexts(Ragged(each), np.array([len(row) for row in each], np.int64), np.full(len(each), label))
        for each, label in ((some, 1), (more, UNLABELLED))
    )
    both = one + other
    assert [both.ids[n].tolist() for n in range(len(both))] == some + more
    assert both.labels.tolist() == [1] * len(some) + [UNLABELLED] * len(more)
    if some and more:
        batch = make_batch(both, np.array([len(both) - 1, 0]))
        assert batch.labels_N.tolist() == [UNLABELLED, 1]
        assert batch.ids_BL[0, : len(more[-1])].tolist() == more[-1]

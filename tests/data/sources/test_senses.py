"""Sentences and their senses, from a command line, a program, or files of several kinds."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.data.sources.senses import Sentence, read_sentences, typed_sentences


def test_typed_with_and_without_senses() -> None:
    assert typed_sentences(["A bank.", " Two  banks. "]) == [
        Sentence("A bank.", "", "sentence 1"),
        Sentence("Two  banks.", "", "sentence 2"),
    ]
    assert typed_sentences(["A bank.\tmoney", ("A bank.", "river")])[1] == Sentence("A bank.", "river", "sentence 2")
    assert typed_sentences([]) == []


def test_a_letter_and_its_accent_are_one_character() -> None:
    assert typed_sentences(["cafe\u0301"])[0].text == "café"


@pytest.mark.parametrize("name", ["s.txt", "s.tsv", "s.txt.gz", "s"])
def test_lines_of_a_file(name: str, tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfHe sat on the bank.\triver\r\n\nShe robbed a bank.\tmoney\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = read_sentences(tmp_path / name)
    assert [(text, sense) for text, sense, _ in found] == [("He sat on the bank.", "river"), ("She robbed a bank.", "money")]
    assert found[1].place.endswith("line 3")


def test_a_csv_file_may_quote(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('"Cash, in the bank.",money\nA bank,river\n')
    assert [text for text, *_ in read_sentences(tmp_path / "s.csv")] == ["Cash, in the bank.", "A bank"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a bank\tx\ty\n", "columns found: 3"),
        ("a bank\t\n", "line 1 ends in a tab"),
        ("\tmoney\n", "line 1 is empty"),
        ("a bank\tmoney\nthe bank\n", "line 1 has a sense ('money'), .*line 2 has none"),
        ("a bank\nthe bank\tmoney\n", "line 2 has a sense ('money'), .*line 1 has none"),
        ("\n\n", "is empty"),
    ],
)
def test_lines_that_are_none(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text(content)
    with pytest.raises(UserError, match=told.replace("(", r"\(").replace(")", r"\)")):
        read_sentences(tmp_path / "s.txt")

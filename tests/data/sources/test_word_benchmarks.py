"""Questions and rated pairs are read from the files that people have, and a wrong line is told by its number."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.data.sources.word_vectors import Pairs, Questions, read_word_test


def read(tmp_path: Path, content: str) -> Questions | Pairs:
    (tmp_path / "test.txt").write_text(content, "utf-8")
    return read_word_test(tmp_path / "test.txt")


def test_questions_have_sections(tmp_path: Path) -> None:
    found = read(
        tmp_path, ": capitals\nAthens Greece Baghdad Iraq\nAthens Greece Bern Switzerland\n\n: family\nboy girl king queen\n"
    )
    assert isinstance(found, Questions)
    assert {name: len(asked) for name, asked in found.sections.items()} == {"capitals": 2, "family": 1}
    assert found.sections["family"] == [("boy", "girl", "king", "queen")]


def test_questions_need_no_section(tmp_path: Path) -> None:
    found = read(tmp_path, "boy girl king queen\n")
    assert isinstance(found, Questions)
    assert list(found.sections) == ["questions"]


@pytest.mark.parametrize(
    "content",
    [
        "Word 1\tWord 2\tHuman (mean)\nlove\tsex\t6.77\ntiger\tcat\t7.35\n",  # WordSim-353
        "love\tsex\t6.77\t7\t6\t5\ntiger\tcat\t7.35\t1\t2\t3\n",  # rare words, with its raters
        "word1,word2,score\nlove,sex,6.77\ntiger, cat , 7.35\n",
        "love;sex;6.77\ntiger;cat;7.35",
        "love sex 6.77\r\ntiger cat 7.35\r\n",
    ],
)
def test_pairs_come_in_many_forms(content: str, tmp_path: Path) -> None:
    found = read(tmp_path, content)
    assert isinstance(found, Pairs)
    assert found.pairs == [("love", "sex"), ("tiger", "cat")]
    assert found.ratings == [6.77, 7.35]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (": capitals\nAthens Greece Baghdad\n", "line 2: a question has four words"),
        (": capitals\n", "no question in them"),
        ("a,b,1\nc,d\n", "line 2: two words and a number"),
        ("a,b,1\nc,d,much\n", "line 2: two words and a number"),
        ("a,b,1\n,d,2\n", "line 2: two words and a number"),
        ("a,b,1\n", "has 1 rated pairs"),
        ("a,b,1\nc,d,inf\n", "line 2: two words and a number"),
        ("", "is empty"),
    ],
)
def test_a_wrong_line_is_told(content: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        read(tmp_path, content)

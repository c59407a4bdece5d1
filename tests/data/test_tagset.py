"""The tag set of a run: complete, kept whole, and the same entities whatever scheme a file has."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.data.sources.tagged import TaggedSentence
from regard.data.tagset import Scheme, Tags, describe_tags, repair_tags


def sentences(*rows: str) -> list[TaggedSentence]:
    return [
        TaggedSentence(
            tuple(f"w{n}" for n in range(len(row.split()))), tuple(row.split()), "f.txt", tuple(range(1 + 10 * k, 99 + 10 * k))
        )
        for k, row in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("scheme", "rows", "names", "kept", "types"),
    [
        ("iob2", ["B-Y O", "B-X I-X"], ["O", "B-X", "I-X", "B-Y", "I-Y"], "iob2", ["X", "Y"]),  # I-Y too, never met
        ("iob1", ["I-Y O", "I-X I-X"], ["O", "B-X", "I-X", "B-Y", "I-Y"], "iob2", ["X", "Y"]),
        ("iobes", ["S-Y O"], ["O", "B-Y", "I-Y", "E-Y", "S-Y"], "iobes", ["Y"]),
        ("plain", ["NN VB", "DT NN"], ["DT", "NN", "VB"], "plain", ["DT", "NN", "VB"]),
    ],
)
def test_every_type_has_all_its_tags(
    scheme: Scheme, rows: list[str], names: list[str], kept: Scheme, types: list[str], tmp_path: Path
) -> None:
    tags = Tags.of(sentences(*rows), scheme)
    assert (list(tags.names), tags.scheme) == (names, kept)
    tags.save(tmp_path / "labels.json")
    assert Tags.load(tmp_path / "labels.json") == tags
    assert list(tags.types) == types


def test_files_in_any_scheme_mean_the_same() -> None:
    tags = Tags.of(sentences("B-X I-X O B-X B-X"), "iob2")
    found = [tags.numbers(sentences(row), "test") for row in ("B-X I-X O B-X B-X", "I-X I-X O I-X B-X", "B-X E-X O S-X S-X")]
    assert found[0] == found[1] == found[2] == [[1, 2, 0, 1, 1]]


@pytest.mark.parametrize("tag", ["B-Z", "NN", "B-", "X"])
def test_tags_that_training_does_not_have(tag: str) -> None:
    tags = Tags.of(sentences("B-X I-X O"), "iob2")
    with pytest.raises(UserError, match=rf"data.test: f.txt, line 2: the tag '{tag}' is not one that training knows"):
        tags.numbers(sentences(f"O {tag}"), "test")


def test_one_tag_only_and_columns_swapped() -> None:
    with pytest.raises(UserError, match=r"one tag only, 'O', so there is nothing to learn.*data.columns=0,3"):
        Tags.of(sentences("O O", "O"), "plain")
    with pytest.raises(UserError, match=r"60 tags for 60 words, such as 't0'; are the columns swapped"):
        Tags.of(sentences(" ".join(f"t{n}" for n in range(60))), "plain")


@pytest.mark.parametrize(
    "text", ["", "{}", '{"scheme": "iob3", "labels": ["a", "b"]}', '{"scheme": "iob2", "labels": ["a"]}', "[1]"]
)
def test_a_damaged_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(UserError, match=r"is damaged; copy it again"):
        Tags.load(tmp_path / "labels.json")
    with pytest.raises(UserError, match="There are no tags at"):
        Tags.load(tmp_path / "none.json")


# ----------------------------------------------------------------------------------------------------------- looked at in advance


@pytest.mark.parametrize(
    ("scheme", "row", "line", "says"),
    [
        ("iob2", "O I-X", 2, "the tag 'I-X' behind 'O' breaks iob2, which has 'B-X' there"),
        ("iob2", "I-X O", 1, "the tag 'I-X' at the beginning of a sentence breaks iob2"),
        ("iob2", "B-X I-Y", 2, "the tag 'I-Y' behind 'B-X' breaks iob2, which has 'B-Y' there"),
        ("iob1", "O B-X", 2, "the tag 'B-X' behind 'O' breaks iob1, which has 'I-X' there"),
        ("iobes", "O B-X O", 2, "which has 'S-X' there"),
        ("iobes", "O E-X", 2, "breaks iobes"),
        ("iob2", "O S-X", 2, "the tag 'S-X' is none of iob2, which has O, B-TYPE, I-TYPE"),
        ("iob2", "O PER", 2, "set data.scheme=plain"),
        ("iobes", "O B-", 2, "the tag 'B-' is none of iobes"),
    ],
)
def test_a_tag_that_breaks_its_scheme_is_refused_by_its_line(scheme: Scheme, row: str, line: int, says: str) -> None:
    with pytest.raises(UserError) as told:
        repair_tags(sentences(row), scheme, repair=False)
    assert f"f.txt, line {line}: " in str(told.value)
    assert says in str(told.value)


def test_tags_are_mended_and_counted() -> None:
    found, mended = repair_tags(sentences("O I-X I-X I-Y", "B-X I-X", "I-X O"), "iob2", repair=True)
    assert [sentence.tags for sentence in found] == [("O", "B-X", "I-X", "B-Y"), ("B-X", "I-X"), ("B-X", "O")]
    assert mended == 3
    assert repair_tags(found, "iob2", repair=False) == (found, 0)


def test_what_there_is_is_described() -> None:
    assert describe_tags(sentences("B-X I-X O B-X", "B-Y"), "iob2") == [
        "5 words, 3 entities (iob2): X 2, Y 1",
        "warning: 2 of them are met fewer than 10 times, such as 'X'; more would help.",
    ]
    assert describe_tags(sentences("NN " * 12), "plain") == ["12 words, 1 tags: NN 12"]
    assert describe_tags(sentences("O O"), "iob2") == ["2 words, 0 entities (iob2)"]

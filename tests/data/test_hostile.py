"""Data made to do harm: half characters, numbers and nesting without end, a million columns, names that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.atomic import partial_file
from regard.core.errors import UserError, nearest
from regard.core.files import refuse_link_out
from regard.data.sources import qa, records
from regard.data.sources.captions import read_captions
from regard.data.sources.dialogues import read_dialogues
from regard.data.sources.labelled import read_labelled
from regard.data.sources.parallel import read_pairs
from regard.data.sources.qa import NEARBY, Reference, read_questions
from regard.data.sources.tagged import read_tagged
from regard.data.sources.text import documents

HALF = "\\ud800"
ASKED = {"question": "who?", "context": "it was Ann", "answers": [{"text": "Ann", "start": 7}]}
READERS: dict[str, tuple[dict[str, object], Callable[[str], object]]] = {
    "pairs": ({"source": "a", "target": "b"}, lambda path: read_pairs((path,))),
    "labelled": ({"text": "a", "label": "b"}, lambda path: read_labelled((path,))),
    "tagged": ({"words": ["a", "b"], "tags": ["B-PER", "O"]}, lambda path: read_tagged((path,))),
    "dialogues": ({"turns": ["a", "b"]}, lambda path: read_dialogues((path,))),
    "questions": (ASKED, lambda path: read_questions((path,))),
    "captions": ({"image": "a.png", "captions": ["a dog"]}, lambda path: read_captions((path,), "", 4)),
    "texts": ({"text": "a"}, lambda path: list(documents((path,)))),
}


def halves(record: dict[str, object]) -> list[str]:
    """The record with half a character in each of its texts in turn, and in a key that nobody reads."""
    written = json.dumps({**record, "other": "text"})
    places = [n for n, letter in enumerate(written) if letter == '"' and written[n + 1 : n + 2].isalpha()]
    return [f"{written[: n + 1]}{HALF}{written[n + 1 :]}" for n in places]


@pytest.mark.parametrize("name", READERS)
def test_half_a_character_is_no_text_wherever_it_stands(name: str, tmp_path: Path) -> None:
    record, read = READERS[name]
    for number, line in enumerate(halves(record)):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(line + "\n")
        with pytest.raises(UserError, match=r"jsonl, line 1: .*half a character"):
            read(str(path))


def test_two_halves_are_a_character(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d\\ude00"}\n')
    assert list(documents((str(tmp_path / "a.jsonl"),))) == ["\U0001f600"]


def test_half_a_character_in_squads_json(tmp_path: Path) -> None:
    squad = {"data": [{"paragraphs": [{"context": "it was Ann", "qas": [{**ASKED, "id": "1"}]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(squad))
    assert len(read_questions((str(tmp_path / "a.json"),))) == 1
    (tmp_path / "a.json").write_text(json.dumps(squad).replace("who", f"who{HALF}"))
    with pytest.raises(UserError, match="half a character"):
        read_questions((str(tmp_path / "a.json"),))


@pytest.mark.parametrize("value", ["[" * 200_000, "9" * 5000, '{"a":' * 100_000, "-1e999999", "NaN", '"' + "x" * 500_000 + '"'])
@pytest.mark.parametrize("name", READERS)
def test_values_without_end(name: str, value: str, tmp_path: Path) -> None:
    """In the place of each value in turn: read, or told in a sentence."""
    record, read = READERS[name]
    for key in record:
        rest = json.dumps({other: kept for other, kept in record.items() if other != key})
        (tmp_path / "a.jsonl").write_text(f'{rest[:-1]}{", " * (len(record) > 1)}"{key}": {value}}}\n')
        with suppress(UserError):
            read(str(tmp_path / "a.jsonl"))


def test_squads_json_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qa, "LARGEST", 1000)
    (tmp_path / "a.json").write_text(" " * 1200)
    with pytest.raises(UserError, match=r"more than 1000 bytes, .*\*\.jsonl"):
        read_questions((str(tmp_path / "a.json"),))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_table_of_a_million_columns_is_none(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(("\t" if name == "a.tsv" else ",") * 1_000_000 + "x\n")
    for read in (lambda path: read_pairs((path,)), lambda path: read_labelled((path,))):
        with pytest.raises(UserError, match="line 1: there are more than 10,000 columns"):
            read(str(tmp_path / name))


def test_a_value_of_a_table_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LONGEST", 1000)
    (tmp_path / "a.csv").write_text('a,"' + "x\n" * 600)
    with pytest.raises(UserError, match="line 1: this is not CSV"):
        read_pairs((str(tmp_path / "a.csv"),))


def test_a_choice_among_a_million_or_of_a_million_letters_is_told_in_short() -> None:
    assert len(nearest("text", ["x" * 1_000_000, "y" * 1_000_000])) < 400
    assert len(nearest("z" * 1_000_000, ["text", "label"])) < 400
    assert "did you mean" not in nearest("text", (f"{n}" for n in range(100_000)))
    assert nearest("txt", ["text", "label"]) == " (known: label, text); did you mean 'text'?"


@given(st.text("ab ", min_size=1, max_size=30), st.text("ab", min_size=1, max_size=3), st.integers(-3, 40), st.booleans())
def test_an_answer_is_found_where_it_stands_nearest(before: str, answer: str, start: int, far: bool) -> None:
    context = before + answer + " " * (3 * NEARBY * far) + answer
    places = [n for n in range(len(context)) if context.startswith(answer, n)]
    expected = min(places, key=lambda place: abs(place - start))
    record = ("here", {"answers": [{"text": answer, "start": start}]})
    if abs(expected - start) > NEARBY:
        with pytest.raises(UserError, match=f"the nearest is at {expected}"):
            qa.references(record, "answers", context, False)
    else:
        assert qa.references(record, "answers", context, False) == (Reference(answer, expected, expected != start),)


def test_an_answer_that_stands_everywhere(tmp_path: Path) -> None:
    """Each place of it is found by comparing a hundred thousand letters, and there are as many places."""
    context, answer = "a" * 200_000, "a" * 100_000
    (found,) = qa.references(("here", {"answers": [{"text": answer, "start": 80_000}]}), "answers", context, False)
    assert found.start == 80_000
    with pytest.raises(UserError, match="1000 times or more"):
        qa.references(("here", {"answers": [answer]}), "answers", context, False)


@pytest.mark.parametrize("name", ["a\\u0000b.png", "x" * 5000, "\\n", "a/" * 3000 + "b.png"])
def test_names_of_images_that_are_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(f'{{"image": "{name}", "caption": "a dog"}}\n')
    with pytest.raises(UserError, match=r"c\.jsonl, line 1"):
        read_captions((str(tmp_path / "c.jsonl"),), "", 4)


def test_a_link_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(UserError, match="a link to itself"):
        refuse_link_out(tmp_path / "a", tmp_path)
    with pytest.raises(UserError, match="no path of a file"):
        refuse_link_out(tmp_path / "a\0b", tmp_path)


def test_results_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "out.txt.part").symlink_to("precious")
    with partial_file(tmp_path / "out.txt", "--output") as file:
        file.write("é\n")
    assert (tmp_path / "precious").read_text() == "kept"
    assert (tmp_path / "out.txt").read_text("utf-8") == "é\n"

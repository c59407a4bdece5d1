"""Questions from every kind of source, and one sentence with its place for whatever is wrong with one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources.qa import NEARBY, Reference, read_questions
from tools.corpora.stories import stories

CONTEXT = "Anna bought a lamp at the harbour. Peter sold a lamp in the village."
ASKED = {"question": "What did Anna buy?", "context": CONTEXT}


def squad(*paragraphs: Any, version: str = "1.1") -> str:
    return json.dumps({"version": version, "data": [{"title": "t", "paragraphs": list(paragraphs)}]})


def paragraph(*asked: Any, context: str = CONTEXT) -> dict[str, Any]:
    return {"context": context, "qas": list(asked)}


def written(path: Path, content: str) -> tuple[str]:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return (str(path),)


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def answers(given_: Any, tmp_path: Path, first: bool = False) -> tuple[Reference, ...]:
    return read_questions(written(tmp_path / "a.jsonl", lines(ASKED | given_)), first=first)[0].answers


@pytest.mark.parametrize("name", ["dev.json", "DEV.JSON.gz"])
def test_squad_in_both_versions(name: str, tmp_path: Path) -> None:
    first = {
        "id": "1",
        "question": "Where was Anna?",
        "answers": [{"text": "the harbour", "answer_start": 22, "start_from": "unique"}],
    }
    second = {"id": "2", "question": "Who slept?", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "Anna"}]}
    found = read_questions(written(tmp_path / name, squad(paragraph(first, second), paragraph(first | {"id": "3"}))))
    assert [(q.text, q.id, q.answers) for q in found[:2]] == [
        ("Where was Anna?", "1", (Reference("the harbour", 22),)),
        ("Who slept?", "2", ()),
    ]
    assert {q.context for q in found} == {CONTEXT}
    assert found[2].place.endswith(", data[0].paragraphs[1].qas[0]")


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"answers": [{"text": "the harbour", "start": 22}]}, [("the harbour", 22, False)]),
        (
            {"answers": [{"text": "the harbour", "answer_start": 22}, {"text": "harbour", "start": 26}]},
            [("the harbour", 22, False), ("harbour", 26, False)],
        ),
        ({"answers": {"text": ["a lamp", "lamp"], "answer_start": [46, 48]}}, [("a lamp", 46, False), ("lamp", 48, False)]),
        ({"answers": {"text": [], "answer_start": []}}, []),
        ({"answers": []}, []),
        ({"answer": None}, []),
        ({"answer": "the harbour"}, [("the harbour", 22, False)]),
        ({"answers": ["the village"]}, [("the village", 56, False)]),
        ({"answers": [{"text": " the harbour ", "start": 21}]}, [("the harbour", 22, False)]),  # white space is none of it
        ({"answers": [{"text": "the harbour", "start": 20}]}, [("the harbour", 22, True)]),
        ({"answers": [{"text": "a lamp", "start": 50}]}, [("a lamp", 46, True)]),  # the nearer of two
    ],
)
def test_every_way_to_write_answers(given_: Any, expected: list[Any], tmp_path: Path) -> None:
    assert [tuple(answer) for answer in answers(given_, tmp_path)] == expected


def test_the_first_of_several_where_asked(tmp_path: Path) -> None:
    assert answers({"answer": "a lamp"}, tmp_path, first=True) == (Reference("a lamp", 12),)


def test_other_names_and_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"q": "Where?", "text": CONTEXT, "a": {"text": ["the harbour"], "answer_start": [22]}, "id": 7}
    (found,) = read_questions(written(tmp_path / "a.ndjson.gz", lines(row)), ("q", "text", "a"))
    assert (found.text, found.id, found.answers) == ("Where?", "7", (Reference("the harbour", 22),))
    monkeypatch.setattr("regard.data.sources.qa.hub_records", lambda where: iter([(f"{where}, row 0", row)]))
    assert read_questions(("hf:x",), ("q", "text", "a"))[0].answers == found.answers


def test_several_sources_and_a_limit(tmp_path: Path) -> None:
    where = (*written(tmp_path / "a.jsonl", lines(ASKED | {"answer": "the harbour"})), "builtin:stories/valid")
    found = read_questions(where)
    assert [(q.text, q.context, q.answers[0].text, q.answers[0].start) for q in found[1:]] == [
        (s.question, s.context, s.answer, s.start) for s in stories("valid")
    ]
    assert len(read_questions(where, limit=5)) == 5


GOOD = {"answers": [{"text": "the harbour", "start": 22}]}
REFUSED: list[tuple[str, str, str]] = [
    ("a.json", "", "a.json is empty"),
    ("a.json", "{", "this is not JSON"),
    ("a.json", "[" * 100_000, "this is not JSON"),
    ("a.json", "[]", "there is no list 'data', which SQuAD's JSON has there"),
    ("a.json", '{"data": [{"title": "t"}]}', "data[0]: there is no list 'paragraphs'"),
    ("a.json", '{"data": [3]}', "data[0]: int found, object expected"),
    ("a.json", squad({"context": CONTEXT}), "data[0].paragraphs[0]: there is no list 'qas'"),
    ("a.json", squad({"qas": [{"question": "x", "answers": []}]}), "qas[0]: there is no column 'context'"),
    ("a.json", squad(paragraph({"question": "x"})), "qas[0]: there is no 'answer'"),
    ("a.json", squad(paragraph()), "there are no questions in it"),
    (
        "a.json",
        squad(paragraph({"question": "x", **GOOD, "is_impossible": True})),
        "is_impossible is true, but there is the answer",
    ),
    ("a.jsonl", "", "a.jsonl is empty"),
    ("a.jsonl", lines({"question": "x", "context": CONTEXT, "answer": "the moon"}), "'the moon' is not in the context"),
    ("a.jsonl", lines(ASKED | {"answer": "The Harbour"}), "'The Harbour' is not in the context, to the letter"),
    (
        "a.jsonl",
        lines(ASKED | {"answer": "a lamp"}),
        'is in the context 2 times. Say which is meant by its start, such as "start": 12',
    ),
    ("a.jsonl", lines(ASKED | {"answers": [{"text": "the harbour", "start": 60}]}), "does not stand at 60; the nearest is at 22"),
    ("a.jsonl", lines(ASKED | {"answers": [{"text": "the harbour", "start": "22"}]}), "starts at '22', which is no whole number"),
    ("a.jsonl", lines(ASKED | {"answers": [{"text": "the harbour", "start": True}]}), "starts at True, which is no whole number"),
    ("a.jsonl", lines(ASKED | {"answers": [{"start": 22}]}), "one of 'answers' has no text"),
    ("a.jsonl", lines(ASKED | {"answers": [{"text": " ", "start": 22}]}), "an answer has no text"),
    ("a.jsonl", lines(ASKED | {"answers": [7]}), "one of 'answers' has no text: 7"),
    ("a.jsonl", lines(ASKED | {"answers": 7}), "'answers' holds int"),
    ("a.jsonl", lines(ASKED | {"answer": ""}), "an answer has no text"),
    ("a.jsonl", lines(ASKED | {"answers": {"text": ["the harbour"], "answer_start": []}}), "1 texts, and not as many starts"),
    ("a.jsonl", lines(ASKED), "there is no 'answer'"),
    ("a.jsonl", lines({"question": "x", "context": " ", "answer": "y"}), "line 1: 'context' is empty"),
    ("a.jsonl", lines({"question": "", "context": CONTEXT, "answer": "y"}), "line 1: 'question' is empty"),
    ("a.jsonl", lines({"question": 5, "context": CONTEXT, "answer": "y"}), "column 'question' holds int"),
    ("a.jsonl", lines({"qestion": "x", "context": CONTEXT}), "did you mean 'qestion'?"),
    ("a.jsonl", lines(ASKED | GOOD | {"id": "7"}, ASKED | GOOD | {"id": "7"}), "line 2: the id '7' is that of"),
    ("a.jsonl", '{"question": "x", "context": "\\ud83d", "answer": "y"}\n', "half a character"),
    ("a.txt", "x", "a.txt is neither SQuAD's JSON nor JSON lines"),
]


@pytest.mark.parametrize(("name", "content", "told"), REFUSED, ids=[told for *_, told in REFUSED])
def test_what_is_wrong_is_told_by_its_place(name: str, content: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_questions(written(tmp_path / name, content))
    assert told in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("builtin:storys/train", "did you mean 'stories'"),
        ("builtin:stories", "Type builtin:stories/train"),
        ("missing.json", "missing.json does not exist"),
    ],
)
def test_sources_that_are_none(where: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read_questions((where,))


@given(st.text("ab ", min_size=1, max_size=60).filter(str.strip), st.data())
@settings(max_examples=80)
def test_an_answer_is_found_where_it_stands_or_near(context: str, data: st.DataObject) -> None:
    """Also in text that repeats itself all the time."""
    from regard.data.sources.qa import references

    begin = data.draw(st.integers(0, len(context) - 1))
    answer = context[begin : data.draw(st.integers(begin + 1, len(context)))]
    if not answer.strip():
        return
    slip = data.draw(st.integers(-NEARBY, NEARBY))
    (found,) = references(("here", {"answers": [{"text": answer, "start": begin + slip}]}), "answers", context, False)
    assert context[found.start :].startswith(found.text)
    assert found.text == answer.strip()
    white = len(answer) - len(answer.lstrip())
    assert abs(found.start - (begin + slip + white)) <= abs(slip)
    assert found.moved == (found.start != begin + slip + white)

"""One dialogue format in several spellings, and what is learned from each: who replied what to what."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources.dialogues import Dialogue, Exchange, as_typed, exchanges, read_dialogues, recent

WORD = st.text("abc?!é", min_size=1, max_size=4)
TURN = st.lists(WORD, min_size=1, max_size=4).map(" ".join)
TALK = st.lists(TURN, min_size=2, max_size=6).map(tuple)


def turns_of(path: Path, content: str | bytes) -> list[tuple[str, ...]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [dialogue.turns for dialogue in read_dialogues([str(path)])]


@given(talks=st.lists(TALK, min_size=1, max_size=4))
@settings(max_examples=25)
def test_every_spelling_is_read_alike(talks: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("talks")
    lines = [json.dumps({"turns": talk}) for talk in talks]
    named = [json.dumps({"turns": [{"speaker": f"S{n % 2}", "text": turn} for n, turn in enumerate(talk)]}) for talk in talks]
    marked = [" __eou__ ".join(talk) + " __eou__" for talk in talks]
    spellings = {
        "a.jsonl": "\n".join(lines),
        "b.ndjson": "\n".join(named),
        "c.txt": "\n".join(marked),
        "d.txt": "\n".join(line.removesuffix(" __eou__") for line in marked),
        "e.txt": "\n".join(f"{line}\t1\t2 1 2\t0 0 4" for line in marked),
        "f.tsv": "\n".join(map("\t".join, talks)),
    }
    for name, content in spellings.items():
        assert turns_of(folder / name, content) == talks, name
        assert turns_of(folder / f"{name}.gz", gzip.compress(content.encode())) == talks, name


def test_several_are_read_one_after_the_other_up_to_a_limit(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name}1 __eou__ {name}2\n{name}3\t{name}4\n")
    where = [str(tmp_path / f"{name}.txt") for name in "ab"]
    assert [dialogue.turns[0] for dialogue in read_dialogues(where, 3)] == ["a1", "a3", "b1"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", '{"turns": ["hi", "hello"]}\n{"turns": ["hi", 3]}\n', ["line 2, turn 2", "int found"]),
        ("a.jsonl", '{"turns": []}\n', ["line 1", "an empty list"]),
        ("a.jsonl", '{"turns": "hi"}\n', ["line 1", "holds str"]),
        ("a.jsonl", '{"turn": ["hi", "hello"]}\n', ["line 1", "no list of turns", "turn"]),
        ("a.jsonl", '{"turns": ["hi", {"speaker": "A"}]}\n', ["turn 2", "without a text"]),
        ("a.jsonl", '{"turns": ["hi", " "]}\n', ["line 1: turn 2 is empty"]),
        ("a.jsonl", '{"turns": ["hi", "a __eou__ b"]}\n', ["turn 2 holds __eou__"]),
        ("a.jsonl", '{"turns": ["hi", "\\ud800"]}\n', ["half a character"]),
        ("a.jsonl", "[1]\n", ["list found, object expected"]),
        ("a.txt", "hi __eou__ __eou__ hello\n", ["line 1: turn 2 is empty"]),
        ("a.txt", "one turn\nanother\n", ["it has no reply"]),
        ("a.txt", "\n", ["is empty"]),
        ("a.txt", b"caf\xe9 __eou__ a\n", ["is not UTF-8"]),
    ],
)
def test_what_is_no_dialogue_is_refused_with_its_place(tmp_path: Path, name: str, content: str | bytes, told: list[str]) -> None:
    with pytest.raises(UserError) as refused:
        turns_of(tmp_path / name, content)
    for part in told:
        assert part in str(refused.value)


def test_a_name_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="smalltalk"):
        read_dialogues(["builtin:smaltalk/train"])
    with pytest.raises(UserError, match="does not exist"):
        read_dialogues([str(tmp_path / "none.txt")])


TALKED = [Dialogue(("a", "b", "c", "d"), "here"), Dialogue(("e",), "there")]


def test_every_reply_comes_with_the_turns_before_it() -> None:
    assert exchanges(TALKED, 1) == [Exchange(("a",), "b"), Exchange(("b",), "c"), Exchange(("c",), "d")]
    assert exchanges(TALKED, 2)[-1] == Exchange(("b", "c"), "d")
    assert exchanges(TALKED, 9, every=False) == [Exchange(("a",), "b"), Exchange(("a", "b", "c"), "d")]
    assert exchanges(TALKED, 2)[1].pair == ("a __eou__ b", "c")


@given(talk=TALK, turns=st.integers(1, 6), room=st.integers(1, 30))
def test_what_fits_are_the_last_turns_and_one_more_would_not(talk: tuple[str, ...], turns: int, room: int) -> None:
    kept = recent(talk, turns, room, len)
    assert 1 <= len(kept) <= turns
    assert kept == talk[-len(kept) :]
    assert len(kept) == 1 or sum(len(turn) + 1 for turn in kept) <= room
    if len(kept) < min(turns, len(talk)):
        assert sum(len(turn) + 1 for turn in talk[-len(kept) - 1 :]) > room


def test_typed_turns_have_marks_between_them() -> None:
    assert as_typed("hi  there __eou__ hello__eou__") == ("hi there", "hello")
    assert as_typed(" __eou__ ") == ()

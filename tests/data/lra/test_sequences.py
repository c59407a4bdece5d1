"""Sequences of symbols: as examples they are like others, as numbers they are theirs; kept, they are what was drawn."""

from __future__ import annotations

import io
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.labelled import SpecialTokens
from regard.data.lra import SETS, Sequences, concatenate, generate_sequences, is_generated, parse_request
from regard.data.lra.generate import SequenceArrays, _received, _start, generate_chunks, load_or_generate, read_chunk, to_bytes

rows = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=9)


def made(given: list[list[int]], where: str = "here") -> Sequences:
    lengths = np.array([len(row) for row in given])
    labels = np.array([row[0] % 2 for row in given])
    return Sequences(
        ("a", "b", "c"), np.array([n for row in given for n in row], np.uint8), lengths, ("even", "odd"), labels, where
    )


@given(rows)
def test_an_example_is_its_row(given: list[list[int]]) -> None:
    found = made(given)
    assert [example.text for example in found] == [" ".join("abc"[n] for n in row) for row in given]
    assert [example.label for example in found] == ["odd" if row[0] % 2 else "even" for row in given]
    assert found[-1].place == f"here, number {len(given)}"
    assert found[0].texts == (found[0].text,)
    assert (found[0].key == found[-1].key) == (given[0] == given[-1])
    with pytest.raises(IndexError):
        found[len(given)]


@given(rows, rows, st.integers(1, 20))
def test_two_sets_follow_each_other(first: list[list[int]], second: list[list[int]], limit: int) -> None:
    both = concatenate([made(first), made(second)], limit)
    assert [example.text for example in both] == [example.text for example in made((first + second)[:limit])]
    turned = both.take(np.arange(len(both))[::-1])
    assert [example.text for example in turned] == [example.text for example in both][::-1]
    assert turned[0].label == both[-1].label


@given(rows, st.integers(1, 8))
def test_numbers_of_a_vocabulary_are_those_that_marks_would_lay(given: list[list[int]], most: int) -> None:
    table = np.array([7, 9, 8])
    found = made(given).between(table, 1, 2, most)
    expected = [SpecialTokens(1, 2, 2).around([table[row].tolist()], most + 2)[0] for row in given]
    assert [row.tolist() for row in map(found.__getitem__, range(len(found)))] == expected


def test_what_is_kept_is_what_was_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.lra.generate.SMALL", 10)
    calls = []

    def make() -> SequenceArrays:
        calls.append(1)
        return SequenceArrays(np.arange(20, dtype=np.uint8), np.array([12, 8]), np.array([0, 1]))

    first, second = load_or_generate("something", make, tmp_path), load_or_generate("something", make, tmp_path)
    assert len(calls) == 1
    assert all((a == b).all() for a, b in zip(first, second))
    load_or_generate("something else", make, tmp_path)
    assert len(calls) == 2
    assert not [path for path in (tmp_path / "arena").iterdir() if path.suffix not in (".flat", ".npz")]


@pytest.mark.parametrize("suffix", [".flat", ".npz"])
@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_made_again(suffix: str, damage: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.lra.generate.SMALL", 10)
    drawn = SequenceArrays(np.arange(20, dtype=np.uint8), np.array([12, 8]), np.array([0, 1]))
    load_or_generate("something", lambda: drawn, tmp_path)
    (path,) = (tmp_path / "arena").glob(f"*{suffix}")
    path.write_bytes(bytes(20) if damage is None else damage)  # None: as long as before, and other
    found = load_or_generate("something", lambda: drawn, tmp_path)
    assert (found.flat == drawn.flat).all()
    assert (load_or_generate("something", lambda: SequenceArrays.none(), tmp_path).flat == drawn.flat).all()


@settings(max_examples=10)
@given(rows)
def test_a_chunk_survives_the_pipe(given: list[list[int]]) -> None:
    found = made(given)
    chunk = SequenceArrays(found.flat, found.lengths, found.labels)
    pipe = io.BytesIO(to_bytes(chunk) + to_bytes(SequenceArrays.none()))
    assert all((a == b).all() for a, b in zip(chunk, read_chunk(pipe) or SequenceArrays.none()))
    assert len((read_chunk(pipe) or chunk).lengths) == 0
    assert read_chunk(pipe) is None
    assert read_chunk(io.BytesIO(to_bytes(chunk)[:-1])) is None


def test_processes_draw_what_one_draws() -> None:
    entry = "builtin:parity@length=2-20/train"
    asked, kind = parse_request(entry), SETS["parity"]
    with generate_chunks(entry, kind, asked) as alone:
        expected = list(islice(alone, 3))
    started = [_start(entry, number, 2) for number in range(2)]
    try:
        found = list(islice(_received(started), 3))
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    assert all((a == b).all() for one, other in zip(expected, found) for a, b in zip(one, other))


def test_a_limit_asks_for_no_more() -> None:
    assert len(generate_sequences("builtin:dyck/train", limit=7)) == 7
    assert parse_request("builtin:listops/train").size == 96_000
    assert parse_request("builtin:listops@count=5/train", limit=9).size == 5
    assert is_generated("builtin:listops@x/train")
    assert not is_generated("builtin:remarks/train")

"""Token files: what a plain loop would write, reused when nothing changed, made again when anything did, flat in memory."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.batching import token_cache
from regard.data.batching.token_cache import Tokens, cache_folder, tokenise
from regard.data.builtin import python_reference
from regard.text.tokenizer import Tokenizer, train_tokenizer

EOS = 2
WORDS = ["one", "two", "three,", "four.", "\n", "five's", "héllo"]
documents = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(lambda w: " ".join(["a", *w])), min_size=1, max_size=8
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer("bpe", [" ".join(WORDS)], 60)


def made(where: Path, tokenizer: Tokenizer, cache: Path, eos: int | None = EOS, said: list[str] | None = None) -> Tokens:
    return tokenise((str(where),), None, tokenizer, eos=eos, cache=cache, say=(said if said is not None else []).append)


def refuse_to_read(*_: object) -> None:
    raise AssertionError("the text was read again")


# what is written --------------------------------------------------------------------------------------------------
@given(texts=documents, ended=st.booleans(), batch=st.integers(1, 200))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_it_is_what_a_plain_loop_writes(tmp_path: Path, tokenizer: Tokenizer, texts: list[str], ended: bool, batch: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts), "utf-8")
    token_cache.LONGEST, before = batch, token_cache.LONGEST
    try:
        tokens = made(
            path, tokenizer, tmp_path / hashlib.sha256(repr((texts, ended)).encode()).hexdigest(), EOS if ended else None
        )
    finally:
        token_cache.LONGEST = before
    rows = [tokenizer.encode(text) + [EOS] * ended for text in texts]
    assert tokens.ids.tolist() == [n for row in rows for n in row]
    assert tokens.starts.tolist() == np.cumsum([0] + [len(row) for row in rows])[:-1].tolist()
    assert tokens.documents == len(texts)
    assert tokens.bytes == len("".join(texts).encode())
    assert tokens.sha256 == hashlib.sha256(np.array(list(chain(*rows)), "<u2").tobytes()).hexdigest()
    assert isinstance(tokens.ids, np.memmap)
    assert isinstance(tokens.starts, np.memmap)
    assert not tokens.ids.flags.writeable


def test_many_vocabularies_need_more_than_two_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" ".join(map(str, range(70_000))))
    words = train_tokenizer("word", [(tmp_path / "a.txt").read_text()], 80_000)
    tokens = made(tmp_path / "a.txt", words, tmp_path / "cache")
    assert tokens.ids.dtype == np.uint32
    assert int(tokens.ids.max()) > 2**16
    assert words.decode(tokens.ids.tolist()) == (tmp_path / "a.txt").read_text()


def test_a_long_document_and_documents_without_tokens(tmp_path: Path, tokenizer: Tokenizer) -> None:
    text = "one two three,\nfour. " * 60_000
    (tmp_path / "a.txt").write_text(f"{text}\n<|endoftext|>\n▁\n<|endoftext|>\none")  # "▁" is read as a space, so as nothing
    whole = tokenizer.encode(text)
    tokens = made(tmp_path / "a.txt", tokenizer, tmp_path / "cache", eos=None)
    assert tokens.ids.tolist() == whole + tokenizer.encode("one")
    assert tokens.starts.tolist() == [0, len(whole)]
    assert tokens.documents == 2
    ended = made(tmp_path / "a.txt", tokenizer, tmp_path / "cache")
    assert ended.starts.tolist() == [0, len(whole) + 1, len(whole) + 2]


def test_the_built_in_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    tokens = tokenise(("builtin:python-reference/test",), None, tokenizer, eos=EOS, cache=tmp_path)
    assert tokens.documents == len(python_reference("test"))
    (about,) = (json.loads(path.read_text()) for path in tmp_path.glob("*.json"))
    assert "CPython" in about["builtin"]
    assert about["tokenizer"] == tokenizer.fingerprint()
    assert about["tokens"] == len(tokens.ids)


# what is kept -----------------------------------------------------------------------------------------------------
def test_it_is_reused_until_something_changes(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text("one two")
    first = made(path, tokenizer, cache)
    with monkeypatch.context() as patch:
        patch.setattr(token_cache, "parts", refuse_to_read)
        assert made(path, tokenizer, cache).ids.tolist() == first.ids.tolist()
        monkeypatch.chdir(tmp_path)
    changed = [
        lambda: made(path, tokenizer, cache, eos=None),
        lambda: made(path, train_tokenizer("character", ["one two"], 60), cache),
        lambda: tokenise((str(path),), "body", tokenizer, eos=EOS, cache=cache),
        lambda: tokenise((str(path), str(path)), None, tokenizer, eos=EOS, cache=cache),
        lambda: (os.utime(path, ns=(1, 1)), made(path, tokenizer, cache)),
        lambda: (path.write_text("one two three,"), made(path, tokenizer, cache)),
    ]
    for number, change in enumerate(changed, start=2):
        change()
        assert len(list(cache.glob("*.json"))) == number
    assert made(path, tokenizer, cache).ids.tolist() == [*tokenizer.encode("one two three,"), EOS]
    assert not list(cache.glob("*.part"))


@pytest.mark.parametrize("damage", ["ids", "starts", "json", "no ids", "no json", "other json"])
def test_what_is_damaged_is_made_again(tmp_path: Path, tokenizer: Tokenizer, damage: str) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text("one two three,\n<|endoftext|>\nfour.")
    first = made(path, tokenizer, cache)
    expected = first.ids.tolist(), first.starts.tolist()
    (victim,) = cache.glob(f"*.{damage.split()[-1]}")
    if damage.startswith("no"):
        victim.unlink()
    elif damage == "other json":
        victim.write_text("[1, 2]")
    else:
        victim.write_bytes(victim.read_bytes()[:-1])
    again = made(path, tokenizer, cache)
    assert (again.ids.tolist(), again.starts.tolist()) == expected


def test_half_written_is_not_there(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_bytes(b"one\n<|endoftext|>\n" * 1000 + b"\xff")
    monkeypatch.setattr(token_cache, "LONGEST", 100)
    with pytest.raises(UserError, match="line 2001, byte 1"):
        made(path, tokenizer, cache)
    assert [kept.suffix for kept in cache.iterdir()] == [".lock"]


KILLED = """
import os, sys
from pathlib import Path
from regard.data.batching import token_cache
from regard.text.tokenizer import Tokenizer
path, saved, cache, how = sys.argv[1:]
if how == "killed":
    token_cache.flush_file = lambda path: os._exit(9)
tokens = token_cache.tokenise((path,), None, Tokenizer.load(saved), eos=2, cache=Path(cache), say=print)
print(len(tokens.ids), tokens.sha256)
"""


def test_several_processes_and_one_that_was_killed(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text("one two three,\n" * 50_000)
    tokenizer.save(tmp_path / "tokenizer.json")

    def start(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "tokenizer.json"), str(cache), how]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    killed = start("killed")
    killed.communicate()
    assert killed.returncode == 9
    assert list(cache.glob("*.part"))
    runs = [start("whole") for _ in range(2)]
    said = [run.communicate()[0].splitlines()[-1] for run in runs]
    expected = made(path, tokenizer, tmp_path / "alone")
    assert said == [f"{len(expected.ids)} {expected.sha256}"] * 2
    assert not list(cache.glob("*.part"))


def test_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "regard"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "regard"
    monkeypatch.setenv("REGARD_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def test_a_folder_that_cannot_be_written(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="REGARD_CACHE"):
        made(tmp_path / "a.txt", tokenizer, tmp_path / "file" / "cache")


def test_text_that_gives_no_tokens(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt").write_text("▁")
    with pytest.raises(UserError, match="no tokens"):
        made(tmp_path / "a.txt", tokenizer, tmp_path / "cache", eos=None)


# while it runs ----------------------------------------------------------------------------------------------------
def test_whoever_waits_is_told(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "SAY_EVERY", 0.0)
    (tmp_path / "a.txt").write_text("one two three,\n" * 50_000)
    said: list[str] = []
    made(tmp_path / "a.txt", tokenizer, tmp_path / "cache", said=said)
    assert len(said) > 1
    assert all("MB of text" in line and "tokens" in line for line in said)


def test_order_holds_when_later_batches_are_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "LONGEST", 10)
    monkeypatch.setattr(token_cache, "processors", lambda: 4)

    def encode(texts: list[str]) -> list[list[int]]:
        time.sleep(0.02 if int(texts[0]) % 3 == 0 else 0.0)
        return [[int(text)] for text in texts]

    parts = (token_cache.Part(f"{n:010}", True) for n in range(40))
    found = [n for batch in token_cache.encode_parts(parts, encode, None, np.dtype(np.uint16)) for n in batch.ids]
    assert found == list(range(40))


FLAT = """
import resource, sys
from pathlib import Path
from regard.data.batching import token_cache
from regard.data.batching.token_cache import tokenise
from regard.text.tokenizer import Tokenizer
small, large, saved, cache = map(Path, sys.argv[1:])
token_cache.processors = lambda: 2
for path in (small, large):
    tokenise((str(path),), None, Tokenizer.load(saved), eos=2, cache=cache, say=lambda line: None)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The high-water mark in MB, after 0.75 MB of text in one line and after six times as much."""
    tokenizer.save(tmp_path / "tokenizer.json")
    for name, times in (("small.txt.gz", 1), ("large.txt.gz", 6)):
        with gzip.open(tmp_path / name, "wt", compresslevel=1) as file:
            for n in range(50_000 * times):  # with numbers in it: what shrinks to a hundredth is refused as a bomb
                file.write(f"one {n} three, ")
    command = [
        sys.executable,
        "-c",
        FLAT,
        *(str(tmp_path / name) for name in ("small.txt.gz", "large.txt.gz", "tokenizer.json", "c")),
    ]
    small, large = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert large - small < 40, (small, large)  # 125 if a line is held whole

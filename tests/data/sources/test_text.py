"""Documents from every kind of place, and for every bad one the sentence it deserves."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.builtin import python_reference
from regard.data.sources import text as module
from regard.data.sources.files import text_blocks
from regard.data.sources.text import documents, files, parts

Write = Callable[[str, str | bytes], str]
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), max_size=30).map(lambda t: f"a{t}b")
writes = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> str:
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return str(tmp_path / name)

    return write


def refused(where: tuple[str, ...], *said: str, column: str | None = None) -> None:
    with pytest.raises(UserError) as caught:
        list(documents(where, column))
    for sentence in said:
        assert sentence in str(caught.value)


# places -----------------------------------------------------------------------------------------------------------
@given(content=text, name=st.sampled_from(["a.txt", "a.log", "a", "a.txt.gz"]), end=st.sampled_from(["\n", "\r\n"]))
@writes
def test_a_file_is_one_document_as_it_stands(write: Write, content: str, name: str, end: str) -> None:
    assert list(documents((write(name, "\ufeff" + content.replace("\n", end)),))) == [content]


def test_a_line_of_its_own_ends_a_document(write: Write) -> None:
    path = write(
        "a.txt",
        "<|endoftext|>\none\n<|endoftext|>\r\ntwo <|endoftext|>\n  \n<|endoftext|>\n\n<|endoftext|>\nthree\n<|endoftext|>",
    )
    assert list(documents((path,))) == ["one\n", "two <|endoftext|>\n  \n", "three\n"]


@given(contents=st.lists(text, min_size=1, max_size=6), name=st.sampled_from(["a.jsonl", "a.ndjson.gz"]))
@writes
def test_json_lines_as_python_writes_them(write: Write, contents: list[str], name: str) -> None:
    path = write(name, "\n".join(json.dumps({"text": content, "body": "x"}) for content in contents))
    assert list(documents((path,))) == contents
    assert list(documents((path,), "body")) == ["x"] * len(contents)


def test_folder_glob_and_several(write: Write, tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.md", "a.txt.gz", "b/.hidden/x.txt", "b/.x.txt", "c.csv"):
        write(name, name)
    lines = write("b/3.jsonl", '{"text": "l1"}\n{"text": ""}\n{"text": "l2"}\n')
    write("empty.txt", "\n")
    assert list(documents((str(tmp_path),))) == ["a.txt.gz", "b/1.md", "b/2.txt", "l1", "l2"]
    assert list(documents((str(tmp_path / "b" / "*.[mt]*"),))) == ["b/1.md", "b/2.txt"]
    assert list(documents((str(tmp_path / "**" / "*.txt"),))) == ["b/2.txt"]
    assert list(documents((lines, str(tmp_path / "c.csv")))) == ["l1", "l2", "c.csv"]
    odd = write("odd[1].txt", "odd")
    assert files(odd) == [Path(odd)]


def test_home_and_here(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.txt", "x")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert list(documents(("~/a.txt", "a.txt", "~/*.txt", "*.txt", "."))) == ["x"] * 5


def test_builtin() -> None:
    assert list(documents(("builtin:python-reference/valid",), "no matter")) == python_reference("valid")
    refused(("builtin:python-reference",), "builtin:python-reference/train")
    refused(("builtin:python-reference/tests",), "did you mean 'test'?")
    refused(("builtin:python-referense/test",), "did you mean 'python-reference'?")


def test_hub_opens_a_folder(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    write("corpus/train.jsonl", '{"text": "one"}\n{"text": ""}\n{"text": "two"}\n')
    assert list(documents((f"hf:{tmp_path / 'corpus'}",))) == ["one", "two"]
    refused((f"hf:{tmp_path / 'corpus'}",), "row 0: there is no column 'texts'", "did you mean 'text'?", column="texts")
    refused((f"hf:{tmp_path / 'corpus'}:test",), "could not be opened", "hf:NAME@CONFIG:SPLIT")
    refused(("hf:@x",), "is not hf:NAME")


def test_long_documents_come_in_parts(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 1000)
    path = write("a.txt", "some words in a row\n" * 100_000)
    found = list(parts((path,)))
    assert len(found) > 5
    assert "".join(part.text for part in found) == Path(path).read_text()
    assert [part.ends for part in found] == [False] * (len(found) - 1) + [True]


@given(content=st.text("aé中😀\n", max_size=200), size=st.integers(1, 40))
@writes
def test_blocks_are_the_text_wherever_it_is_cut(write: Write, content: str, size: int) -> None:
    assert "".join(text_blocks(Path(write("a.txt", content)), size)) == content


# places that are none ---------------------------------------------------------------------------------------------
def test_nothing_there(write: Write, tmp_path: Path) -> None:
    write("train.txt", "x")
    refused((), "no text to read")
    refused((str(tmp_path / "trian.txt"),), "trian.txt does not exist", "did you mean 'train.txt'?")
    refused((str(tmp_path / "*.md"),), f"{tmp_path / '*.md'} matches no file", "quotes")
    (tmp_path / "none").mkdir()
    refused((str(tmp_path / "none"),), "is a folder without .txt, .md, .jsonl", "folder with text")
    write("none/a.csv", "x")
    refused((str(tmp_path / "none"),), f"such as {tmp_path / 'none' / '*.csv'}")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_empty(write: Write, name: str, content: str) -> None:
    path = write(name, content)
    refused((path,), f"{path} is empty")


def test_only_ends_of_documents(write: Write) -> None:
    path = write("a.txt", "<|endoftext|>\n" * 3)
    refused((path,), f"{path} is empty")


@given(before=st.integers(0, 300), lines=st.integers(0, 4), size=st.integers(1, 100))
@writes
def test_not_utf8_names_line_and_byte_wherever_it_is_cut(write: Write, before: int, lines: int, size: int) -> None:
    path = write("a.txt", "é1\n".encode() * lines + b"x" * before + b"\xe9\n" + b"more\n" * 50)
    with pytest.raises(UserError) as caught:
        list(text_blocks(Path(path), size))
    assert f"{path}, line {lines + 1}, byte {before + 1}: 0xE9 is not UTF-8" in str(caught.value)


def test_other_files_that_are_no_text(write: Write) -> None:
    refused((write("cut.txt", "é".encode()[:1]),), "line 1, byte 1: 0xC3 is not UTF-8")
    refused((write("a.txt", b"a\nb\nc\0"),), "line 3: a NUL byte")
    refused((write("b.txt", "a".encode("utf-16")),), "UTF-16", "iconv")
    broken = write("c.txt.gz", "x" * 10_000)
    Path(broken).write_bytes(Path(broken).read_bytes()[:-6])
    refused((broken,), "is not a whole gzip file")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"text": }', ["this is not JSON"]),
        ('["a"]', ["list found, object expected", '{"text": "..."}']),
        ('{"txt": "a"}', ["no column 'text' (known: txt)", "did you mean 'txt'?", "data.column=NAME"]),
        ('{"text": 3}', ["column 'text' holds int"]),
        ('{"text": "\\ud83d"}', ["half a character"]),
    ],
)
def test_bad_json(write: Write, row: str, said: list[str]) -> None:
    path = write("a.jsonl", f'{{"text": "a"}}\n{row}\n')
    refused((path,), f"{path}, line 2: ", *said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(write: Write) -> None:
    path = write("a.txt", "x")
    Path(path).chmod(0)
    refused((path,), f"{path} cannot be read", "Permission denied")

"""Texts to translate and to look into: what cannot be read is told, and what is merely strange works."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.command import contents, refused, regard, trained, went_well

BRIEF = ["decode.maximum_length=6"]


@pytest.mark.parametrize(
    "text",
    [
        "xyzzy plugh",  # words it never saw
        "😀👩‍👩‍👧‍👦",
        "the\x00\x01\x1b[31m cat\x7f",
        "\u202ethe cat\u2028sees",
        "e\u0301\u0327" * 40,
        "<eos> <pad> <unk>",
        "the cat sees " * 1667,  # five thousand words
        "x" * 20000,
        "   the   cat   ",
        "-1",
    ],
)
def test_a_strange_text_is_translated(text: str) -> None:
    result = regard("predict", trained(), *BRIEF, "--", text)
    assert went_well(result), result
    assert result.out.count("\n") == 1


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20), max_size=8))
def test_there_is_one_line_for_each_line(lines: list[str]) -> None:
    result = regard("predict", trained(), *BRIEF, stdin="".join(f"{line}\n" for line in lines).encode())
    assert went_well(result), result
    outputs = result.out.split("\n")
    assert len(outputs) == len(lines) + 1
    for line, output in zip(lines, outputs):
        assert bool(line.strip("\ufeff").strip()) or output == ""


def test_an_empty_line_gives_an_empty_line() -> None:
    result = regard("predict", trained(), *BRIEF, stdin=b"\nthe cat\n\n  \r\nthe dog")
    assert went_well(result), result
    first, cat, third, fourth, dog, end = result.out.split("\n")
    assert (first, third, fourth, end) == ("", "", "", "")
    assert cat
    assert dog
    assert regard("predict", trained(), "").out == "\n"
    assert regard("predict", trained(), stdin=b"").out == ""


@pytest.mark.parametrize("line", [b"caf\xe9", b"\xff\xfet\0h\0e\0", b"\xed\xa0\x80", b"\xf0\x9f\x98"])
def test_lines_that_are_not_utf8(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"the cat\n" * 99 + line)
    for given_, name in ((["--input", tmp_path / "in"], f"--input {tmp_path / 'in'}"), ([], "standard input")):
        stdin = b"" if given_ else (tmp_path / "in").read_bytes()
        result = regard("predict", trained(), *BRIEF, *given_, stdin=stdin)
        refused(result, f"{name}, line 100: byte ", "is not UTF-8", "iconv")
    assert result.out.count("\n") == 99  # what came before


def test_a_text_that_is_not_unicode() -> None:
    refused(regard("predict", trained(), "caf\udce9"), "half a character", "UTF-8")
    refused(regard("lens", trained(), "caf\udce9"), "half a character", "UTF-8")


def test_an_input_that_cannot_be_read(tmp_path: Path) -> None:
    refused(regard("predict", trained(), "--input", tmp_path / "none"), f"--input {tmp_path / 'none'} does not exist")
    refused(regard("predict", trained(), "--input", tmp_path), f"--input {tmp_path} is a folder")
    (tmp_path / "in").write_text("the cat\n")
    refused(regard("predict", trained(), "the cat", "--input", tmp_path / "in"), "both a text and --input", "give one")
    refused(regard("predict", trained(), "--input", tmp_path / "in" / "x"), "Not a directory")


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_an_output_that_cannot_be_written(verb: str, tmp_path: Path) -> None:
    rest = ["the cat"] if verb == "predict" else []
    refused(regard(verb, trained(), *rest, "--output", tmp_path / "no" / "out"), f"there is no folder {tmp_path / 'no'}")
    refused(regard(verb, trained(), *rest, "--output", tmp_path), f"--output {tmp_path} is a folder")
    assert contents(tmp_path) == {}


def test_an_output_that_was_there_outlives_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("hours of work\n")
    before = contents(tmp_path)
    refused(regard("predict", tmp_path / "no-run", "x", "--output", tmp_path / "out"), "no-run does not exist")
    refused(regard("predict", trained(), "--output", tmp_path / "out", stdin=b"\xff"), "not UTF-8")
    refused(regard("predict", trained(), "x", "--output", tmp_path / "out", "decode.beam=0"), "decode.beam")
    assert contents(tmp_path) == before
    refused(regard("predict", trained(), *BRIEF, "--output", tmp_path / "out", stdin=b"the cat\n" * 64 + b"\xff"), "line 65")
    assert (tmp_path / "out").read_text() == "hours of work\n"
    assert (tmp_path / "out.part").read_text().count("\n") == 64  # not lost either
    assert regard("predict", trained(), *BRIEF, "the cat", "--output", tmp_path / "out").code == 0
    assert contents(tmp_path).keys() == {"out"}


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ([""], ("the text is empty",)),
        (["  \t"], ("the text is empty",)),
        (["the cat", "--part", "crss"], ("--part crss", "did you mean 'cross'?")),
        (["the cat", "--out", "{}/x.jpg"], ("x.jpg must end in", ".png")),
        (["the cat", "--out", "{}/x"], ("must end in", ".png")),
        (["the cat", "--out", "{}/no/x.png"], ("there is no folder",)),
        (["the cat", "--out", "{}/folder.png"], ("folder.png is a folder",)),
    ],
)
def test_a_lens_on_nothing(rest: list[str], told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    filled = [part.format(tmp_path) for part in rest]
    refused(regard("lens", trained(), *filled), *told)
    refused(regard("lens", tmp_path / "no-run", *filled), *told)  # told before the model is looked for
    assert contents(tmp_path).keys() == {"folder.png"}


def test_a_lens_on_a_second_text() -> None:
    """Only a model says whether it is a question about an image."""
    refused(regard("lens", trained(), "the", "cat"), "'cat' is a second", "'regard lens --help'")

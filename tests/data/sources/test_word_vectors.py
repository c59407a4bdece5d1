"""Files of vectors come back as they were written, open as other programs write them, and bad ones are told in a sentence."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.core.errors import UserError
from regard.data.config import is_vector_file
from regard.data.sources.word_vectors import FILES, WordVectors, read_vectors, write_vectors

THREE = WordVectors(("the", "king", "café"), np.array([[1, -2.5], [1e-7, 3], [0.1, 4e20]], np.float32))
name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"), min_size=1, max_size=8)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=25)
@given(st.data())
def test_what_is_written_is_read(kind: str, suffix: str, data: st.DataObject) -> None:
    words = data.draw(st.lists(name, min_size=1, max_size=6, unique=True))
    shape = (len(words), data.draw(st.integers(1, 5)))
    numbers = data.draw(arrays.arrays(np.float32, shape, elements=st.floats(allow_nan=False, allow_infinity=False, width=32)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"vectors.vec{suffix}"
        write_vectors(path, WordVectors(tuple(words), numbers), kind)
        found = read_vectors(path)
        assert [each.name for each in Path(folder).iterdir()] == [path.name]
    assert found.words == tuple(words)
    assert (found.vectors_VD == numbers).all()


def test_binary_files_of_both_programs_open(tmp_path: Path) -> None:
    """word2vec ends each vector with a line end, gensim does not."""
    rows = THREE.vectors_VD.astype("<f4")
    for end in (b"\n", b""):
        body = b"".join(word.encode() + b" " + row.tobytes() + end for word, row in zip(THREE.words, rows))
        (tmp_path / "x.bin").write_bytes(b"3 2\n" + body)
        found = read_vectors(tmp_path / "x.bin")
        assert found.words == THREE.words
        assert (found.vectors_VD == THREE.vectors_VD).all()


def test_numbers_that_hold_a_space_or_a_line_end_are_numbers(tmp_path: Path) -> None:
    numbers = np.frombuffer(b" \n \n", "<f4")
    write_vectors(tmp_path / "x.bin", WordVectors(("a", "b"), np.stack([numbers, numbers])), "word2vec-binary")
    assert (read_vectors(tmp_path / "x.bin").vectors_VD == numbers).all()


def test_a_large_binary_file_is_read_in_pieces(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(3000, 50)).astype(np.float32)
    vectors = WordVectors(tuple(f"word{n}" for n in range(3000)), numbers)
    write_vectors(tmp_path / "x.bin.gz", vectors, "word2vec-binary")
    assert (read_vectors(tmp_path / "x.bin.gz").vectors_VD == numbers).all()
    assert read_vectors(tmp_path / "x.bin.gz", 10).words == vectors.words[:10]


def test_words_with_spaces_repeated_words_and_broken_ones(tmp_path: Path) -> None:
    """As glove.840B has them, and as cut words are."""
    (tmp_path / "x.txt").write_bytes(b"the 1 2\n. . . 3 4\nthe 5 6\ncaf\xc3 7 8\n\n")
    found = read_vectors(tmp_path / "x.txt")
    assert found.words == ("the", ". . .", "caf�")
    assert found.vectors_VD.tolist() == [[1, 2], [3, 4], [7, 8]]


def test_a_file_is_known_by_its_name(tmp_path: Path) -> None:
    for file in ("a.vec", "b.bin.gz", "c.TXT", "d.toml"):
        (tmp_path / file).touch()
    assert [is_vector_file(tmp_path / file) for file in ("a.vec", "b.bin.gz", "c.TXT", "d.toml", "e.vec")] == [True] * 3 + [
        False
    ] * 2
    assert not is_vector_file(tmp_path)


BAD = {
    "empty": (b"", "is empty|is not a word"),
    "blank": (b"\n\n", "is not a word"),
    "prose": (b"the king sleeps\nand the queen wakes\n", "could not convert"),
    "one word": (b"hello\n", "is not a word and its numbers"),
    "a number missing": (b"a 1 2 3\nb 1 2\n", "line 2: there are 2 numbers behind 'b', and 3 are expected"),
    "no number": (b"a 1 2 3\nb 1 x 3\n", "line 2: could not convert"),
    "not finite": (b"a 1 nan 3\n", "vector of 'a', word 1"),
    "too few words": (b"3 2\na 1 2\nb 3 4\n", "ends after 2 of 3 words"),
    "too many words": (b"1 2\na 1 2\nb 3 4\n", "line 3: the first line says 1 words"),
    "binary cut": (b"2 3\na " + bytes(12) + b"b " + bytes(5), "ends after 1 of 2 words"),
    "binary too long": (b"1 3\na " + bytes(12) + b"b " + bytes(12), "there is more behind them"),
    "no end of a word": (b"1 3\n" + b"\xff" * 9000, "word 1 has no end"),
    "wide": (b"2 1000000000\na " + bytes(100), "words of '1000000000' numbers each are more than any file has"),
    "wider": (b"2 4000000000000000000\na " + bytes(100), "more than any file has"),
    "5,000 digits": (b"2 " + b"9" * 5000 + b"\na " + bytes(100), "more than any file has"),
    "5,000 digits of words": (b"9" * 5000 + b" 2\na 1 2\n", "more than any file has"),
    "too many for its size": (b"100000000000 60000\na " + bytes(300_000), "do not fit into the 293 KiB that the file has"),
    "too many lines for its size": (b"1000 2\na 1 2\n", "do not fit into the 13 bytes"),
    "a word of a gigabyte": (b"a 1 2\n" + b"x" * 3_000_000 + b" 1 2\n", "line 2: it is longer than 2 MiB"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_told(case: str, tmp_path: Path) -> None:
    content, says = BAD[case]
    (tmp_path / "x.vec").write_bytes(content)
    with pytest.raises(UserError, match=says):
        read_vectors(tmp_path / "x.vec")


def test_a_sentence_quotes_little_of_a_long_line(tmp_path: Path) -> None:
    (tmp_path / "x.vec").write_bytes(b"a 1 2\nb 1 \x1b" + b"y" * 1_000_000 + b"\n")
    with pytest.raises(UserError) as caught:
        read_vectors(tmp_path / "x.vec")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert "\x1b" not in str(caught.value)


def test_headers_of_gzipped_files_promise_no_memory(tmp_path: Path) -> None:
    (tmp_path / "x.bin.gz").write_bytes(gzip.compress(b"100000000000 60000\na " + bytes(1000)))
    tracemalloc.start()
    with pytest.raises(UserError, match="ends after 0 of 100,000,000,000 words"):
        read_vectors(tmp_path / "x.bin.gz")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_pipes_and_devices_are_no_vectors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.vec")
    with pytest.raises(UserError, match="is a pipe"):
        read_vectors(tmp_path / "x.vec")
    (tmp_path / "y.bin").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="is a device"):
        read_vectors(tmp_path / "y.bin")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".x.vec.part").symlink_to("precious")
    write_vectors(tmp_path / "x.vec", THREE, "word2vec")
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "x.vec").is_symlink()


def test_a_gzip_file_that_is_none_or_half_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.vec.gz").write_bytes(b"the 1 2\n")
    with pytest.raises(UserError, match="not a whole gzip file"):
        read_vectors(tmp_path / "x.vec.gz")
    (tmp_path / "x.vec.gz").write_bytes(gzip.compress(b"the 1 2\n" * 10_000)[:-20])
    with pytest.raises(UserError, match="not a whole gzip file"):
        read_vectors(tmp_path / "x.vec.gz")


@settings(max_examples=60)
@given(st.binary(max_size=200), st.sampled_from([b"", b"2 3\n", b"the 1 2 3\n"]))
def test_any_bytes_are_read_or_told(content: bytes, before: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.vec"
        path.write_bytes(before + content)
        try:
            found = read_vectors(path)
        except UserError:
            return
        assert len(found.words) == len(found.vectors_VD)
        assert np.isfinite(found.vectors_VD).all()


def test_a_word_with_a_space_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'New York' has a space"):
        write_vectors(tmp_path / "x.vec", WordVectors(("New York",), np.zeros((1, 2), np.float32)), "word2vec")
    assert not list(tmp_path.iterdir())

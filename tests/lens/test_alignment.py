"""An alignment refuses what is no attention, comes back from JSON bit for bit, and prints within the terminal's width."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lens.alignment import Alignment, read
from regard.lens.result import save

HOSTILE = ("</script><img src=x onerror=alert(1)>", "\x1b[31mred", "\u202eevil", "$\\frac{1}{2}$", "a\nb", "", "\ud800", "你")


def some(queries: tuple[str, ...], keys: tuple[str, ...], layers: int = 2, heads: int = 3, seed: int = 0) -> Alignment:
    draw = np.random.default_rng(seed).dirichlet(np.full(len(keys), 0.4), size=(layers, heads, len(queries)))
    return Alignment("a title", queries, keys, draw, tuple(f"decoder.{n}.cross" for n in range(layers)))


def test_mean_and_one_head() -> None:
    alignment = some(("a", "b"), ("x", "y", "z"))
    assert alignment.weights.dtype == np.float32
    np.testing.assert_allclose(alignment.mean(), sum(alignment.of(n, h) for n in range(2) for h in range(3)) / 6, atol=1e-6)
    np.testing.assert_array_equal(alignment.of("decoder.1.cross", 2), alignment.weights[1, 2])
    for layer, head in ((2, 0), (0, 3), (-1, 0), ("encoder.0", 0)):
        with pytest.raises(ValueError, match="layer"):
            alignment.of(layer, head)


def test_an_alignment_keeps_its_own_copy() -> None:
    mine = np.full((1, 1, 1, 2), 0.5, dtype=np.float32)
    alignment = Alignment("t", ("a",), ("x", "y"), mine, ("l",))
    mine[:] = 7
    assert alignment.of(0, 0).tolist() == [[0.5, 0.5]]
    with pytest.raises(ValueError, match="read-only"):
        alignment.weights[0, 0, 0, 0] = 1


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.full((2, 2), 0.5), "shape"),
        (np.zeros((1, 0, 2, 2)), "shape"),
        (np.full((1, 1, 3, 2), 0.5), "3 queries"),
        (np.full((1, 1, 2, 4), 0.25), "4 keys"),
        (np.full((2, 1, 2, 2), 0.5), "2 layers"),
        (np.full((1, 1, 2, 2), 0.51), r"sum to 1\.02"),
        (np.array([[[[0.5, 0.5], [1.5, -0.5]]]]), "least weight of -0.5"),
        (np.array([[[[0.5, 0.5], [np.nan, 1.0]]]]), r"query 1 \('b'\)"),
        (np.array([[[[0.5, 0.5], [np.inf, 0.0]]]]), "query 1"),
    ],
)
def test_what_is_no_attention_is_refused(weights: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Alignment("t", ("a", "b"), ("x", "y"), weights, ("l",))


def test_rows_may_miss_one_by_rounding() -> None:
    assert Alignment("t", ("a",), ("x", "y"), np.array([[[[0.5004, 0.5004]]]]), ("l",)).of(0, 0).sum() == pytest.approx(1.0008)
    with pytest.raises(ValueError, match=r"sum to 1\.0"):
        Alignment("t", ("a",), ("x", "y"), np.array([[[[0.5012, 0.5012]]]]), ("l",))


TOKENS = st.lists(st.text(st.characters(), max_size=12), min_size=1, max_size=6).map(tuple)


@settings(max_examples=25)
@given(title=st.text(st.characters(), max_size=40), queries=TOKENS, keys=TOKENS, seed=st.integers(0, 2**32 - 1))
def test_json_comes_back_exactly(title: str, queries: tuple[str, ...], keys: tuple[str, ...], seed: int) -> None:
    drawn = some(queries, keys, seed=seed)
    before = Alignment(title, queries, keys, drawn.weights, drawn.layers)
    with TemporaryDirectory() as folder:
        save(before, Path(folder, "a.json"))
        after = read(Path(folder, "a.json"))
    assert (after.title, after.queries, after.keys, after.layers) == (title, queries, keys, before.layers)
    assert after.weights.tobytes() == before.weights.tobytes()


def test_json_is_plain_for_other_programs(tmp_path: Path) -> None:
    save(some(HOSTILE, ("x", "y")), tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_bytes())
    assert found["queries"] == list(HOSTILE)
    assert np.array(found["weights"]).shape == (2, 3, len(HOSTILE), 2)


@pytest.mark.parametrize("kind", ["json", "svg", "html"])
def test_two_saves_are_the_same_bytes(tmp_path: Path, kind: str) -> None:
    for name in ("one", "two"):
        save(some(HOSTILE, HOSTILE), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_another_ending_is_told_the_four(tmp_path: Path) -> None:
    for name in ("a.pgn", "a"):
        with pytest.raises(UserError, match=r"\.png, \.svg, \.html, \.json"):
            save(some(("a",), ("x",)), tmp_path / name)
    save(some(("a",), ("x",)), tmp_path / "A.JSON")
    assert read(tmp_path / "A.JSON").queries == ("a",)


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        save(some(("a",), ("x",)), tmp_path / "none" / "a.json")
    with pytest.raises(UserError, match="does not exist"):
        read(tmp_path / "none.json")


GOOD = {"format": "regard.alignment.1", "title": "t", "layers": ["l"], "queries": ["a"], "keys": ["x", "y"]}


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"not json",
        b"[" * 100_000,
        b"[]",
        b'{"format": "other"}',
        json.dumps(GOOD).encode(),
        json.dumps({**GOOD, "weights": [[[[0.5], [0.5, 0.5]]]]}).encode(),
        json.dumps({**GOOD, "weights": [[[[0.5, 0.6]]]]}).encode(),
        json.dumps({**GOOD, "weights": [[[["a", {}]]]]}).encode(),
        json.dumps({**GOOD, "weights": [[[[0.5, 0.5]]]], "queries": "a"}).encode(),
        json.dumps({**GOOD, "weights": [[[[0.5, 0.5]]]], "keys": [1, 2]}).encode(),
        json.dumps({**GOOD, "weights": [[[[0.5, 0.5]]]], "title": None}).encode(),
    ],
)
def test_a_file_that_holds_no_alignment_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.json"):
        read(tmp_path / "a.json")


def test_text_names_the_strongest_keys() -> None:
    weights = np.array([[[[0.06, 0.9, 0.04], [0.25, 0.25, 0.5]]]])
    lines = Alignment("Title", ("il", "était"), ("the", "animal", "it"), weights, ("l",)).lines()
    assert lines[0] == "Title"
    assert lines[-2].split() == ["il", "█" * 10 + "▊", "animal", "0.90", "·", "the", "0.06"]
    assert lines[-1].split() == ["était", "█" * 6, "it", "0.50", "·", "the", "0.25", "·", "animal", "0.25"]


@settings(max_examples=25)
@given(queries=TOKENS, keys=TOKENS)
def test_text_prints_nothing_that_a_terminal_obeys(queries: tuple[str, ...], keys: tuple[str, ...]) -> None:
    printed = "\n".join(some(queries, keys).lines())
    assert printed.replace("\n", "").replace("\u200c", "").replace("\u200d", "").isprintable()
    assert printed.count("\n") == 2 + len(queries)


WORDS = st.lists(st.text("aé▁你好한ж", min_size=1, max_size=40), min_size=1, max_size=6).map(tuple)


@settings(max_examples=30)
@given(queries=WORDS, keys=WORDS, width=st.integers(40, 120))
def test_text_stays_within_the_terminal(queries: tuple[str, ...], keys: tuple[str, ...], width: int) -> None:
    for line in some(queries, keys).lines(width):
        assert sum(2 if unicodedata.east_asian_width(character) == "W" else 1 for character in line) <= width

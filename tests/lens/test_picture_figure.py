"""The printed sheet: a real PNG, an SVG whose words are words, no warning and no trace left in matplotlib."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
import zlib
from collections import Counter

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.lens.alignment import Alignment
from regard.lens.display import inches
from regard.lens.plots.alignment import MOST_LINES, drawn, pooled, strands
from regard.lens.plots.render import colours, render_figure


def _split(sentence: str) -> tuple[str, ...]:
    return tuple(sentence.split())


ENGLISH = _split("▁the ▁animal ▁did ▁not ▁cross ▁the ▁street ▁because ▁it ▁was ▁too ▁tired </s>")
FRENCH = _split("▁l ' animal ▁n ' a ▁pas ▁traversé ▁la ▁rue ▁parce ▁qu ' il ▁était ▁trop ▁fatigué </s>")
HOSTILE = ("</text><script>alert(1)</script>", "$\\frac{1}{2}$", "\u202eevil", "\x00", "你好", "🦜", "\ud800", "&amp;", "")


def some(queries: tuple[str, ...], keys: tuple[str, ...], layers: int = 2, heads: int = 4) -> Alignment:
    draw = np.random.default_rng(0).dirichlet(np.full(len(keys), 0.4), size=(layers, heads, len(queries)))
    return Alignment("because it was too tired", queries, keys, draw, tuple(f"decoder.{n}.cross" for n in range(layers)))


def png(alignment: Alignment) -> bytes:
    return render_figure(alignment.figure, "png")


def svg(alignment: Alignment) -> bytes:
    return render_figure(alignment.figure, "svg")


def words(picture: bytes) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def size(picture: bytes) -> tuple[int, int]:
    """Width and height from the file itself, every chunk's checksum on the way."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    place, kinds = 8, []
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        kind, body = picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]
        assert struct.unpack(">I", picture[place + 8 + length : place + 12 + length]) == (zlib.crc32(kind + body),)
        kinds.append(kind)
        place += 12 + length
    assert kinds[0] == b"IHDR"
    assert kinds[-1] == b"IEND"
    return struct.unpack(">II", picture[16:24])


@pytest.mark.parametrize(("queries", "keys", "layers", "heads"), [(18, 13, 2, 4), (60, 50, 4, 4), (1, 1, 1, 1), (1, 12, 1, 2)])
def test_png_has_a_sensible_size(queries: int, keys: int, layers: int, heads: int) -> None:
    width, height = size(png(some(("token",) * queries, ("▁été",) * keys, layers, heads)))
    assert 1000 <= width <= 6000
    assert 400 <= height <= 5000


def test_svg_has_every_token_as_text() -> None:
    found = Counter(words(svg(some(FRENCH, ENGLISH))))
    for token, count in (Counter(FRENCH) + Counter(ENGLISH) + Counter(ENGLISH)).items():  # keys name lines and matrix
        assert found[token] == count
    assert found["decoder.0.cross"] == found["decoder.1.cross"] == found["head 3"] == 1
    assert "because it was too tired" in found
    assert any("mean over 2 layers × 4 heads" in words for words in found)


def test_hostile_tokens_are_words_and_nothing_else() -> None:
    picture = svg(some(HOSTILE, HOSTILE))
    assert b"<script" not in picture
    found = words(picture)
    for shown in (
        HOSTILE[0][:27] + "…",
        "$\\frac{1}{2}$",
        "\\u202eevil",
        "\\u0000",
        "\\u4f60\\u597d",
        "\\U0001f99c",
        "\\ud800",
        "&amp;",
        "∅",
    ):
        assert found.count(shown) == 3, shown


@settings(max_examples=6)
@given(tokens=st.lists(st.text(st.characters(), max_size=8), min_size=1, max_size=5).map(tuple))
def test_no_character_draws_a_warning(tokens: tuple[str, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ET.fromstring(svg(some(tokens, tokens, 1, 1))).tag.endswith("svg")


@pytest.mark.parametrize("alignment", [some(FRENCH, ENGLISH), some(("x" * 99,), ("W" * 99,), 1, 1), some(("a",) * 60, ENGLISH)])
def test_no_words_are_clipped(alignment: Alignment) -> None:
    figure = drawn(alignment)
    renderer = FigureCanvasAgg(figure).get_renderer()
    for words in figure.axes[0].texts:
        box = words.get_window_extent(renderer)
        assert box.x0 >= 0, words
        assert box.y0 >= 0, words
        assert box.x1 <= figure.bbox.width, words
        assert box.y1 <= figure.bbox.height, words


def test_type_is_measured_as_matplotlib_sets_it() -> None:
    figure = drawn(some(("fatigué",), ENGLISH, 1, 1))
    renderer = FigureCanvasAgg(figure).get_renderer()
    (word,) = (words for words in figure.axes[0].texts if words.get_text() == "fatigué")
    measured = word.get_window_extent(renderer).width / figure.dpi
    assert inches("fatigué", float(word.get_fontsize())) == pytest.approx(measured, abs=0.05)


def test_a_very_long_sentence_names_some_tokens_and_says_so() -> None:
    found = words(svg(some(("a",) * 400, ("b",) * 300, 1, 1)))
    assert 40 <= found.count("a") < 400
    assert "One token in" in " ".join(found)


def test_the_images_are_the_mean_the_scale_and_every_head() -> None:
    alignment = some(FRENCH, ENGLISH)
    mean, scale, *heads = (np.asarray(image.get_array()) for image in drawn(alignment).axes[0].images)
    np.testing.assert_array_equal(mean, alignment.mean())
    assert scale.shape == (1, 64)
    np.testing.assert_array_equal(np.stack(heads).reshape(alignment.weights.shape), alignment.weights)


def test_lines_join_the_strongest_pairs() -> None:
    weights = np.full((1000, 30), 1 / 30)
    assert len(strands(weights)) == MOST_LINES
    few = strands(np.array([[0.9, 0.08, 0.02], [0.2, 0.3, 0.5]]))
    assert [(strand.query, strand.key) for strand in few] == [(0, 1), (1, 0), (1, 1), (1, 2), (0, 0)]
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours(7))
    assert len(set(colours(60))) == 60


@settings(max_examples=20)
@given(rows=st.integers(1, 40), columns=st.integers(1, 40), side=st.integers(1, 20), seed=st.integers(0, 99))
def test_a_thumbnail_keeps_the_greatest_weight(rows: int, columns: int, side: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((rows, columns))
    small = pooled(weights, side)
    assert small.shape == (min(rows, side), min(columns, side))
    assert small.max() == weights.max()
    assert set(small.ravel()) <= set(weights.ravel())


def test_a_persons_own_style_is_neither_used_nor_lost() -> None:
    plain = svg(some(FRENCH, ENGLISH))
    with matplotlib.rc_context({"font.family": "serif", "savefig.bbox": "tight", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert svg(some(FRENCH, ENGLISH)) == plain
        assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_loaded() -> None:
    program = """
import sys, numpy as np
from regard.lens.alignment import Alignment
from regard.lens.plots.render import render_figure
render_figure(Alignment("t", ("a",), ("b",), np.ones((1, 1, 1, 1)), ("l",)).figure, "png")
sys.exit("matplotlib.pyplot" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

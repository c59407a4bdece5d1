"""A document on shades: every word is there, what counts is darkest, and each kind of file can be read by somebody else."""

from __future__ import annotations

import json
import re
from io import BytesIO
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import image
from rich.cells import cell_len

from regard.lens.analyses.document import Document, Sentence, Word
from regard.lens.display import sentence as on_one_line
from regard.lens.plots.render import render_figure
from regard.lens.result import html, save

ZOO = Document(
    "good zoo (probability 0.995)",
    (
        Sentence((Word("We", 0.1, False), Word("went", 0.9, True), Word(".", 0.0, False)), 0.1),
        Sentence((Word("The", 0.0, False), Word("zebra", 0.7, True), Word("was", 0.1, True), Word("lively", 0.2, True)), 0.9),
    ),
)
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def test_lines_have_every_sentence_and_the_words_it_is_there_for() -> None:
    first, *rest = ZOO.lines()
    assert first == "good zoo (probability 0.995)"
    told = "\n".join(rest)
    assert re.search(r"0\.10  █\S? +We went\.", told)
    assert "zebra 0.70 · lively 0.20 · was 0.10" in told
    assert not COLOUR.search(told)


def test_a_shade_is_the_word_times_the_root_of_its_sentence() -> None:
    first, second = ZOO.sentences
    assert first.shades()[1] == pytest.approx(0.9 * 0.1**0.5)
    assert second.shades()[1] == pytest.approx(0.7 * 0.9**0.5)
    assert ZOO.darkest == pytest.approx(0.7 * 0.9**0.5)


def test_on_a_terminal_the_darkest_word_has_the_darkest_shade_and_white_letters() -> None:
    shaded = "\n".join(ZOO.shaded(80))
    found = dict(re.findall(r"\x1b\[48;2;([\d;]+)m\x1b\[38;2;[\d;]+m([^\x1b]+)", shaded))
    light = {word: sum(map(int, shade.split(";"))) for shade, word in found.items()}
    assert light["zebra"] < light["went"] < light["lively"]
    assert "The" not in light
    assert "\x1b[38;2;255;255;255mzebra" in shaded
    assert COLOUR.sub("", shaded).endswith("The zebra was lively")


words = st.builds(Word, st.text(st.sampled_from("aWé字\x1b\u200b"), min_size=1, max_size=30), st.floats(0, 1), st.booleans())
sentences = st.builds(Sentence, st.lists(words, min_size=1, max_size=12).map(tuple), st.floats(0, 1))


@settings(max_examples=25)
@given(st.lists(sentences, min_size=1, max_size=3), st.integers(0, 90))
def test_no_line_is_wider_than_the_terminal_unless_one_word_is(found: list[Sentence], width: int) -> None:
    document = Document("told", tuple(found))
    alone = {on_one_line(word.text) for sentence in found for word in sentence.words}
    for line in document.shaded(width)[2:]:
        plain = COLOUR.sub("", line)
        assert "\x1b" not in plain
        assert cell_len(plain) <= max(40, width) or plain[20:] in alone
    assert len(document.lines()) == 2 + 2 * len(found)


@settings(max_examples=5)
@given(st.lists(sentences, min_size=1, max_size=2))
def test_whatever_it_says_can_be_drawn(found: list[Sentence]) -> None:
    picture = render_figure(Document("told", tuple(found)).figure, "png")
    assert image.imread(BytesIO(picture), format="png").ndim == 3


def test_files_of_every_kind(tmp_path) -> None:
    for kind in ("png", "svg", "html", "json"):
        save(ZOO, tmp_path / f"zoo.{kind}")
    assert image.imread(tmp_path / "zoo.png").shape[1] == 8 * 160
    texts = ElementTree.parse(tmp_path / "zoo.svg").getroot().itertext()
    assert {"zebra", "lively", "0.90"} <= {text.strip() for text in texts}
    assert "zebra 0.70" in (tmp_path / "zoo.html").read_text()
    assert "default-src 'none'" in html(ZOO)
    read = json.loads((tmp_path / "zoo.json").read_text())
    assert read["format"] == "regard.document.1"
    assert read["sentences"][1] == {"weight": 0.9, "words": ["The", "zebra", "was", "lively"], "weights": [0.0, 0.7, 0.1, 0.2]}

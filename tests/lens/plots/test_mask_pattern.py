"""Who looks at whom, drawn: cells are what a pattern says of their pairs, in short texts and in long ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.lens.plots.mask_pattern import CELLS, Panel, drawn, shares
from regard.lens.plots.render import SHADES
from regard.model.visibility.parse import parse_visibility
from tests.command import regard

PATTERNS = ["full", "causal", "window(6)", "strided(3)", "bigbird(4)", "causal & bigbird(8)", "longformer(8, 2)", "last(8)"]


@pytest.mark.parametrize("text", PATTERNS)
def test_short_texts_are_drawn_pair_by_pair(text: str) -> None:
    pattern, places = parse_visibility(text).settled(50), torch.arange(50)
    nobody = torch.zeros(1, 1, dtype=torch.long)
    expected = pattern.sees(nobody, nobody, places[:, None], places).expand(50, 50)
    assert (shares(parse_visibility(text), 50) == expected.numpy()).all()


@pytest.mark.parametrize(
    ("text", "tokens"), [("causal", 1024), ("window(64)", 1000), ("bigbird(64)", 4096), ("block(300)", 1500)]
)
def test_cells_of_long_texts_have_the_share_that_is_seen(text: str, tokens: int) -> None:
    pattern, places = parse_visibility(text).settled(tokens), torch.arange(tokens)
    nobody = torch.zeros(1, 1, dtype=torch.long)
    sees = pattern.sees(nobody, nobody, places[:, None], places).expand(tokens, tokens).float()
    found = shares(parse_visibility(text), tokens)
    assert found.shape == (CELLS, CELLS)
    assert found.mean() == pytest.approx(float(sees.mean()), abs=0.01)
    cell = (places * CELLS // tokens).numpy()
    for row, column in ((0, 0), (40, 41), (127, 3), (90, 90)):
        exact = sees[cell == row][:, cell == column].mean()
        assert found[row, column] == pytest.approx(float(exact), abs=0.1)


def test_a_panel_for_every_pattern() -> None:
    panels = [Panel(text, parse_visibility(text), 30) for text in PATTERNS]
    (axes,) = drawn("title", "caption", panels).axes
    assert len(axes.images) == len(PATTERNS)
    written = {text.get_text() for text in axes.texts}
    assert {*PATTERNS, "30 tokens, 100% of pairs seen"} <= written
    assert (np.asarray(axes.images[0].get_array()) == 1).all()
    assert axes.images[0].get_cmap() is SHADES


def test_a_recipe_is_drawn(tmp_path: Path) -> None:
    out = tmp_path / "who.png"
    told = regard("explain", "lra-text", "model.visibility=bigbird(64)", "--out", out)
    assert told.code == 0, told.err
    assert "attention   encoder bigbird(64) & padding" in told.out
    with Image.open(out) as picture:
        assert min(picture.size) > 500
    both = tmp_path / "both.svg"
    assert regard("explain", "translate", "model.visibility=longformer(8)", "--out", both).code == 0
    for words in ("encoder longformer(8)", "decoder causal &amp; longformer(8)", "Queries down, keys across"):
        assert words in both.read_text()


@pytest.mark.parametrize(
    ("target", "name", "says"),
    [
        (["gpt"], "who.jpg", "must end in .png or .svg"),
        (["translate-luong"], "who.png", "has no attention pattern between tokens"),
        (["gpt", "model.mixer=conv"], "who.png", "has no attention pattern"),
        (["skipgram"], "who.png", "has no attention pattern"),
        (["gpt"], "nowhere/who.png", "cannot be written"),
    ],
)
def test_what_cannot_be_drawn_is_said(target: list[str], name: str, says: str, tmp_path: Path) -> None:
    told = regard("explain", *target, "--out", tmp_path / name)
    assert told.code == 2
    assert says in told.err
    assert "Traceback" not in told.err
    assert not list(tmp_path.iterdir())

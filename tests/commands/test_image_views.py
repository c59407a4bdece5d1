"""`regard lens RUN IMAGE`: every view of an image is printed and drawn, from a file and from Python, as the analyses have it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard
from regard.lens.analyses.image_attention import image_rollout
from regard.tasks.registry import open_run
from tests import command
from tests.tasks.image_classification.tiny_images import trained
from tests.tasks.image_generation import tiny_images as drawings

SHAPE = "builtin:shapes/test/3"
VIEWS = {
    "patch": (["--patch", "2,3"], "what patch 2,3 attends to"),
    "class": ([], "what the class token attends to"),
    "rollout": ([], "attention rollout of [class]"),
    "relevance": ([], "relevance for a class"),
    "roles": ([], "even attention reaches"),
    "heads": ([], "2 heads, means over queries"),
    "gradients": ([], "gradient × input"),
    "integrated": ([], "integrated gradients"),
    "ablation": ([], "encoder.0.self"),
    "weights": ([], "mean over 1 × 2 heads"),
    "rank": ([], "distance to rank one"),
    "flow": ([], "attention flow"),
}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(3).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_an_image_is_printed(view: str) -> None:
    options, told = VIEWS[view]
    result = command.regard("lens", trained("vit"), SHAPE, "--show", view, *options)
    assert result.code == 0, result.err
    assert told in result.out


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html", ".json"])
def test_an_image_file_is_drawn(suffix: str, picture: Path) -> None:
    out = picture.with_name(f"out{suffix}")
    result = command.regard("lens", trained("vit"), picture, "--show", "patch", "--patch", "1,1", "--out", out)
    assert result.code == 0, result.err
    assert out.stat().st_size > 500
    if suffix == ".json":
        assert json.loads(out.read_text())["patch"] == [1, 1]


def test_without_a_view_what_the_head_reads_is_drawn(picture: Path) -> None:
    result = command.regard("lens", trained("vit"), picture, "--out", picture.with_name("whole.png"))
    assert result.code == 0, result.err
    assert "what the class token attends to" in result.out


def test_python_is_shown_what_the_command_prints() -> None:
    printed = command.regard("lens", trained("vit"), SHAPE, "--show", "rollout", "--patch", "1,2").out
    shown = regard.show("rollout", str(trained("vit")), SHAPE, patch="1,2")
    assert "\n".join(shown.lines()) == printed.rstrip("\n")
    own = image_rollout(open_run(str(trained("vit")), "cpu").subject(SHAPE), 0, 1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(shown.maps_NYX, own.maps_NYX)  # type: ignore[attr-defined]


def test_positions_are_a_picture_of_the_grid(tmp_path: Path) -> None:
    result = command.regard("lens", trained("vit"), "--show", "positions", "--out", tmp_path / "positions.png")
    assert result.code == 0, result.err
    assert "4 × 4 patches" in result.out


def test_a_class_can_be_asked_for() -> None:
    label = open_run(str(trained("vit")), "cpu").labels.names[4]  # type: ignore[attr-defined]
    result = command.regard("lens", trained("vit"), SHAPE, "--show", "relevance", "--target", label)
    assert result.code == 0, result.err
    assert result.out.count(label) == 2  # in the title, and of its map alone


def test_a_drawing_model_is_asked_about_pixels() -> None:
    result = command.regard("lens", drawings.trained("classes"), "builtin:shapes/test/3", "--show", "patch", "--patch", "3,3")
    assert result.code == 0, result.err
    assert "what pixel 3,3 attended to as it was drawn" in result.out
    assert "pixel 5,5" in command.regard("lens", drawings.trained("grey"), "builtin:shapes/test/3").out
    assert command.regard("lens", drawings.trained("grey"), "builtin:shapes/test/3", "--show", "roles").code == 0

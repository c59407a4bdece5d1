"""Images before lens that it cannot show: one sentence, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command import contents, refused, regard
from tests.command import trained as translator
from tests.tasks import tiny_labels
from tests.tasks.image_classification.tiny_images import trained
from tests.tasks.image_generation import tiny_images as drawings

SHAPE = "builtin:shapes/test/3"
ASKED = [
    ([SHAPE, "--show", "patch"], "--show patch needs --patch ROW,COLUMN"),
    ([SHAPE, "--show", "patch", "--patch", "5,1"], "there is no patch 5,1", "4 rows and 4 columns"),
    ([SHAPE, "--show", "patch", "--patch", "0,1"], "there is no patch 0,1", "from 1 to 4"),
    ([SHAPE, "--show", "patch", "--patch", "three"], "--patch three is no row and column", "--patch 3,4"),
    ([SHAPE, "--show", "patch", "--patch", "-1,2"], "--patch -1,2 is no row and column"),
    ([SHAPE, "--show", "patch", "--patch", "1,1", "--layer", "1"], "--layer 1 is not there", "give 0, its only layer"),
    (
        [SHAPE, "--show", "patch", "--patch", "1,1", "--head", "2"],
        "--head 2 is not there",
        "one of its 2 heads, numbered from 0 to 1",
    ),
    ([SHAPE, "--show", "class", "--patch", "1,1"], "--patch is not for --show class"),
    ([SHAPE, "--show", "class", "--layer", "-1"], "--layer -1 is not there"),
    ([SHAPE, "--show", "rollout", "--patch", "9,9"], "there is no patch 9,9"),
    ([SHAPE, "--show", "relevance", "--target", "dragon"], "the label 'dragon' is not one that this model knows"),
    ([SHAPE, "--show", "latents"], "this model has no latents that read its image"),
    ([SHAPE, "--show", "logits"], "this model says no words"),
    ([SHAPE, "--patch", "1,1"], "--patch 1,1 is only for --show"),
    ([SHAPE, "--part", "cross"], "--part cross is of texts; an image is read by one stack"),
    (["the cat sleeps"], "this model reads images, and 'the cat sleeps' is no file of one"),
    (["the cat sleeps", "--show", "class"], "is no file of one; give the path of an image"),
    (["no.png", "--show", "class"], "'no.png' is no file of one"),
    (["."], "broken.png is not an image that can be read"),
    (["builtin:shapes/test", "--show", "class"], "images; give one of them"),
    (["broken.png", "--show", "class"], "broken.png"),
    ([SHAPE, "--show", "class", "--out", "x.pdf"], "x.pdf must end in"),
    ([SHAPE, "--word", "cat"], ""),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pixels = np.random.default_rng(3).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    for name in ("a.png", "b.png"):
        Image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "broken.png").write_bytes((tmp_path / "a.png").read_bytes()[:60])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", ASKED, ids=lambda case: " ".join(case[0])[:60])
def test_what_an_image_has_not_is_told(case: tuple, folder: Path) -> None:
    before, (arguments, *told) = contents(folder), case
    run = trained("vit").resolve()
    result = regard("lens", run, *arguments)
    refused(result, *told)
    assert contents(folder) == before


def test_a_model_of_convolutions_has_nothing_to_attend(folder: Path) -> None:
    for view in ("class", "rollout", "heads"):
        refused(regard("lens", trained("convnet"), SHAPE, "--show", view), "no attention")


def test_views_of_images_are_not_for_texts(folder: Path) -> None:
    for view in ("class", "relevance", "latents"):
        refused(regard("lens", tiny_labels.trained(), "the cat", "--show", view), "reads no image")
    refused(regard("lens", tiny_labels.trained(), "the cat", "--show", "patch", "--patch", "1,1"), "reads no image")
    refused(regard("lens", tiny_labels.trained(), "the cat", "--show", "rollout", "--patch", "1,1"), "this model reads text")
    refused(regard("lens", tiny_labels.trained(), "a.png", "--show", "weights"), "reads text, and a.png is an image")
    refused(regard("lens", translator(), "a.png"), "reads text, and a.png is an image")


def test_drawing_models_say_what_they_are(folder: Path) -> None:
    for view in ("class", "relevance", "rollout"):
        refused(regard("lens", drawings.trained("grey"), SHAPE, "--show", view), "draws images and says no class")
    refused(regard("lens", drawings.trained("grey"), SHAPE, "--show", "patch", "--patch", "9,1"), "there is no pixel 9,1")
    refused(regard("lens", drawings.trained("grey"), "the cat"), "'the cat' is no image")
    refused(regard("lens", drawings.trained("coupled"), SHAPE), "three colours of a pixel are one token")
    refused(regard("lens", drawings.trained("grey"), SHAPE, "--show", "weights", "--target", "night"), "without classes")

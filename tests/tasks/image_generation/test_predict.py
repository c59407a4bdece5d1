"""What is drawn: as likely as it is scored, the same from the same seed, half of it kept, as many images as were asked for."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.batching.pixels import PixelData
from regard.objectives.pixels import bits
from regard.tasks.registry import open_run
from tests.command import regard as command
from tests.command import went_well
from tests.tasks.image_generation.tiny_images import KINDS, trained, write_image


def opened(kind: str):
    return open_run(trained(kind), "cpu")


def with_decode(drawer, **settings):
    return replace(drawer, decode=replace(drawer.decode, **settings))


def images(drawn) -> list[bytes]:
    return [found.image_YXC.tobytes() for each in drawn for found in each]


@pytest.mark.parametrize("kind", ["classes", "grey", "coupled"])
def test_what_is_drawn_is_scored_as_likely_as_it_was_drawn(kind):
    """Sampled by the cache, token after token; scored in one pass over the whole image."""
    drawer = with_decode(opened(kind), samples=3)
    wish = drawer.wish("side by side" if drawer.levels.classes else "")
    for found in drawer.write([wish])[0]:
        level = drawer.levels.of(found.image_YXC[None])
        classes = None if wish.class_ is None else np.array([wish.class_])
        assert found.bits_per_dim == pytest.approx(bits(drawer.nats(PixelData(level, classes))), rel=1e-4)


def test_the_same_seed_draws_the_same_and_batches_change_nothing():
    drawer = with_decode(opened("classes"), samples=3, batch_tokens=10_000)
    wishes = [drawer.wish(text) for text in ("circle over square", "side by side")]
    first, one_by_one = drawer.write(wishes), with_decode(drawer, batch_tokens=1).write(wishes)
    assert images(first) == images(one_by_one)
    assert images(first) != images(with_decode(drawer, seed=1).write(wishes))
    assert len(set(images(first))) == 6


@pytest.mark.parametrize("kind", ["grey", "coupled"])
def test_a_listener_sees_the_image_grow_to_what_is_returned(kind):
    drawer, seen = opened(kind), []
    text = "side by side" if drawer.levels.classes else ""
    image = drawer.draw(text, lambda image, pixels: seen.append((image, pixels)))
    counts = [pixels for _, pixels in seen]
    assert counts == sorted(counts)
    assert counts[-1] == 64
    assert np.array_equal(seen[-1][0], image)
    for shown, pixels in seen[:: max(1, len(seen) // 7)]:
        assert np.array_equal(shown.reshape(64, -1)[:pixels], image.reshape(64, -1)[:pixels])


@pytest.mark.parametrize("keep", [0.25, 0.5])
def test_a_kept_part_stays(tmp_path, keep):
    path = write_image(tmp_path / "a.png")
    for kind in ("classes", "grey", "coupled"):
        drawer = replace(opened(kind), data=replace(opened(kind).data, keep=keep))
        rows = round(8 * keep)
        wish = drawer.wish(str(path))
        whole = drawer.levels.images(drawer.levels.of(wish.shown[0][None]), 8)[0]
        drawn = drawer.write([wish])[0][0].image_YXC
        assert np.array_equal(drawn[:rows], whole[:rows])
        assert not np.array_equal(drawn, whole)


def test_an_image_without_a_class_gets_the_one_that_suits_what_is_kept(tmp_path):
    drawer = opened("classes")
    wish = drawer.wish(str(write_image(tmp_path / "a.png")))
    nats = [drawer.nats(PixelData(wish.given_L[None], np.array([n]))) for n in range(10)]
    assert wish.class_ == int(np.argmin(nats))


def test_a_small_image_is_enlarged(tmp_path):
    drawer = opened("small")
    wish = drawer.wish(str(write_image(tmp_path / "small.png", side=2)))
    assert wish.small_M.shape == (2 * 2 * 3,)
    assert drawer.write([wish])[0][0].image_YXC.shape == (8, 8, 3)
    mean = np.asarray(Image.open(tmp_path / "small.png"))
    assert np.array_equal(wish.shown[0], mean)
    large = write_image(tmp_path / "large.png", side=8)
    means = np.asarray(Image.open(large)).reshape(2, 4, 2, 4, 3).mean((1, 3))
    assert np.abs(drawer.wish(str(large)).shown[0] - means).max() <= 0.5


def test_evaluation_is_the_mean_over_the_test_set_and_tells_what_others_need():
    result = command("evaluate", trained("grey"), "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert set(found["others_bits_per_dim"]) == {"all levels alike", "a histogram for each place", "PNG files"}
    assert found["others_bits_per_dim"]["all levels alike"] == 3.0
    assert 0 < found["bits_per_dim"] < 4


# --- through the command ---------------------------------------------------------------------------------------------------
def test_a_sheet_has_a_row_for_each_class(tmp_path):
    result = command("predict", trained("classes"), "--output", tmp_path / "sheet.png", "decode.samples=2")
    assert went_well(result), result.err
    assert "20 images of 8 x 8 pixels" in result.out
    wide, high = Image.open(tmp_path / "sheet.png").size
    assert high > 10 * 72
    assert wide > 2 * 72


def test_a_folder_has_single_images_and_the_sheet(tmp_path):
    result = command("predict", trained("grey"), "--output", tmp_path / "drawn", "decode.samples=3")
    assert went_well(result), result.err
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == ["000.png", "001.png", "002.png", "sheet.png"]
    assert Image.open(tmp_path / "drawn" / "001.png").size == (8, 8)


def test_json_has_the_pixels(tmp_path):
    path = write_image(tmp_path / "a.png")
    result = command("predict", trained("coupled"), path, "circle over square", "--json", "decode.samples=2")
    assert went_well(result), result.err
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["prompt"] for line in lines] == [str(path)] * 2 + ["circle over square"] * 2
    assert np.array(lines[0]["pixels"]).shape == (8, 8, 3)


def test_names_come_from_a_file_too(tmp_path):
    (tmp_path / "wanted.txt").write_text("side by side\ncircle over circle\n")
    result = command(
        "predict", trained("classes"), "--input", tmp_path / "wanted.txt", "--output", tmp_path / "s.png", "decode.search=greedy"
    )
    assert went_well(result), result.err
    assert "2 images" in result.out


def test_every_kind_was_trained_and_tried():
    for kind in KINDS:
        drawer = opened(kind)
        assert isinstance(drawer.model, torch.nn.Module)
        assert drawer.levels.config.image_size == 8

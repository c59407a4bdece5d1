"""Augmentation: each operation is what Pillow, numpy or its definition says, and what is drawn depends on the seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from regard.core.errors import UserError
from regard.core.rng import seed_dropout
from regard.data.augment import (
    Augment,
    beta,
    erase,
    flip_and_crop,
    mirror,
    mix,
    rectangles,
    resized_crop,
    smoothed,
)
from regard.data.augment_config import AugmentSettings, LabelledImagesConfig
from regard.data.randaugment import MOVES, OPERATIONS, autocontrast, enhance, equalize, one_round, paint, rand_augment

CPU = torch.device("cpu")


def images(batch: int = 6, side: int = 16, seed: int = 0) -> Tensor:
    """Smooth random images, as photographs are, with all values."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (batch, 4, 4, 3), dtype=np.uint8)
    large = [np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC)) for image in small]
    return torch.from_numpy(np.stack(large))


def pictures(image_BYXC: Tensor) -> list[Image.Image]:
    return [Image.fromarray(image.numpy()) for image in image_BYXC.to(torch.uint8)]


def differ(image_BYXC: Tensor, theirs: list[Image.Image]) -> Tensor:
    return (image_BYXC - torch.from_numpy(np.stack([np.asarray(image) for image in theirs])).float()).abs()


# --- flip and crop ---------------------------------------------------------------------------------------------------------
def test_mirrored_places_are_numpys_reflection() -> None:
    for size, pad in ((5, 4), (1, 3), (8, 7)):
        theirs = np.pad(np.arange(size), pad, mode="reflect") if size > 1 else np.zeros(2 * pad + 1, np.int64)
        assert mirror(torch.arange(-pad, size + pad), size).tolist() == theirs.tolist()


def test_every_image_is_a_window_of_its_reflected_self() -> None:
    torch.manual_seed(0)
    given_BYXC, most = images(32, 8), 2
    found, mirrored, moves = flip_and_crop(given_BYXC, True, most), 0, set()
    for image, made in zip(given_BYXC.numpy(), found.numpy()):
        ways = {}
        for flip in (False, True):
            padded = np.pad(image[:, ::-1] if flip else image, ((most, most), (most, most), (0, 0)), mode="reflect")
            ways |= {(flip, y, x): padded[y : y + 8, x : x + 8] for y in range(5) for x in range(5)}
        way = next(key for key, window in ways.items() if (window == made).all())
        mirrored += way[0]
        moves.add(way[1:])
    assert 6 <= mirrored <= 26
    assert len(moves) > 12
    assert found.dtype == torch.uint8


def test_neither_flip_nor_crop_is_nothing() -> None:
    assert torch.equal(flip_and_crop(images(), False, 0), images())


def test_a_resized_crop_of_the_whole_area_is_nearly_the_image_and_of_less_a_part() -> None:
    torch.manual_seed(0)
    ramp = torch.linspace(0, 255, 32).expand(64, 32, 32)[..., None].repeat(1, 1, 1, 1)
    spans = resized_crop(ramp, 0.25)[:, 0, :, 0].diff(dim=-1)[:, 4:-4].mean(-1) / (255 / 31)  # the scale from left to right
    assert (spans > 0.42).all()  # sqrt(0.25 * 3 / 4)
    assert (spans < 1.001).all()
    assert spans.std() > 0.1
    same = resized_crop(images().float(), 1.0)
    assert ((same - images()).abs().mean((1, 2, 3)) < 40).all()


# --- RandAugment: against Pillow -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("level", [0.0, 0.3, 0.9, 1.0])
def test_values_are_mapped_as_pillow_does(level: float) -> None:
    given_BYXC = images()
    level_B = torch.full((len(given_BYXC),), level)
    bits, threshold, add = 4 - int(level * 4), 256 - int(level * 256), int(level * 110)
    theirs: dict[str, Any] = {
        "invert": ImageOps.invert,
        "posterize": lambda picture: picture.point(lambda value: value & ~(2 ** (8 - bits) - 1)),
        "solarize": lambda picture: ImageOps.solarize(picture, threshold),
        "solarize add": lambda picture: picture.point(lambda value: min(255, value + add) if value < 128 else value),
    }
    for name, theirs_do in theirs.items():
        expected = [theirs_do(picture) for picture in pictures(given_BYXC)]
        assert differ(paint(name, given_BYXC.float(), level_B), expected).max() == 0, name


def test_autocontrast_and_equalize_are_pillows() -> None:
    flat = torch.full((1, 16, 16, 3), 77, dtype=torch.uint8)
    few = torch.randint(3, (2, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)) * 40
    given_BYXC = torch.cat([images() // 3 + 40, images(seed=1), flat, few])
    stretched = differ(autocontrast(given_BYXC.float()), [ImageOps.autocontrast(p) for p in pictures(given_BYXC)])
    assert stretched.max() <= 1  # Pillow cuts off what follows the point
    assert differ(equalize(given_BYXC.float()), [ImageOps.equalize(p) for p in pictures(given_BYXC)]).max() == 0


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 1.9])
@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("colour", ImageEnhance.Color),
        ("sharpness", ImageEnhance.Sharpness),
    ],
)
def test_enhancements_are_pillows(name: str, theirs: Any, factor: float) -> None:
    given_BYXC = images()
    found = enhance(name, given_BYXC.float(), torch.full((len(given_BYXC),), factor))
    assert differ(found, [theirs(picture).enhance(factor) for picture in pictures(given_BYXC)]).max() <= 2


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("name", MOVES)
def test_movements_are_pillows(name: str, sign: float) -> None:
    side, level = 32, 0.7
    given_BYXC = images(4, side)
    every = torch.ones(4)
    found = one_round(given_BYXC.float(), torch.full((4,), OPERATIONS.index(name)), level * every, sign * every)
    by = sign * level
    middle = side / 2
    matrices = {  # from a place of the new image to one of the old, around the middle where timm's are around the corner
        "shear x": (1, 0.3 * by, -0.3 * by * middle, 0, 1, 0),
        "shear y": (1, 0, 0, 0.3 * by, 1, -0.3 * by * middle),
        "translate x": (1, 0, 0.45 * by * side, 0, 1, 0),
        "translate y": (1, 0, 0, 0, 1, 0.45 * by * side),
    }
    grey = (128,) * 3
    for image, picture in zip(found, pictures(given_BYXC)):
        if name == "rotate":
            theirs = picture.rotate(30 * by, Image.Resampling.BILINEAR, fillcolor=grey)
        else:
            affine = Image.Transform.AFFINE
            theirs = picture.transform((side, side), affine, matrices[name], Image.Resampling.BILINEAR, fillcolor=grey)
        error = (image - torch.from_numpy(np.asarray(theirs).copy()).float()).abs().amax(-1)
        # Where the image ends Pillow has a step, and we have a slope of a pixel.
        assert (error > 2).float().mean() < 0.12, name
        assert error.median() <= 1, name


def test_an_operation_is_of_its_image_alone_and_none_changes_nothing() -> None:
    given_BYXC = images(len(OPERATIONS) + 1).float()
    drawn_B = torch.arange(-1, len(OPERATIONS))
    level_B, sign_B = torch.full((len(drawn_B),), 0.6), torch.ones(len(drawn_B))
    together = one_round(given_BYXC, drawn_B, level_B, sign_B)
    assert torch.equal(together[0], given_BYXC[0])
    for n in range(1, len(drawn_B)):
        alone = one_round(given_BYXC[n : n + 1], drawn_B[n : n + 1], level_B[:1], sign_B[:1])
        torch.testing.assert_close(together[n : n + 1], alone)
        assert not torch.equal(alone, given_BYXC[n : n + 1]), OPERATIONS[drawn_B[n]]


def test_half_of_the_images_stay_and_the_policy_is_read() -> None:
    torch.manual_seed(0)
    given_BYXC = images(200, 8).float()
    policy = AugmentSettings(randaugment="m9-n1-mstd0.5-inc1").policy
    assert policy == (9.0, 1, 0.5)
    kept = (rand_augment(given_BYXC, policy) == given_BYXC).all(-1).all(-1).all(-1).float().mean()  # type: ignore[arg-type]
    assert 0.4 < kept < 0.65
    grey = rand_augment(given_BYXC[..., :1], policy)  # type: ignore[arg-type]
    assert grey.shape == (200, 8, 8, 1)
    assert grey.min() >= -1e-3
    assert grey.max() <= 255.001


# --- erasing, Mixup, CutMix ------------------------------------------------------------------------------------------------
@settings(max_examples=30, deadline=None)
@given(st.integers(4, 20), st.floats(0.05, 1), st.floats(0.05, 1), st.booleans(), st.integers(0, 99))
def test_rectangles_are_rectangles(side: int, high: float, wide: float, centred: bool, seed: int) -> None:
    torch.manual_seed(seed)
    for inside in rectangles(torch.full((4,), high), torch.full((4,), wide), side, side, centred):
        rows, columns = inside.any(1), inside.any(0)
        assert torch.equal(inside, rows[:, None] & columns[None])
        for line, share in ((rows, high), (columns, wide)):
            at = line.nonzero().flatten()
            assert len(at) == 0 or at[-1] - at[0] + 1 == len(at)
            expected = round(share * side) if abs(share * side % 1 - 0.5) > 1e-4 else len(at)
            assert len(at) <= expected + centred
            assert centred or len(at) == expected


def test_erased_rectangles_are_noise_in_a_share_of_the_images() -> None:
    torch.manual_seed(0)
    given_BYXC = torch.full((400, 16, 16, 3), 300.0)
    changed = (erase(given_BYXC, 0.25) != 300).any(-1)
    of_images = changed.flatten(1).any(1)
    assert 0.17 < of_images.float().mean() < 0.33
    shares = changed[of_images].float().mean((1, 2))
    assert shares.max() <= 0.42
    assert shares.min() >= 0.004
    assert changed[of_images].float().mean() > 0.05


def test_mixup_is_its_formula() -> None:
    given_BYXC, target_BK = images().float(), smoothed(torch.arange(6), 6, 0.0)
    torch.manual_seed(3)
    found, targets = mix(given_BYXC, target_BK, 0.8, 0.0)
    share_B = targets[torch.arange(6), torch.arange(6)]  # of the image itself: all partners have other labels
    other = 1 - share_B
    expected = share_B[:, None, None, None] * given_BYXC + other[:, None, None, None] * given_BYXC.flip(0)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-5)
    torch.testing.assert_close(targets[torch.arange(6), 5 - torch.arange(6)], other)
    assert share_B.std() > 0.05  # each image its own


def test_cutmix_takes_labels_by_area() -> None:
    torch.manual_seed(1)
    batch = 64
    given_BYXC = torch.arange(batch).float()[:, None, None, None].expand(batch, 16, 16, 3)
    found, targets = mix(given_BYXC, smoothed(torch.arange(batch), batch, 0.0), 0.0, 1.0)
    own = (found[..., 0] == torch.arange(batch)[:, None, None]).float().mean((1, 2))
    partner = (found[..., 0] == torch.arange(batch).flip(0)[:, None, None]).float().mean((1, 2))
    torch.testing.assert_close(own + partner, torch.ones(batch))
    torch.testing.assert_close(targets.diagonal(), own)
    assert own.std() > 0.1


def test_with_both_each_image_has_one_of_them() -> None:
    torch.manual_seed(2)
    batch = 200
    given_BYXC = torch.arange(batch).float()[:, None, None, None].expand(batch, 8, 8, 1)
    found, targets = mix(given_BYXC, smoothed(torch.arange(batch), batch, 0.0), 0.8, 1.0)
    flat = found.flatten(1)
    whole = torch.stack([((row == n) | (row == batch - 1 - n)).all() for n, row in enumerate(flat)])
    blended = torch.stack([(row == row[0]).all() for row in flat])
    assert (whole | blended).all()
    assert 50 < int((~whole).sum()) < 150
    torch.testing.assert_close(targets.sum(1), torch.ones(batch))


def test_shares_are_drawn_from_beta() -> None:
    torch.manual_seed(0)
    for alpha in (0.2, 0.8, 1.0, 4.0):
        drawn = beta(alpha, 20_000, CPU)
        assert drawn.mean().item() == pytest.approx(0.5, abs=0.01)
        assert drawn.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.04)  # of Beta(a, a)
        assert drawn.isfinite().all()


def test_smoothing_spreads_evenly() -> None:
    assert smoothed(torch.tensor([1]), 4, 0.2).tolist()[0] == pytest.approx([0.05, 0.85, 0.05, 0.05])


# --- all of it -------------------------------------------------------------------------------------------------------------
EVERYTHING = AugmentSettings(
    flip=True, crop=2, resized_crop=0.5, randaugment="m9-n2-mstd0.5", erasing=0.25, mixup=0.8, cutmix=1.0
)


def test_what_is_drawn_depends_on_seed_and_step_alone() -> None:
    augment, labels_B = Augment(EVERYTHING, 6, 0.1), torch.arange(6)

    def at(step: int) -> tuple[Tensor, Tensor]:
        torch.rand(step)  # what was drawn before
        seed_dropout(1, step, 0, 0)
        return augment(images(), labels_B)

    (one, target), (again, same), (other, _) = at(7), at(7), at(8)
    assert torch.equal(one, again)
    assert torch.equal(target, same)
    assert not torch.equal(one, other)
    assert one.dtype == torch.float32
    assert one.min() >= -1e-3
    assert one.max() <= 255.001
    torch.testing.assert_close(target.sum(1), torch.ones(6))


def test_nothing_is_off_by_default_and_bytes_stay_bytes() -> None:
    found, target_BK = Augment(AugmentSettings(), 6)(images(), torch.arange(6))
    assert torch.equal(found, images())
    assert torch.equal(target_BK, torch.eye(6))


@pytest.mark.gpu
def test_a_captured_step_draws_anew_at_every_replay() -> None:
    device = torch.device("cuda")
    augment, given_BYXC, labels_B = Augment(EVERYTHING, 6), images().to(device), torch.arange(6, device=device)
    for _ in range(3):
        augment(given_BYXC, labels_B)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found, _ = augment(given_BYXC, labels_B)
    drawn = []
    for step in (1, 2, 1):
        seed_dropout(1, step, 0, 0)
        graph.replay()
        drawn.append(found.clone())
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize("text", ["m9", "m11-n2", "n2-m9", "m9-n0", "m9-n12", "strong", "m9-n2-mstd"])
def test_a_policy_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match="is not a policy"):
        LabelledImagesConfig(randaugment=text)

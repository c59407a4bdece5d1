"""Restored images: what is shown stays, pictures are written, scores are the objective's, folders of transformers open."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.objectives.masked_patches import MaskedPatchesConfig, MaskedPatchesLoss, fixed_noise
from regard.tasks.masked_image_modeling.predict import HIDDEN
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.masked_image_modeling.test_prepare import train, trained

ONE = "builtin:shapes/test/3"


@pytest.mark.parametrize("normalised", [True, False])
def test_what_is_shown_stays_and_errors_are_the_objectives(normalised: bool, tmp_path: Path) -> None:
    found = open_run(trained(), "cpu")
    found.objective = MaskedPatchesConfig(normalised=normalised, mask_rate=0.5)
    images = found.opened("builtin:shapes@count=5/test").pixels_NYXC
    restored = found.restore(images)
    for image, one in zip(images, restored):
        grey = (one.shown_YXC == HIDDEN).all(-1)
        assert grey.mean() == pytest.approx(0.5, abs=0.05)
        assert np.array_equal(one.shown_YXC[~grey], image[~grey])
        assert np.abs(one.restored_YXC[~grey].astype(int) - image[~grey]).max() <= 1
        assert (one.restored_YXC[grey] != image[grey]).any()
    given = torch.from_numpy(images)
    with torch.no_grad():
        target = found.model.targets(given)
        loss = MaskedPatchesLoss(found.objective).of(found.model, given, fixed_noise(5, target.shape[1]), target)
    assert np.mean([one.error for one in restored]) == pytest.approx(float(loss.total) / 5, rel=1e-4)


def test_a_picture_of_each_image_what_is_shown_and_what_is_restored(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    result = regard("predict", trained(), ONE, "builtin:shapes/test/4", "--output", sheet, "--device", "cpu")
    assert (result.code, result.err) == (0, "")
    assert "2 images, error" in result.out
    picture = Image.open(BytesIO(sheet.read_bytes()))
    assert picture.width > 3 * 72
    assert picture.height > 2 * 72


def test_without_a_picture_it_says_the_error(tmp_path: Path) -> None:
    name, error = regard("predict", trained(), ONE, "--device", "cpu").out.split("\t")
    assert name == ONE
    told = json.loads(regard("predict", trained(), ONE, "--json", "--device", "cpu").out)
    assert told["error"] == pytest.approx(float(error), abs=1e-4)
    assert np.array(told["pixels"]).shape == (16, 16, 3)


def test_evaluation_says_what_means_alone_would_score(tmp_path: Path) -> None:
    scored = json.loads(regard("evaluate", trained(), "--json", "--device", "cpu").out)
    assert scored["images"] == 20
    assert scored["error_of_means"] == pytest.approx(47 / 48, abs=0.01)  # variances are of 48 numbers, errors their mean
    run = train(tmp_path / "plain")
    plain = json.loads(regard("evaluate", run, "--json", "--device", "cpu").out)
    assert plain["error_of_means"] < 0.5


def test_what_is_no_image_or_no_picture_is_refused(tmp_path: Path) -> None:
    refused(regard("predict", trained(), ONE, "--output", tmp_path / "sheet.jpg", "--device", "cpu"), "give --output")
    missing = tmp_path / "no.png"
    refused(regard("predict", trained(), missing, "--output", tmp_path / "s.png", "--device", "cpu"), "no.png")
    assert not (tmp_path / "s.png").exists()


def test_a_folder_of_transformers_is_imported_compared_and_exported(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    exported = regard("export", trained(), tmp_path / "hf", "--to", "hf")
    assert exported.code == 0, exported.err
    assert "ViTMAEForPreTraining" in exported.out + exported.err
    imported = regard("import", tmp_path / "hf", tmp_path / "run", "--check")
    assert imported.code == 0, imported.err
    assert "largest difference from transformers" in imported.out + imported.err
    before, after = open_run(trained(), "cpu"), open_run(tmp_path / "run", "cpu")
    assert np.array_equal(before.draw(ONE), after.draw(ONE)) or after.objective.normalised
    ours, theirs = before.model.state_dict(), after.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)

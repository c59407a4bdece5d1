"""Training on images: a run that was stopped ends with the same weights, and what a run needs is in its folder."""

import json
import shutil

import numpy as np
import torch

from regard.runs.folder import Run
from regard.tasks.image_generation.prepare import in_letters
from tests.command import regard
from tests.tasks.image_generation.tiny_images import KINDS, TINY, trained


def weights(run) -> dict[str, torch.Tensor]:
    return Run.open(run).store().newest("step").tensors("model")


def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path):
    for kind in ("classes", "coupled"):
        run = tmp_path / kind
        settings = ("train", "pixels", *TINY, *KINDS[kind], "model.dropout=0.1", "--out", run, "--device", "cpu")
        assert regard(*settings, "train.schedule=constant").code == 0
        whole = weights(run)
        for kind_of_weights in ("step", "best"):
            shutil.rmtree(Run.open(run).store().newest(kind_of_weights).path)
        again = regard(*settings, "train.schedule=constant")
        assert again.code == 0, again.err
        for name, tensor in weights(run).items():
            assert torch.equal(tensor, whole[name]), name


def test_a_palette_travels_with_the_weights():
    found = weights(trained("classes"))["palette_VC"]
    assert found.shape == (8, 3)
    assert len(found.unique(dim=0)) == 8
    assert found.abs().max() <= 1


def test_classes_are_named_in_the_folder():
    labels = json.loads((trained("classes") / "labels.json").read_text())["labels"]
    assert len(labels) == 10
    assert "side by side" in labels
    assert not (trained("grey") / "labels.json").exists()


def test_samples_are_shown_as_letters():
    image = np.array([[[0, 0, 0], [255, 255, 255]], [[128, 128, 128], [255, 0, 0]]], np.uint8)
    assert in_letters(image) == " @\n+-".replace("-", in_letters(image)[-1])
    shown = (trained("grey") / "samples.txt").read_text()
    assert any(len(line) == 8 for line in shown.splitlines())

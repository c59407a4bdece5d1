"""An ImageGPT through the command: exported, opened by transformers, imported again, completed by, trained further."""

from __future__ import annotations

import json

import numpy as np
import torch
import transformers
from PIL import Image

from regard.runs.folder import Run
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.image_generation.tiny_images import TINY, trained, write_image

SETTINGS = ("model.classes=0", "model.grid=false", "model.position=learned", "model.norm=rms", "model.activation=quick_gelu")


def exported(tmp_path):
    run, folder = tmp_path / "run", tmp_path / "public"
    result = regard("train", "pixels", *TINY, *SETTINGS, "--out", run, "--device", "cpu")
    assert result.code == 0, result.err
    result = regard("export", run, folder)
    assert result.code == 0, result.err
    assert "transformers.ImageGPTForCausalImageModeling.from_pretrained" in result.out + result.err
    return run, folder


def test_a_run_goes_out_and_comes_back(tmp_path):
    run, folder = exported(tmp_path)
    theirs = transformers.ImageGPTForCausalImageModeling.from_pretrained(folder).eval()
    ours = open_run(run, "cpu")
    ids = ours.model.order.ids(torch.randint(8, (2, 63)))
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, ours.model(ids), atol=1e-4, rtol=1e-4)
    processor = transformers.ImageGPTImageProcessorPil.from_pretrained(folder)
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    their_ids = processor(Image.fromarray(pixels), return_tensors="np")["input_ids"]
    assert np.array_equal(np.asarray(their_ids).reshape(-1), ours.levels.of(pixels[None])[0])
    back = tmp_path / "back"
    result = regard("import", folder, back, "--check")
    assert result.code == 0, result.err
    assert torch.equal(open_run(back, "cpu").model(ids), ours.model(ids))
    path = write_image(tmp_path / "a.png")
    drawn = [regard("predict", name, path, "--json", "--device", "cpu").out for name in (run, folder, back)]
    assert json.loads(drawn[0])["pixels"] == json.loads(drawn[1])["pixels"] == json.loads(drawn[2])["pixels"]


def test_training_begins_with_weights_and_palette_of_another_run(tmp_path):
    begun = trained("classes")
    data = [setting for setting in TINY if not setting.startswith("model.")]
    more = ("train", "pixels", *data, f"task.init_from={begun}", "--out", tmp_path / "more", "--device", "cpu")
    first = regard(*more, "train.steps=2", "train.schedule=constant", "data.train=builtin:shapes@count=30/train")
    assert first.code == 0, first.err
    weights = [Run.open(run).store().newest("step").tensors("model") for run in (begun, tmp_path / "more")]
    assert torch.equal(weights[0]["palette_VC"], weights[1]["palette_VC"])
    assert not torch.equal(weights[0]["head.project.weight"], weights[1]["head.project.weight"])
    again = regard(*more, "train.steps=4", "train.schedule=constant", "data.train=builtin:shapes@count=30/train")
    assert again.code == 0, again.err
    found = Run.open(tmp_path / "more").store().newest("step").tensors("model")
    assert torch.equal(found["palette_VC"], weights[0]["palette_VC"])


def test_what_imagegpt_cannot_say_is_not_exported(tmp_path):
    refused(regard("export", trained("coupled"), tmp_path / "out"), "cannot be written as imagegpt")
    assert not (tmp_path / "out").exists()

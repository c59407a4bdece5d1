"""ViT and DeiT against transformers, both ways, with weights copied, at three sizes of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.core.errors import UserError
from regard.families import build_model
from regard.interop.huggingface import read_public, write_public
from tests.families.public_folder import change_tensors, shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL: dict[str, Any] = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
SMALL |= dict(image_size=16, patch_size=4, num_labels=5)
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit": ("ViT", "ViTForImageClassification", {}),
    "vit, grey": ("ViT", "ViTForImageClassification", dict(num_channels=1, hidden_act="gelu_pytorch_tanh", patch_size=8)),
    "vit, no head": ("ViT", "ViTModel", {}),
    "deit": ("DeiT", "DeiTForImageClassificationWithTeacher", {}),
    "deit, no head": ("DeiT", "DeiTModel", {}),
}
SIZES = [(16, 16), (24, 24), (8, 32)]
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def peer(kind: str, folder: Path, **more: Any) -> Any:
    """Write a random model to a folder."""
    name, architecture, keys = KINDS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**(SMALL | keys | more))
    theirs = shaken(getattr(transformers, architecture)(config), 0.2)
    theirs.save_pretrained(folder)
    colours = config.num_channels
    described = {"image_mean": MEAN[:colours], "image_std": DEVIATION[:colours], "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(described))
    return theirs.eval()


def opened(folder: Path, **choices: Any) -> Any:
    public = read_public(folder)
    from dataclasses import replace

    model = build_model(replace(public.config, **choices), vocabulary=0, heads=public.heads)
    model.load_state_dict(public.weights)
    return model.eval()


def drawn(rows: int, columns: int, colours: int = 3) -> Tensor:
    g = torch.Generator().manual_seed(rows)
    return torch.randint(0, 256, (2, rows, columns, colours), dtype=torch.uint8, generator=g)


def pixels(image_BYXC: Tensor) -> Tensor:
    """What transformers' processor makes of colours."""
    colours = image_BYXC.shape[-1]
    return ((image_BYXC / 255 - torch.tensor(MEAN[:colours])) / torch.tensor(DEVIATION[:colours])).permute(0, 3, 1, 2)


def said(theirs: Any, image_BYXC: Tensor) -> Any:
    with torch.no_grad():
        return theirs(pixels(image_BYXC), interpolate_pos_encoding=True)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_both_say_the_same(kind: str, size: tuple[int, int], tmp_path: Path) -> None:
    theirs = peer(kind, tmp_path)
    image, ours = drawn(*size, theirs.config.num_channels), opened(tmp_path)
    expected = said(theirs, image)
    if "no head" in kind:
        close(ours.hidden(image), expected.last_hidden_state)
        return
    close(ours(image), expected.logits)
    if kind == "deit":
        close(ours.outputs(image)["classes"], expected.cls_logits)
        close(ours.outputs(image)["distilled"], expected.distillation_logits)


def test_mean_pooling_is_the_mean_of_their_patches(tmp_path: Path) -> None:
    theirs, image = peer("vit", tmp_path), drawn(16, 16)
    with torch.no_grad():
        mean = theirs.vit(pixels(image)).last_hidden_state[:, 1:].mean(1)
    close(opened(tmp_path, pooling="mean")(image), theirs.classifier(mean))


@pytest.mark.parametrize("kind", KINDS)
def test_what_we_write_transformers_opens(kind: str, tmp_path: Path) -> None:
    theirs = peer(kind, tmp_path / "theirs", id2label=dict(enumerate("abcde")))
    public = read_public(tmp_path / "theirs")
    weights = {name: tensor * 1.1 for name, tensor in public.weights.items()}
    name = write_public(tmp_path / "ours", public.config, 0, weights, labels=public.labels)
    again, loading = getattr(transformers, KINDS[kind][1]).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert {key for key in loading["missing_keys"] if "pooler" not in key} == set()
    assert not loading["unexpected_keys"]
    ours = build_model(public.config, vocabulary=0, heads=public.heads)
    ours.load_state_dict(weights)
    image, ours = drawn(16, 16, theirs.config.num_channels), ours.eval()
    expected = said(again.eval(), image)
    close(ours.hidden(image), expected.last_hidden_state) if "no head" in kind else close(ours(image), expected.logits)
    assert name == KINDS[kind][1]
    if public.labels:
        assert again.config.id2label == dict(enumerate("abcde"))
    back = read_public(tmp_path / "ours")
    assert (back.config, back.labels) == (public.config, public.labels)


def test_their_processor_makes_the_numbers_that_ours_makes(tmp_path: Path) -> None:
    """transformers' own reader of preprocessor_config.json, which needs no torchvision for arrays of the right size."""
    peer("vit", tmp_path / "theirs")
    public = read_public(tmp_path / "theirs")
    write_public(tmp_path / "ours", public.config, 0, public.weights, labels=public.labels)
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "ours", backend="pil")
    except (ImportError, ValueError) as error:
        pytest.skip(str(error))
    image = drawn(16, 16)
    found = processor([x.numpy() for x in image], return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(public.config.as_numbers(image, torch.float32).permute(0, 3, 1, 2), found, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("described", "mean", "deviation", "told"),
    [
        ({"do_normalize": False}, (0.0,), (1.0,), ""),
        ({"image_mean": 0.5, "image_std": [0.25] * 3}, (0.5,), (0.25,), ""),
        ({"rescale_factor": 2 / 255, "image_mean": [1.0] * 3, "image_std": [1.0] * 3}, (0.5,), (0.5,), ""),
        ({"do_rescale": False, "do_normalize": False}, (0.0,), (1 / 255,), ""),
        ({"do_center_crop": True, "image_mean": 0.5, "image_std": 0.5}, (0.5,), (0.5,), "crops the middle"),
        ({"size": {"shortest_edge": 256}}, (0.5,), (0.5,), "resized to 16 pixels"),
        (None, (0.5,), (0.5,), "from -1 to 1"),
    ],
)
def test_colours_become_the_numbers_that_the_folder_describes(described, mean, deviation, told, tmp_path: Path) -> None:
    peer("vit", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    if described is not None:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(described))
    public = read_public(tmp_path)
    assert public.config.pixel_mean == pytest.approx(mean)
    assert public.config.pixel_deviation == pytest.approx(deviation)
    assert told in " ".join(public.notes)


def test_a_pooler_is_left_out_and_said(tmp_path: Path) -> None:
    peer("vit, no head", tmp_path)
    assert "pooler.dense" in " ".join(read_public(tmp_path).notes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (dict(qkv_bias=False), "qkv_bias"),
        (dict(num_channels=4), "1 or 3 colours"),
        (dict(image_size=[16, 16]), "a whole number"),
        (dict(image_size=18), "does not divide into patches"),
        (dict(window_size=3), "does not know"),
        (dict(hidden_act="quick_gelu"), "does not compute"),
        (dict(image_size=32), r"asks for \(1, 65, 24\)"),
        (dict(architectures=["ViTForMaskedImageModeling"]), "architecture"),
    ],
)
def test_other_folders_are_refused_in_one_sentence(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    peer("vit", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError, match=told):
        read_public(tmp_path)


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ({"image_mean": "grey"}, "image_mean"),
        ({"image_std": [0.0] * 3}, "above 0"),
        ({"image_mean": [0.5, 0.4]}, "has 2 numbers"),
        ({"rescale_factor": -1}, "rescale_factor"),
        ([1], "JSON object"),
    ],
)
def test_pixels_that_cannot_be_are_refused(described: Any, told: str, tmp_path: Path) -> None:
    peer("vit", tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match=told):
        read_public(tmp_path)


def test_weights_that_are_missing_or_too_many_are_named(tmp_path: Path) -> None:
    peer("deit", tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.pop("deit.embeddings.distillation_token"))
    with pytest.raises(UserError, match="distillation_token"):
        read_public(tmp_path)


@pytest.mark.parametrize(("setting", "value"), [("pooling", "mean"), ("position", "rotary"), ("mixer", "linear-relu")])
def test_models_that_transformers_has_not_are_refused(setting: str, value: str, tmp_path: Path) -> None:
    from dataclasses import replace

    peer("vit", tmp_path / "theirs", hidden_size=48)
    public = read_public(tmp_path / "theirs")
    with pytest.raises(UserError, match=f"model.{setting}={value} cannot be written"):
        write_public(tmp_path / "ours", replace(public.config, **{setting: value}), 0, public.weights)

"""ViT and DeiT in timm's layout against a plain forward pass written here, from the same tensors; what differs is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from regard.core.errors import UserError
from regard.families import build_model
from regard.interop.huggingface import read_public
from tests.interop.huggingface.test_vit import close, drawn

WIDTH, HEADS, PATCH, LAYERS, CLASSES = 24, 3, 4, 2, 5
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CONFIG = {
    "architecture": "vit_tiny_patch16_224",
    "num_classes": CLASSES,
    "global_pool": "token",
    "pretrained_cfg": {"mean": MEAN, "std": DEVIATION, "input_size": [3, 16, 16], "crop_pct": 0.9, "interpolation": "bicubic"},
}


def stored(distilled: bool = False) -> dict[str, Tensor]:
    """Tensors by the names and of the shapes of timm's VisionTransformer."""
    g = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return 0.2 * torch.randn(*shape, generator=g)

    found = {"cls_token": draw(1, 1, WIDTH), "pos_embed": draw(1, 17 + distilled, WIDTH)}
    found |= {"patch_embed.proj.weight": draw(WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": draw(WIDTH)}
    linear = {"attn.qkv": (3 * WIDTH, WIDTH), "attn.proj": (WIDTH, WIDTH), "mlp.fc1": (40, WIDTH), "mlp.fc2": (WIDTH, 40)}
    for n in range(LAYERS):
        for name, shape in linear.items():
            found |= {f"blocks.{n}.{name}.weight": draw(*shape), f"blocks.{n}.{name}.bias": draw(shape[0])}
        for name in ("norm1", "norm2"):
            found |= {f"blocks.{n}.{name}.weight": 1 + draw(WIDTH), f"blocks.{n}.{name}.bias": draw(WIDTH)}
    found |= {"norm.weight": 1 + draw(WIDTH), "norm.bias": draw(WIDTH)}
    found |= {"head.weight": draw(CLASSES, WIDTH), "head.bias": draw(CLASSES)}
    if distilled:
        found |= {"dist_token": draw(1, 1, WIDTH), "head_dist.weight": draw(CLASSES, WIDTH), "head_dist.bias": draw(CLASSES)}
    return found


def forward(w: dict[str, Tensor], image: Tensor) -> Tensor:
    """timm's `forward`, with its position embedding resampled for images of another size."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-6)

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    pixels = ((image / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).permute(0, 3, 1, 2)
    grid = F.conv2d(pixels, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH)
    front = [w["cls_token"]] + ([w["dist_token"]] if "dist_token" in w else [])
    x = torch.cat([*(token.expand(len(image), -1, -1) for token in front), grid.flatten(2).mT], 1)
    place = w["pos_embed"]
    if grid.shape[2:] != (4, 4):
        picture = place[:, len(front) :].reshape(1, 4, 4, WIDTH).permute(0, 3, 1, 2)
        picture = F.interpolate(picture, size=grid.shape[2:], mode="bicubic", antialias=True, align_corners=False)
        place = torch.cat([place[:, : len(front)], picture.flatten(2).mT], 1)
    x = x + place
    for n in range(LAYERS):
        batch, tokens, _ = x.shape
        qkv = linear(norm(x, f"blocks.{n}.norm1"), f"blocks.{n}.attn.qkv")
        q, k, v = qkv.reshape(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT * (WIDTH // HEADS) ** -0.5).softmax(-1)
        x = x + linear((weights @ v).transpose(1, 2).flatten(2), f"blocks.{n}.attn.proj")
        x = x + linear(F.gelu(linear(norm(x, f"blocks.{n}.norm2"), f"blocks.{n}.mlp.fc1")), f"blocks.{n}.mlp.fc2")
    x = norm(x, "norm")
    found = linear(x[:, 0], "head")
    return (found + linear(x[:, 1], "head_dist")) / 2 if "dist_token" in w else found


def folder(path: Path, tensors: dict[str, Tensor], **changes: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG | changes))
    save_file(tensors, path / "model.safetensors")
    return path


@pytest.mark.parametrize("size", [(16, 16), (24, 24), (8, 32)])
@pytest.mark.parametrize("distilled", [False, True])
def test_it_computes_what_timm_computes(distilled: bool, size: tuple[int, int], tmp_path: Path) -> None:
    tensors = stored(distilled)
    public = read_public(folder(tmp_path / "timm", tensors))
    assert public.family == ("deit" if distilled else "vit")
    model = build_model(public.config, vocabulary=0, heads=public.heads).eval()
    model.load_state_dict(public.weights)
    close(model(drawn(*size)), forward(tensors, drawn(*size)))


def test_labels_and_pixels_come_along(tmp_path: Path) -> None:
    named = read_public(folder(tmp_path / "a", stored(), label_names=list("abcde")))
    assert named.labels == tuple("abcde")
    assert named.config.pixel_mean == pytest.approx(MEAN)
    assert "crops the middle" in " ".join(named.notes)
    assert read_public(folder(tmp_path / "b", stored())).labels[0] == "LABEL_0"
    heads = read_public(folder(tmp_path / "c", stored(), model_args={"num_heads": 6})).config.heads
    assert heads == 6


@pytest.mark.parametrize(
    ("changes", "more", "told"),
    [
        ({"architecture": "resnet50"}, {}, "of timm, which cannot be opened here"),
        ({"architecture": "vit_giant_patch14_224"}, {}, "of timm, which cannot be opened here"),
        ({}, {"fc_norm.weight": torch.ones(WIDTH)}, "a norm behind mean pooling"),
        ({}, {"blocks.0.ls1.gamma": torch.ones(WIDTH)}, "does not know"),
        ({}, {"pos_embed": torch.zeros(1, 16, WIDTH)}, "none for a square image"),
        ({"model_args": {"num_heads": "three"}}, {}, "a whole number"),
        ({"pretrained_cfg": {"mean": ["x"], "std": [1.0]}}, {}, "image_mean"),
    ],
)
def test_what_computes_otherwise_is_refused(changes: dict[str, Any], more: dict[str, Tensor], told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        read_public(folder(tmp_path / "timm", stored() | more, **changes))


def test_weights_without_a_class_token_are_refused(tmp_path: Path) -> None:
    tensors = stored()
    del tensors["cls_token"]
    with pytest.raises(UserError, match="with a class token"):
        read_public(folder(tmp_path / "timm", tensors))

"""Two pixel Transformers that somebody else trained, on the test images they were trained for (needs $REGARD_DATA).

Their layout is nanoGPT-like: layer norms with shifts, gelu, one vector a position, a start vector of their own, and 16 grey
levels that are the centres of k-means. And what no published model has: attention is added to the normalised vectors, not to
those before the norm, so `NormedResidual` takes the place of our residual. The figures are those that came with the weights, of
the first 64 test images: 0.435 bits a pixel of MNIST's, 1.020 of Fashion-MNIST's.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from regard.data.batching.pixels import PixelData
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.model.block import Residual
from regard.objectives.pixels import PixelsConfig, PixelsLoss, bits
from tests.model.position.schemes import shared_data

LAYERS, IMAGES = 8, 64
NAMES = {
    "ln_1": "self.norm",
    "attn.in_proj_": "self.layer.project.",
    "attn.out_proj": "self.layer.out",
    "ln_2": "ffn.norm",
    "mlp.0": "ffn.layer.expand",
    "mlp.2": "ffn.layer.contract",
}


class NormedResidual(nn.Module):
    """y + f(y) of y = norm(x)."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.norm, self.layer = residual.norm, residual.layer

    def forward(self, x_BLD: torch.Tensor, *rest: Any) -> torch.Tensor:
        y_BLD = self.norm(x_BLD)
        return y_BLD + self.layer(y_BLD, *rest)


def opened(path: Path) -> ImageTransformer:
    config = ImageTransformerConfig(
        image_size=28,
        pixels="grey",
        levels=16,
        width=16,
        heads=2,
        layers=LAYERS,
        feedforward=64,
        dropout=0.0,
        activation="gelu",
        grid=False,
        position="learned",
    )
    stored, weights = load_file(path), dict[str, Any]()
    start = stored["gpt.sos"].reshape(1, -1)
    weights["embed.tokens.weight"] = torch.cat([stored["gpt.token_embeddings.weight"], start])
    weights["embed.positions.scheme.table.weight"] = stored["gpt.position_embeddings.weight"]
    for part in ("weight", "bias"):
        weights[f"decoder.norm.{part}"] = stored[f"gpt.ln_f.{part}"]
    weights["head.project.weight"] = stored["gpt.head.weight"]
    for name, tensor in stored.items():
        if name.startswith("gpt.layers."):
            _, _, *place = name.split(".", 3)
            theirs = place[1]
            old = next(old for old in NAMES if theirs.startswith(old))
            weights[f"decoder.blocks.{place[0]}.{theirs.replace(old, NAMES[old])}"] = tensor
    model = ImageTransformer(config)
    for block in model.decoder.blocks:
        block.add_module("self", NormedResidual(block["self"]))
    model.load_state_dict(weights)
    return model.eval()


def pixels_of(folder: Path, images: int) -> np.ndarray:
    path = next(folder.glob("t10k-images-idx3-ubyte*"))
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return np.frombuffer(content, np.uint8, offset=16).reshape(-1, 784)[:images]


@torch.no_grad()
@pytest.mark.parametrize(("name", "folder", "expected"), [("fmnist", "fashion_mnist", 1.020), ("mnist", "mnist", 0.435)])
def test_bits_a_pixel_are_those_they_were_stored_with(name, folder, expected):
    weights = shared_data(f"weights/image_gpt_tiny/{name}_gen.safetensors")
    pixels = pixels_of(shared_data(folder), IMAGES)
    centres = np.load(weights.with_name(f"{name}_centroids.npy")).ravel()
    level = np.abs(pixels[..., None] / np.float32(255) - centres).argmin(-1).astype(np.uint8)
    data, loss = PixelData(level), PixelsLoss(PixelsConfig())
    total = loss(opened(weights), data.batch(np.arange(IMAGES))).total.item()
    assert bits(total / level.size) == pytest.approx(expected, abs=6e-4)

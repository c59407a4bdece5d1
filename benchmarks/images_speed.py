"""Images a second of ViT-B/16 at 224 pixels and of a ViT 192 x 9 at 32, training and inference: ours beside those of others.

    python -m benchmarks.images_speed [base small] [training inference] [batch=8] [rounds=5] [compiled=no]

transformers' ViT has the same copied weights and must find the same loss first. timm's is of the same shape, and so is that of
vit-pytorch; what cannot be imported is named in the record. plain is the model in forty lines of PyTorch, as tutorials have it.
On a GPU all train in bf16 autocast, ours with captured steps; the batches of all lie ready on the device.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.lra import typed, whole
from benchmarks.measure import RESULTS, Bar, Row, alternate, row, versions, write
from benchmarks.steps import CUDA, DEVICE, SETTINGS, must_agree, ours, theirs, times
from regard.data.augment import Augment
from regard.data.augment_config import AugmentSettings
from regard.data.batching.images import ImageBatches, LabelledImages
from regard.decode.config import DecodeConfig
from regard.families import build_model
from regard.families.base import Heads
from regard.families.vit import ViTConfig
from regard.interop.huggingface.save import write_public
from regard.objectives.image_classification import ImageClassificationConfig, ImageClassificationLoss
from regard.runs.load import ready

SHAPES = {
    "base": ViTConfig(),
    "small": ViTConfig(image_size=32, patch=4, width=192, heads=3, layers=9, feedforward=768),
}
TITLES = {"base": "ViT-B/16, 224 px", "small": "ViT 192 x 9, patch 4, 32 px"}
CLASSES = {"base": 1000, "small": 10}
BATCH = {"base": 256 if CUDA else 4, "small": 1024 if CUDA else 64}
BARS: dict[str, Bar] = {
    "base training": {"floor": 1.15, "goal": 1.5},
    "small training": {"floor": 3, "goal": 8},
    "base inference": {"floor": 1.2, "goal": 1.6},
    "small inference": {"floor": 1.2, "goal": 1.6},
}
BAR_ON_CPU: Bar = {"floor": 1.0, "goal": 1.3}  # beside timm


class Plain(nn.Module):
    """A ViT as tutorials write it, on torch's own encoder layers."""

    def __init__(self, c: ViTConfig, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(c.colours, c.width, c.patch, c.patch)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, c.width)), nn.Parameter(torch.zeros(1, c.context, c.width))
        layer = nn.TransformerEncoderLayer(c.width, c.heads, c.feedforward, 0.0, F.gelu, 1e-6, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, c.layers, nn.LayerNorm(c.width, 1e-6), enable_nested_tensor=False)
        self.head = nn.Linear(c.width, classes)

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        x_BMD = self.patches(pixels_BCYX).flatten(2).mT
        x_BMD = torch.cat([self.first.expand(len(x_BMD), -1, -1), x_BMD], 1) + self.places
        return self.head(self.encoder(x_BMD)[:, 0])  # type: ignore[no-any-return]


def peers(c: ViTConfig, classes: int, model: nn.Module) -> tuple[dict[str, nn.Module], list[str]]:
    """Return models of this shape that take pixels_BCYX, and what is to be said of those that are missing."""
    found, told = dict[str, nn.Module](), list[str]()
    try:
        found["transformers"] = hugging_face(c, classes, model)
    except ImportError as error:
        told.append(f"transformers cannot be imported ({error})")
    try:
        from benchmarks.peers.timm_models import vision_transformer

        shape: dict[str, Any] = dict(
            img_size=c.image_size, patch_size=c.patch, embed_dim=c.width, depth=c.layers, num_heads=c.heads
        )
        found["timm"] = vision_transformer(**shape, mlp_ratio=c.feedforward / c.width, num_classes=classes)
    except Exception as error:
        told.append(f"timm cannot be imported here ({type(error).__name__}: {str(error)[:80]})")
    try:
        from vit_pytorch import ViT

        shape = dict(
            image_size=c.image_size, patch_size=c.patch, dim=c.width, depth=c.layers, heads=c.heads, mlp_dim=c.feedforward
        )
        found["vit-pytorch"] = ViT(**shape, num_classes=classes)
    except Exception as error:
        told.append(f"vit-pytorch cannot be imported here ({type(error).__name__}: {str(error)[:80]})")
    return found | {"plain": Plain(c, classes)}, told


def hugging_face(c: ViTConfig, classes: int, model: nn.Module) -> nn.Module:
    """Return transformers' classifier with the weights of ours, as our own export writes them."""
    from transformers import ViTForImageClassification

    with tempfile.TemporaryDirectory() as folder:
        write_public(Path(folder), c, 0, model.state_dict(), labels=[f"class {n}" for n in range(classes)])
        return Logits(ViTForImageClassification.from_pretrained(folder))


class Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        return self.model(pixels_BCYX).logits  # type: ignore[no-any-return]


def pixels_of(c: ViTConfig, image_BYXC: Tensor) -> Tensor:
    """Return pixels_BCYX as peers take them: numbers around 0."""
    return c.as_numbers(image_BYXC, torch.float32).permute(0, 3, 1, 2).contiguous()


def training(size: str, batch: int, rounds: int, compiled: bool) -> tuple[Row, list[str]]:
    """Steps of each on one batch: forwards, backwards, clipping, AdamW."""
    c, classes = SHAPES[size], CLASSES[size]
    model = build_model(c, 0, vocabulary=0, heads=Heads(words=False, classes=classes))
    images = np.random.default_rng(0).integers(0, 256, (batch, c.image_size, c.image_size, c.colours), dtype=np.uint8)
    data = LabelledImages.of(images, np.arange(batch) % classes)
    found, told = peers(c, classes, model)
    objective = ImageClassificationLoss(ImageClassificationConfig(), Augment(AugmentSettings(), classes))
    source, labels_B = ImageBatches(data, batch, 1), torch.from_numpy(data.labels).to(DEVICE)
    pixels_BCYX = pixels_of(c, torch.from_numpy(images)).to(DEVICE)
    for name in found.keys() & {"transformers"}:
        with torch.no_grad():
            expected = F.cross_entropy(found[name].to(DEVICE).eval()(pixels_BCYX), labels_B)
            loss = objective(model.to(DEVICE).eval(), source.batch(np.arange(batch), 0).to(DEVICE))
        must_agree(loss.total / batch, expected)

    def their_loss(peer: nn.Module, given: Any) -> Tensor:
        return F.cross_entropy(peer(given[0]), given[1])

    steps = 1 if size == "base" else 2
    settings = replace(SETTINGS, compile=CUDA)
    contenders: dict[str, Callable[[], object]] = {
        "regard": times(ours(copy.deepcopy(model).to(DEVICE), objective, source, settings), steps)
    }
    for name, peer in found.items():
        made = theirs(copy.deepcopy(peer).to(DEVICE), their_loss, [(pixels_BCYX, labels_B)], compiled=False)
        contenders[name] = times(made, steps)
        if compiled:
            made = theirs(peer.to(DEVICE), their_loss, [(pixels_BCYX, labels_B)], compiled=True)
            contenders[f"{name}, compiled"] = times(made, steps)
    return measured(f"{TITLES[size]}, training, batch {batch}", f"{size} training", steps * batch, contenders, rounds), told


def inference(size: str, batch: int, rounds: int, compiled: bool) -> tuple[Row, list[str]]:
    c, classes = SHAPES[size], CLASSES[size]
    model = build_model(c, 0, vocabulary=0, heads=Heads(words=False, classes=classes))
    image_BYXC = torch.randint(256, (batch, c.image_size, c.image_size, c.colours), dtype=torch.uint8, device=DEVICE)
    pixels_BCYX = pixels_of(c, image_BYXC)
    found, told = peers(c, classes, model)

    def runs(of: nn.Module, given: Tensor) -> Callable[[], object]:
        def run() -> object:
            with torch.inference_mode(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=CUDA):
                return of(given)

        return run

    contenders = {"regard": runs(ready(model, DecodeConfig().weights, DEVICE), image_BYXC)}
    for name, peer in found.items():
        peer = peer.to(DEVICE).eval()
        contenders[name] = runs(peer, pixels_BCYX)
        if compiled:
            contenders[f"{name}, compiled"] = runs(torch.compile(peer), pixels_BCYX)  # type: ignore[arg-type]
    return measured(f"{TITLES[size]}, inference, batch {batch}", f"{size} inference", batch, contenders, rounds), told


def measured(case: str, bar: str, work: int, contenders: dict[str, Callable[[], object]], rounds: int) -> Row:
    """Time all in turns; the bar is for the best of the others."""
    seconds = alternate(contenders, rounds, warm_up=5 if CUDA else 1)
    best = min((name for name in seconds if name != "regard"), key=lambda name: sorted(seconds[name])[rounds // 2])
    peer, bars = (best, BARS[bar]) if CUDA or "timm" not in seconds else ("timm", BAR_ON_CPU)
    found = row(case, "images/s", work, seconds, bars={f"regard / {peer}": bars})
    print(case, {name: round(ratio, 2) for name, ratio in found["ratios"].items()}, flush=True)
    return found


def main(arguments: Sequence[str] = ()) -> None:
    parts = {"training": training, "inference": inference}
    named, chosen, _ = typed(arguments, (*SHAPES, *parts), {"batch": "", "rounds": "7", "compiled": "yes" if CUDA else "no"})
    for size in [name for name in named if name in SHAPES] or SHAPES:
        for part in [name for name in named if name in parts] or parts:
            batch = whole(chosen["batch"])[0] if chosen["batch"] else BATCH[size]
            record(*parts[part](size, batch, whole(chosen["rounds"])[0], chosen["compiled"] == "yes"))


def record(found: Row, missing: list[str]) -> None:
    """Write a case, beside those that were recorded on this device before."""
    path = RESULTS / f"images_speed.{'cuda' if CUDA else 'cpu'}.json"
    before: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.is_file() else []
    order = [f"{TITLES[size]}, {part}" for size in SHAPES for part in ("training", "inference")]
    rows = [other for other in before if other["case"] != found["case"]] + [found]
    rows.sort(key=lambda each: order.index(each["case"].rpartition(",")[0]))
    setting = (
        "Random weights, random images; training: AdamW, clipping, no augmentation; ours takes bytes and makes numbers of them "
    )
    setting += (
        "in the model, others get numbers. " + ("bf16 autocast. " if CUDA else "fp32. ") + " ".join(f"{m}." for m in missing)
    )
    known = versions(*(name for name in ("transformers", "timm", "vit-pytorch") if any(name in r["systems"] for r in rows)))
    write("images_speed", title="Images a second of ViTs", setting=setting.strip(), rows=rows, versions=known)


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "images_speed" else ())

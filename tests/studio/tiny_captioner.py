"""A captioner of two layers and two heads that was never trained, before a few drawn scenes, as `regard studio` would open it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from regard.data.sources.captions import open_image, read_captions
from regard.data.sources.images import square
from regard.decode.config import DecodeConfig
from regard.families.captioner import Captioner
from regard.model.probe import probe
from regard.runs.recipe import load_recipe
from regard.studio.run_session import ImageSession
from regard.tasks.captioning.predict import CaptionGenerator
from regard.text.specials import SOS
from regard.text.tokenizer import train_tokenizer

IMAGES, CELLS = 30, 4
WHERE = f"builtin:scenes@count={IMAGES}/test"
SCENE = "builtin:scenes/test/3"
ASSIGNED = [
    "model.width=32",
    "model.image_size=32",
    "model.patch=8",
    "model.heads=2",
    "model.feedforward=32",
    "model.layers=2",
    f"data.test={WHERE}",
]


@cache
def captioner_session() -> ImageSession:
    recipe = load_recipe("caption-scenes-transformer", ASSIGNED)
    captions = [example.captions[0] for example in read_captions([WHERE], "", 8).examples]
    tokenizer = train_tokenizer("word", captions, 100)
    model = Captioner(recipe.model, len(tokenizer), seed=1).eval()
    with torch.no_grad():  # with plain random weights it would look at all cells alike, and say one word
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(0.7 if "cross" in name else 3.0)
    decode = DecodeConfig(search="greedy", minimum_length=5, maximum_length=7)
    return ImageSession(CaptionGenerator(model, tokenizer, decode), recipe, "caption", "never trained")


def read(name: str = SCENE) -> np.ndarray:
    return square(open_image(name), 32)


@cache
def caption_weights(name: str = SCENE) -> dict[str, np.ndarray]:
    """weights_HLM by attention, of a pass that studio has no part in."""
    writer, image_YXC = captioner_session().writer, read(name)
    ids = writer.write(image_YXC[None])[0][0].ids
    with torch.no_grad(), probe(writer.model) as seen:
        writer.model(torch.from_numpy(image_YXC[None]), torch.tensor([[SOS, *ids]]))
    return {one: seen[one].weights()[0].numpy() for one in seen if one.endswith(".cross")}


@dataclass(frozen=True)
class CaptionOpening:
    folder: Path | None = None
    steps: tuple[int, ...] = ()

    def open(self, step: int | None) -> ImageSession:
        return captioner_session()

    def version(self) -> str | None:
        return ""

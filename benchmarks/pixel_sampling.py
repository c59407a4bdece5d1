"""Sampling images pixel after pixel with ImageGPT's weights: ours, Hugging Face's, without a cache, and linear attention.

    python -m benchmarks.pixel_sampling --cells digits-14 digits-28 --rounds 3

Random weights as a folder of transformers that our import opens. In float32 both must find the same logits, and greedy search the
same pixels, before any clock runs; on a GPU bf16 is timed. `no cache` computes all pixels again for each next one. `linear` is
another model, of the same sizes with model.mixer=linear-relu, whose state does not grow.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.cells import Cells, parser
from benchmarks.measure import alternate, row, versions
from benchmarks.steps import CUDA, DEVICE
from regard.decode.algorithm import sessions_on
from regard.decode.config import GREEDY, Sampling
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.interop.huggingface import read_public
from regard.runs.load import ready

CLOSE = 1e-3  # largest difference of a logit in float32
SYSTEMS = ("regard", "hugging face", "no cache", "linear")


class Cell(NamedTuple):
    """An image of `side` pixels of `colours`, and a model."""

    side: int
    colours: int
    layers: int
    width: int
    heads: int
    batch: int
    floor: float
    goal: float
    slow: bool = False  # is computing everything again worth the wait on a CPU?


CELLS = {
    "digits-14": Cell(14, 16, 8, 256, 8, 1, 5, 10, slow=True),
    "digits-28": Cell(28, 256, 8, 256, 8, 1, 5, 10),
    "digits-28-16": Cell(28, 256, 8, 256, 8, 16, 5, 10),
    "imagegpt-small-16": Cell(32, 512, 24, 512, 8, 16, 5, 10),
}


class Models:
    """All models of a cell: in float32 until they are found to agree, then on a GPU in bf16."""

    def __init__(self, cell: Cell) -> None:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        torch.manual_seed(1)
        keys = {"n_embd": cell.width, "n_layer": cell.layers, "n_head": cell.heads}
        config = transformers.ImageGPTConfig(vocab_size=cell.colours + 1, n_positions=cell.side**2, **keys)
        with tempfile.TemporaryDirectory() as folder:
            drawn = transformers.ImageGPTForCausalImageModeling(config)
            with torch.no_grad():
                drawn.lm_head.weight.mul_(20)  # so that a pixel is not as good as any other
            drawn.save_pretrained(folder)
            described = {"clusters": [[n / cell.colours] * 3 for n in range(cell.colours)]}
            (Path(folder) / "preprocessor_config.json").write_text(json.dumps(described))
            public = read_public(Path(folder))
            self.theirs: Any = transformers.ImageGPTForCausalImageModeling.from_pretrained(folder).to(DEVICE).eval()
        assert isinstance(public.config, ImageTransformerConfig)
        self.cell, self.pixels = cell, cell.side**2
        self.ours = ImageTransformer(public.config)
        self.ours.load_state_dict(public.weights)
        self.linear = ImageTransformer(replace(public.config, mixer="linear-relu", attention_dropout=0.0), 1)
        self.ours, self.linear = ready(self.ours, "float32", DEVICE), ready(self.linear, "float32", DEVICE)
        self.sessions = {name: sessions_on(DEVICE) for name in ("ours", "linear")}

    def halve(self) -> None:
        self.ours, self.linear, self.theirs = self.ours.bfloat16(), self.linear.bfloat16(), self.theirs.bfloat16()
        self.sessions = {name: sessions_on(DEVICE) for name in self.sessions}

    @property
    def start_B1(self) -> Tensor:
        return torch.full((self.cell.batch, 1), self.cell.colours, dtype=torch.long, device=DEVICE)

    @torch.no_grad()
    def regard(self, name: str = "ours", method: Sampling | None = None) -> list[list[int]]:
        model, start_B1 = getattr(self, name), self.start_B1
        request = SearchRequest(
            encoded=model.start(start_B1[:, :0], torch.zeros(len(start_B1), dtype=torch.long, device=DEVICE)),
            sos=start_B1[:, 0],
            eos=-1,
            limits=[self.pixels] * len(start_B1),
            method=method or Sampling(),
            seeds=list(range(len(start_B1))),
            sessions=self.sessions[name],
        )
        return [found[0].ids for found in search(request)]

    @torch.no_grad()
    def hugging_face(self, sample: bool = True) -> list[list[int]]:
        kind: dict[str, Any] = {"do_sample": True, "top_k": 0} if sample else {"do_sample": False}
        found = self.theirs.generate(input_ids=self.start_B1, max_length=self.pixels + 1, pad_token_id=0, **kind)
        return found[:, 1:].tolist()

    @torch.no_grad()
    def no_cache(self) -> list[list[int]]:
        ids_BL = self.start_B1
        for _ in range(self.pixels):
            x_BLD = self.ours.hidden(ids_BL)
            shares_BV = self.ours.head(x_BLD[:, -1]).float().softmax(-1)
            ids_BL = torch.cat([ids_BL, torch.multinomial(shares_BV, 1)], 1)
        return ids_BL[:, 1:].tolist()

    @torch.no_grad()
    def largest_difference(self) -> float:
        ids_BL = torch.randint(self.cell.colours, (2, self.pixels), device=DEVICE)
        return float((self.ours(ids_BL).float() - self.theirs(ids_BL, use_cache=False).logits.float()).abs().max())

    def kept(self, name: str) -> int:
        """Return the bytes that an image's state has when its last pixel is drawn."""
        model, start_11 = getattr(self, name), self.start_B1[:1]
        encoded = model.start(start_11[:, :0], torch.zeros(1, dtype=torch.long, device=DEVICE))
        state = encoded.make_state(1, 1, self.pixels, fixed=False)
        state.load(encoded, [self.pixels])
        state.grow(self.pixels)
        caches: Any = state.caches
        tensors = [part for cache in caches for part in vars(cache).values() if isinstance(part, Tensor)]
        tensors += [part for cache in caches for part in getattr(cache, "buffers", ())]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def systems(models: Models, chosen: Sequence[str]) -> dict[str, Callable[[], list[list[int]]]]:
    found: dict[str, Callable[[], list[list[int]]]] = {
        "regard": models.regard,
        "hugging face": models.hugging_face,
        "linear": partial(models.regard, "linear"),
    }
    if CUDA or models.cell.slow:
        found["no cache"] = models.no_cache
    return {name: run for name, run in found.items() if name in chosen}


def main(arguments: Sequence[str] = ()) -> None:
    options = parser(__doc__ or "", CELLS, SYSTEMS, 3).parse_args(arguments)
    cells = Cells(
        "pixel_sampling",
        "Sampling of images, pixel after pixel",
        "Random weights of ImageGPT's layout: 8 layers of width 256 for digits of 14 x 14 and 28 x 28 pixels, 24 of width 512 "
        "for 32 x 32. A number behind the name is how many images are drawn together, else it is one. Temperature 1. "
        "bf16 on a GPU.",
        versions("transformers"),
        options,
    )

    def run(name: str, cell: Cell) -> None:
        cell = cell._replace(side=4, layers=2, width=32) if options.tiny else cell
        models = Models(cell)
        off = models.largest_difference()
        if not off <= CLOSE:
            raise SystemExit(f"{name}: the systems disagree: a logit differs by {off}")
        greedy = torch.tensor(models.regard(method=GREEDY)), torch.tensor(models.hugging_face(sample=False))
        same = float((greedy[0] == greedy[1]).float().mean())
        columns = ["cell", "largest difference of a logit", "greedy pixels alike", "state of an image: cache", "linear attention"]
        kept = [f"{models.kept(kind) / 2**20:.2f} MiB" for kind in ("ours", "linear")]
        cells.tell("The same in float32, and what is kept", columns, [name, f"{off:.1e}", f"{same:.1%}", *kept])
        if CUDA:
            models.halve()
        called = systems(models, options.systems)
        seconds = alternate(called, options.rounds, warm_up=1)
        bars = {"regard / hugging face": {"floor": cell.floor, "goal": cell.goal}} if CUDA and len(called) > 1 else {}
        pairs_of = [("regard", other) for other in called if other != "regard"] if "regard" in called else []
        cells.add(row(name, "pixels/s", cell.batch * models.pixels, seconds, bars=bars, pairs=pairs_of))  # type: ignore[arg-type]

    cells.each({name: partial(run, name, cell) for name, cell in CELLS.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

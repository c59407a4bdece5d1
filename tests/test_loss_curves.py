"""Train eight toy recipes for 50 steps and compare every loss with `loss_curves.json`: a move of code must not move a curve.

The runs go through the command line and are read from `metrics.jsonl` alone, on one thread in fp32. Sizes, rates and data are
chosen so that rounding does not grow: with the kernels of torch, MKL and oneDNN held to other instruction sets, seven of the
eight curves stay within 3e-7 of the record over all 50 steps, far inside TOLERANCE. The captioner does not: its convolutions
have some hundred thousand ReLU inputs a step, a few within rounding of zero, and each that changes its side moves the gradient.
That was at most 3e-5 in three seeds, so its losses after step 10 have a tolerance of their own.

Dropout is off: torch draws its masks by another generator where MKL is missing. Running text is written here: the built-in
Python reference differs between versions of Python.

A change that is meant to change training records the curves again, and says so in its commit:
`python -m tests.test_loss_curves`, with the names of curves to record only those.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import cycle, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from tests.command import regard

STEPS = 50
TOLERANCE = 1e-5  # relative
EXACT_STEPS = 10  # to TOLERANCE in every curve
LATER = {"captions": 3e-4}  # relative, after EXACT_STEPS; 2.8e-5 was measured

STEPPED = [f"train.steps={STEPS}", "train.schedule=constant", "train.warmup=10", "train.learning_rate=1e-3"]
STEPPED += ["train.optimizer=adam", "train.weight_decay=0", "train.tokens_per_batch=256", "model.dropout=0"]
STEPPED += ["train.log_every=1", f"train.validate_every={STEPS}", f"train.checkpoint_every={STEPS}"]
BLOCKS = ["model.width=32", "model.heads=4", "model.layers=2", "model.feedforward=64"]
TEXTS = ["data.train={folder}/train.txt", "data.valid={folder}/valid.txt", "data.test="]
GREEDY = ["decode.beam=1"]
RECIPES: dict[str, list[str]] = {
    "translation": ["translate", *STEPPED, *BLOCKS, *GREEDY, "data.limit=500"],
    "gpt": ["gpt-characters-small", *STEPPED, *BLOCKS, *TEXTS, "model.maximum_length=64"],
    "bert": ["bert", *STEPPED, *BLOCKS, *TEXTS, "model.maximum_length=32", "train.optimizer=muon"],
    "electra": ["electra", *STEPPED, *BLOCKS, *TEXTS, "model.maximum_length=32", "model.generator_width=16"],
    "lstm": ["translate-luong", *STEPPED, *GREEDY, "model.width=32", "data.limit=500"],
    "han": ["classify-han", *STEPPED, "model.width=16", "data.limit=24", "train.learning_rate=1e-2"],
    "captions": ["caption-scenes", *STEPPED, *GREEDY, "model.width=32", "data.limit=200", "train.tokens_per_batch=64"],
    "word_vectors": ["skipgram", TEXTS[0], "text.minimum_count=1", "model.width=16", "train.epochs=8", "train.batch=16"],
}
RECIPES["captions"] += ["train.learning_rate=1e-4", "train.epsilon=1e-4"]  # as little as moves the loss: see above
RECIPES["word_vectors"] += ["train.learning_rate=0.5", "train.threads=1", "train.log_every=1"]  # 59 steps, by its epochs
"""Arguments of `regard train`, by the name of the curve; a later setting of a key wins."""

RECORD = Path(__file__).with_name("loss_curves.json")
WHO, DOES = ("Anna", "Peter", "Olga", "Tom", "Clara"), ("sees", "sells", "finds", "draws")
WHAT, WHERE = ("lamp", "boat", "map", "clock", "chair"), ("harbour", "village", "garden")


def write_texts(folder: Path) -> None:
    """Write train.txt and valid.txt: a hundred sentences, of which every tenth is for validation."""
    others = cycle(product(reversed(WHO), DOES, WHERE))
    lines = [f"{a} {v} the {t} in the {p} , and {b} {w} it .\n" for (a, v, t), (b, w, p) in zip(product(WHO, DOES, WHAT), others)]
    (folder / "train.txt").write_text("".join(line for n, line in enumerate(lines) if n % 10), "utf-8")
    (folder / "valid.txt").write_text("".join(lines[::10]), "utf-8")


def curve(name: str, folder: Path) -> dict[str, Any]:
    """Train one recipe in a folder; return its losses, and its validation loss where it has one, to nine digits."""
    write_texts(folder)
    result = regard("train", *(argument.format(folder=folder) for argument in RECIPES[name]), "--out", folder / name)
    assert result.code == 0, result.err
    records = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text("utf-8").splitlines()]
    losses = [float(f"{record['loss']:.9g}") for record in records if "loss" in record]
    validated = [float(f"{record['valid_nll']:.9g}") for record in records if "valid_nll" in record]
    return {"loss": losses[:STEPS], "valid_nll": validated}


def tolerance(name: str, step: int) -> float:
    """The relative tolerance of the loss of step 1, 2, ..., STEPS."""
    return TOLERANCE if step <= EXACT_STEPS else LATER.get(name, TOLERANCE)


@pytest.mark.parametrize("name", RECIPES)
def test_a_curve_is_as_recorded(name: str, tmp_path: Path) -> None:
    recorded, found = json.loads(RECORD.read_text("utf-8"))[name], curve(name, tmp_path)
    assert len(found["loss"]) == STEPS
    for step, (expected, loss) in enumerate(zip(recorded["loss"], found["loss"]), 1):
        assert loss == pytest.approx(expected, rel=tolerance(name, step)), f"{name}: the first other loss is that of step {step}"
    assert found["valid_nll"] == pytest.approx(recorded["valid_nll"], rel=tolerance(name, STEPS))


def test_every_curve_is_recorded_and_learns() -> None:
    """A curve that stays where it began would say little about optimizers and gradients."""
    recorded = json.loads(RECORD.read_text("utf-8"))
    assert recorded.keys() == RECIPES.keys()
    for name, values in recorded.items():
        assert len(values["loss"]) == STEPS
        assert sum(values["loss"][-5:]) < 0.9 * sum(values["loss"][:5]), name


def main(names: list[str]) -> None:
    """Record curves: those named, or all."""
    torch.set_num_threads(1)
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() and names else {}
    for name in names or RECIPES:
        with TemporaryDirectory() as folder:
            os.environ["REGARD_CACHE"] = folder
            recorded[name] = curve(name, Path(folder))
        print(f"{name}: {recorded[name]['loss'][0]:.4f} -> {recorded[name]['loss'][-1]:.4f}")
    lines = [f'"{name}": {json.dumps(recorded[name])}' for name in RECIPES]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

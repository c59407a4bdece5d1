"""Tiny bots, trained once on a few dialogues: what tests of dialogues share."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard.data.builtin import SPLITS, builtin_rows
from tests.command import regard

SMALL = ["model.width=16", "train.steps=4", "train.warmup=2", "train.validate_every=4", "train.checkpoint_every=4"]
SMALL += ["train.tokens_per_batch=512", "decode.search=greedy", "decode.maximum_length=6"]
OWN = {"chat-retrieval": ["model.heads=2", "model.layers=1", "model.feedforward=16"]}
_kept = TemporaryDirectory(prefix="regard-dialogues-")


@cache
def files() -> Path:
    """A folder with train.jsonl, valid.txt and test.txt."""
    torch.set_num_threads(1)
    folder = Path(_kept.name)
    dialogues = {split: builtin_rows("smalltalk", split) for split in SPLITS}
    (folder / "train.jsonl").write_text("".join(json.dumps({"turns": turns}) + "\n" for turns in dialogues["train"][:30]))
    for split, count in (("valid", 3), ("test", 4)):
        (folder / f"{split}.txt").write_text("".join(" __eou__ ".join(turns) + "\n" for turns in dialogues[split][:count]))
    return folder


def data() -> list[str]:
    return [f"data.train={files() / 'train.jsonl'}", f"data.valid={files() / 'valid.txt'}", f"data.test={files() / 'test.txt'}"]


@cache
def trained(recipe: str) -> Path:
    """A run of a few steps: to be read, not changed."""
    run = files() / recipe
    result = regard("train", recipe, *data(), *SMALL, *OWN.get(recipe, []), "--out", run, "--device", "cpu")
    assert result.code == 0, result.err
    assert "recall" in result.out
    return run

"""Small checkpoints that can be told apart, and the proof that one came back as it was saved."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.core.errors import UserError
from regard.training.checkpoint import Checkpoint, Store

FILES = ("MANIFEST.json", "state.json", "model.safetensors", "optimizer.safetensors")
State = tuple[int, float]  # step and value
BROKEN: State = (-1, 0.0)


def save(store: Store, step: int, value: float, kind: str = "step") -> Path:
    """Every tensor and the JSON hold the value, so parts of two saves that got mixed would show."""
    weights = torch.full((600,), value)
    tensors = {"model": {"w": weights, "tied": weights}, "optimizer": {"0.exp_avg": torch.arange(40.0) + value}}
    return store.save(kind, step, tensors, {"value": value, "step": step})


def state_of(checkpoint: Checkpoint) -> State:
    value = checkpoint.state["value"]
    assert checkpoint.state["step"] == checkpoint.step
    model = checkpoint.tensors("model")
    assert torch.equal(model["w"], torch.full((600,), value))
    assert torch.equal(model["tied"], model["w"])
    assert torch.equal(checkpoint.tensors("optimizer")["0.exp_avg"], torch.arange(40.0) + value)
    return checkpoint.step, value


def newest(folder: Path, kind: str = "step") -> tuple[State | None, list[str]]:
    """The newest state that passes for good, and what the store had to say about others; BROKEN if it is not as it was saved."""
    said: list[str] = []
    found = Store(folder, said.append).newest(kind)
    try:
        return (state_of(found) if found else None), said
    except (AssertionError, KeyError, UserError):
        return BROKEN, said

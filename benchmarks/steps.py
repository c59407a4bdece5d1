"""One training step of each system, on the same batches: ours by the loop's own stepper, theirs by a careful plain loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.loader import Loader, Source
from regard.objectives.base import Objective
from regard.training.compile import prepare_for_training
from regard.training.config import TrainConfig
from regard.training.optimizers import make_optimizer
from regard.training.step import Stepper

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
SETTINGS = TrainConfig(
    steps=10**6,
    optimizer="adamw",
    learning_rate=1e-4,
    warmup=0,
    schedule="constant",
    clip=1.0,
    precision="bf16" if CUDA else "fp32",
    compile=CUDA,
)


def ours(model: nn.Module, objective: Objective, source: Source, config: TrainConfig = SETTINGS) -> Callable[[], None]:
    model.train()
    prepare_for_training(model, config)
    loader = Loader(source, pin=CUDA)
    stepper = Stepper(model, objective, loader, make_optimizer(model, config), config, print)
    stream = zip(count(1), loader.start(0, config.steps))

    def step() -> None:
        number, work = next(stream)
        stepper(number, work, config.learning_rate)

    return step


def theirs(
    model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], batches: list[Any], compiled: bool, bf16: bool = CUDA
) -> Callable[[], None]:
    """Fused AdamW, clipping; nothing waits for the device. Their batches lie ready on it."""
    model.train()
    called: nn.Module = torch.compile(model) if compiled else model  # type: ignore[assignment]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    stream: Iterator[Any] = cycle(batches)

    def step() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=bf16):
            total = loss(called, next(stream))
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def times(step: Callable[[], None], count: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(count):
            step()

    return several


def must_agree(ours: Tensor, theirs: Tensor, tolerance: float = 1e-4) -> None:
    """Before any clock runs: the same loss of the same batch."""
    difference = abs(ours.item() - theirs.item()) / abs(theirs.item())
    if not difference <= tolerance:
        raise SystemExit(f"the systems disagree: loss {ours.item()} against {theirs.item()}")

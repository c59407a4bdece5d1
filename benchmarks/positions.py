"""Positions and length: a small GPT trained on windows of 128 bytes with each scheme, then read on windows of 512.

Text is this repository's own documents, byte by byte; every eighth file is held out. Loss is by where in a window a byte stands:
within the length that was trained, and two, three and four times as far. Learned positions have no vector beyond it, so their
table has 512 rows of which 128 are trained.

    python -m benchmarks.positions          all schemes, 600 steps each: some minutes on a CPU
    python -m benchmarks.positions 50       fewer steps, to try
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import write
from regard.families.gpt import GPT, GPTConfig
from regard.model.position import PositionKind

TRAINED, READ, BATCH, STEPS = 128, 512, 16, 600
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DOCUMENTS = Path(__file__).parents[1]


def texts() -> tuple[Tensor, Tensor]:
    """Return the bytes to train on, and those held out."""
    files = sorted(path for pattern in ("*.md", "docs/**/*.md") for path in DOCUMENTS.glob(pattern))
    parts = [torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8) for path in files]
    held = [part for n, part in enumerate(parts) if n % 8 == 0]
    return torch.cat([part for n, part in enumerate(parts) if n % 8]), torch.cat(held)


def windows(text: Tensor, length: int, count: int, seed: int) -> Tensor:
    """Return ids_BL of random windows, one byte longer than `length`."""
    start_B = torch.randint(0, len(text) - length, (count,), generator=torch.Generator().manual_seed(seed))
    return text[start_B[:, None] + torch.arange(length + 1)].long().to(DEVICE)


def train(position: str, text: Tensor, steps: int) -> GPT:
    config = GPTConfig(
        width=128,
        heads=4,
        feedforward=512,
        layers=4,
        dropout=0.0,
        position=position,
        maximum_length=READ,  # type: ignore[arg-type]
    )
    model = GPT(config, 256).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for step in range(steps):
        ids_BL = windows(text, TRAINED, BATCH, step)
        loss = F.cross_entropy(model(ids_BL[:, :-1]).flatten(0, 1), ids_BL[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def loss_by_place(model: GPT, text: Tensor) -> list[float]:
    """Return nats a byte in each quarter of windows of 512."""
    found = torch.zeros(READ, device=DEVICE)
    for part in windows(text, READ, 64, seed=1).split(8):
        logits = model(part[:, :-1])
        found += F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none").view(len(part), READ).sum(0) / 64
    return found.view(-1, TRAINED).mean(1).tolist()


def main(steps: int = STEPS) -> None:
    trained, held = texts()
    lines = []
    for position in get_args(PositionKind):
        began = time.perf_counter()
        quarters = loss_by_place(train(position, trained, steps), held)
        lines.append([position, *(f"{loss:.3f}" for loss in quarters), f"{time.perf_counter() - began:.0f} s"])
        print("  ".join(f"{cell:>14}" for cell in lines[-1]))
    columns = ["position", "0-127", "128-255", "256-383", "384-511", "time"]
    write(
        "positions",
        title="Positions: trained on 128 bytes, read on 512",
        setting=f"GPT of 4 layers and width 128, {steps} steps of {BATCH} windows; nats a byte on held-out documents, by place.",
        rows=[],
        versions={},
        tables=[{"title": "Loss by place in the window", "columns": columns, "rows": lines}],
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

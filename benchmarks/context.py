"""Context beyond the window: a window, a sliding window, a segment memory and linear attention, at as many bytes a step.

Text is this repository's own documents, byte by byte; every eighth file is held out. All four are one decoder with rotary
positions that differs by keys alone, and each step trains on as many bytes; seconds a step are measured, since cost is not quite
equal:

    window            each window of 64 is read by itself
    sliding window    each byte sees the 63 before it, in rows of 512; through 4 layers it is reached by four times as many
    memory            segments of 32 with the 32 before each, in streams (Dai et al. 2019); reached as far, at half of the window
    linear            attention by ReLU features, over rows of 512

Held-out texts of 512 bytes are read once: loss by place, and the loss of the last 64 bytes when only the last c bytes before and
with them are shown. The effective context is the smallest c from which on more text gains less than 1% (as in their section 4.3).

    python -m benchmarks.context          600 steps each: some minutes on a CPU
    python -m benchmarks.context 50       fewer steps, to try
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import write
from benchmarks.positions import DEVICE, texts, windows
from regard.core.packing import Segment
from regard.data.batching.streams import Streams
from regard.families.gpt import GPT, GPTConfig

BYTES, READ, WINDOW, STEPS, ASKED = 2048, 512, 64, 600, 64
BODY = dict(width=128, heads=4, feedforward=512, layers=4, dropout=0.0, position="rotary")
MODELS: dict[str, tuple[int, dict[str, Any]]] = {  # bytes of a row in training, and the keys in which they differ
    "window": (WINDOW, dict(maximum_length=WINDOW)),
    "sliding window": (READ, dict(visibility=f"window({WINDOW - 1})", maximum_length=READ)),
    "memory": (WINDOW // 2, dict(memory=WINDOW // 2, maximum_length=WINDOW // 2)),
    "linear": (READ, dict(mixer="linear-relu", maximum_length=READ)),
}
SHOWN = (64, 80, 96, 128, 192, 256, 384, 512)


def train(row: int, keys: dict[str, Any], text: Tensor, steps: int) -> tuple[GPT, float]:
    """Return the model and the seconds of a step."""
    model = GPT(GPTConfig(**BODY, **keys), 256).to(DEVICE)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    streams, memory, began = Streams(text.numpy(), row, BYTES, seed=1), model.segment_memory, time.perf_counter()
    for step in range(steps):
        documents = None
        if memory is None:
            ids_BL, next_BL = (part[:, cut] for part in [windows(text, row, BYTES // row, step)] for cut in CUTS)
        else:
            epoch, index = divmod(step, streams.segments)
            batch = streams.batch(streams.plan(epoch)[index], epoch).to(DEVICE)
            ids_BL, next_BL, documents = batch.ids_BL, batch.next_BL, batch.documents
            assert isinstance(documents, Segment)
        loss = F.cross_entropy(model(ids_BL, documents).flatten(0, 1), next_BL.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if memory is not None:
            memory.commit()
    return model.eval(), (time.perf_counter() - began) / steps


CUTS = (slice(None, -1), slice(1, None))


@torch.no_grad()
def losses(model: GPT, name: str, read_BL: Tensor) -> Tensor:
    """Return nats_BL of the bytes of texts, the first aside, each text read as the model was trained to."""
    found = []
    for part in read_BL.split(8):
        ids, aims = part[:, :-1], part[:, 1:]
        pieces = zip(ids.split(WINDOW, 1), aims.split(WINDOW, 1)) if name == "window" else [(ids, aims)]
        scores = [F.cross_entropy(model(own).mT, next_, reduction="none") for own, next_ in pieces]
        found.append(torch.cat(scores, 1))
    return torch.cat(found)


def effective(shown: list[float]) -> int:
    """Return the least number of bytes from which on more of them gain less than 1%."""
    best = min(shown)
    return next(length for length, loss in zip(SHOWN, shown) if loss <= 1.01 * best)


def main(steps: int = STEPS) -> None:
    trained, held = texts()
    read_BL = windows(held, READ, 64, seed=1)
    places, asked = [], []
    for name, (row, keys) in MODELS.items():
        model, seconds = train(row, keys, trained, steps)
        by_place = losses(model, name, read_BL).view(len(read_BL), -1, WINDOW).mean((0, 2)).tolist()
        shown = [losses(model, name, read_BL[:, -length - 1 :])[:, -ASKED:].mean().item() for length in SHOWN]
        places.append([name, *(f"{loss:.3f}" for loss in by_place), f"{1e3 * seconds:.0f} ms"])
        asked.append([name, *(f"{loss:.3f}" for loss in shown), f"{effective(shown)}"])
        print(*(f"{cell:>14}" for cell in places[-1]), "\n", *(f"{cell:>14}" for cell in asked[-1]))
    ranges = [f"{begin}-{begin + WINDOW - 1}" for begin in range(0, READ, WINDOW)]
    write(
        "context",
        title="Context beyond the window",
        setting=f"A decoder of 4 layers and width 128, {steps} steps of {BYTES:,} bytes; nats a byte of held-out documents.",
        rows=[],
        versions={},
        tables=[
            {"title": "Loss by place in the text", "columns": ["model", *ranges, "a step"], "rows": places},
            {
                "title": "Loss of the last 64 bytes, when this many are shown",
                "columns": ["model", *map(str, SHOWN), "effective"],
                "rows": asked,
            },
        ],
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

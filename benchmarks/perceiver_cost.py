"""The cost of a Perceiver as its input grows: time and memory of a training step, beside full self-attention over the input.

    python -m benchmarks.perceiver_cost

Jaegle et al. 2021, section 3.1: N latents that read M inputs cost N M, and layers between latents N^2 each, whatever M is. Both
models are whole: tokens embedded, read, and a class asked, forward and backward; the one with self-attention has as many layers
over all tokens. Time and memory are fitted as M to some power over the longest lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.cost_growth import curves, exponent
from benchmarks.measure import Row, Table, alternate, peak_bytes, row, write
from regard.families.base import Heads
from regard.families.encoder import Encoder, EncoderConfig
from regard.families.perceiver import Perceiver, PerceiverConfig

VOCABULARY, CLASSES = 262, 10
BAR = 1.1  # of the exponents of the Perceiver


class Scale(NamedTuple):
    """How large the two models are, and what they read."""

    lengths: tuple[int, ...]
    batch: int
    width: int
    latents: int
    layers: int
    heads: int
    rounds: int


CPU = Scale(tuple(2**n for n in range(9, 14)), 1, 128, 64, 2, 4, 5)
CUDA = Scale(tuple(2**n for n in range(12, 17)), 4, 512, 256, 6, 8, 7)


def models(scale: Scale, device: torch.device) -> dict[str, nn.Module]:
    """Build both, in training."""
    longest, heads = max(scale.lengths), Heads(words=False, classes=CLASSES)
    perceiver = PerceiverConfig(
        reads="text",
        positions="learned",
        width=scale.width,
        latents=scale.latents,
        layers=scale.layers,
        heads=scale.heads,
        input_width=scale.width,
        maximum_length=longest,
    )
    encoder = EncoderConfig(
        width=scale.width, layers=scale.layers, heads=scale.heads, feedforward=scale.width, dropout=0.0, pooling="mean"
    )
    found = {
        "perceiver": Perceiver(perceiver, VOCABULARY, heads=heads),
        "self-attention": Encoder(encoder, VOCABULARY, heads=Heads(words=False, pooler=True)),
    }
    return {name: model.to(device).train() for name, model in found.items()}


def steps(built: dict[str, nn.Module], batch: int, length: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """Return a training step of each model, the optimizer's part aside."""
    ids_BL, lengths_B = torch.randint(VOCABULARY, (batch, length), device=device), torch.full((batch,), length, device=device)
    classes_B = torch.zeros(batch, dtype=torch.long, device=device)

    def step(model: nn.Module) -> Callable[[], object]:
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]

        def run() -> tuple[Tensor, ...]:
            with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
                found = model.outputs(ids_BL, lengths_B)  # type: ignore[operator]
                logits_BC = found["classes"] if "classes" in found else found["pooler"][:, :CLASSES]
                loss = F.cross_entropy(logits_BC.float(), classes_B)
            return torch.autograd.grad(loss, learned, allow_unused=True)

        return run

    return {name: step(model) for name, model in built.items()}


def measured(scale: Scale, device: torch.device) -> list[Row]:
    """Return a row for each length, with the peak of memory."""
    rows, built = [], models(scale, device)
    for length in scale.lengths:
        runs = steps(built, scale.batch, length, device)
        seconds = alternate(runs, scale.rounds, warm_up=1)
        peaks = {name: peak_bytes(run) for name, run in runs.items()}
        rows.append(row(f"{length:,}", "tokens/s", scale.batch * length, seconds, peaks=peaks))
        print(f"{length:,}: " + ", ".join(f"{name} {min(each):.2g} s" for name, each in seconds.items()), flush=True)
    return rows


def quantities(rows: list[Row], scale: Scale) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds and megabytes of both models, by length."""
    names = list(rows[0]["systems"])
    tokens = [scale.batch * length for length in scale.lengths]
    time = {name: [1000 * n / each["systems"][name]["median"] for n, each in zip(tokens, rows)] for name in names}
    memory = {name: [each["systems"][name]["peak_bytes"] / 1e6 for each in rows] for name in names}
    return {"time": time, "memory": memory}


def growth(found: dict[str, dict[str, list[float]]], scale: Scale) -> Table:
    """Return the exponents as a table, with the bar of the Perceiver."""
    rows = [
        [name, *(f"M^{exponent(scale.lengths, found[kind][name]):.2f}" for kind in ("time", "memory")), bar]
        for name, bar in (("perceiver", f"at most M^{BAR}"), ("self-attention", ""))
    ]
    title = f"Growth with the input, fitted over {scale.lengths[-3]:,} to {scale.lengths[-1]:,} tokens"
    return {"title": title, "columns": ["model", "time", "memory", "bar"], "rows": rows}


def main() -> None:
    torch.manual_seed(0)
    cuda = torch.cuda.is_available()
    scale, device = (CUDA, torch.device("cuda")) if cuda else (CPU, torch.device("cpu"))
    rows = measured(scale, device)
    found = quantities(rows, scale)
    setting = (
        f"{scale.batch} × M tokens, width {scale.width}, {scale.layers} layers of {scale.heads} heads, {scale.latents} latents, "
        f"{'bf16' if cuda else 'float32'}, forward and backward."
    )
    drawn = [curves(f"{kind} of a step", unit, found[kind], scale.lengths) for kind, unit in (("time", "ms"), ("memory", "MB"))]
    table = growth(found, scale)
    path = write(
        "perceiver_cost",
        title="Perceiver: cost against length",
        setting=setting,
        rows=rows,
        versions={},
        tables=[table],
        curves=drawn,
    )
    print("\n".join(" | ".join(cells) for cells in [table["columns"], *table["rows"]]))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()

"""What the probe costs: switched off, against a model whose attention calls the kernel directly; switched on, against off.

python -m benchmarks.probe_cost
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import alternate, summary, write
from regard.families.transformer import Transformer, TransformerConfig
from regard.model import attention
from regard.model.block import BlockConfig
from regard.model.mixers import Mixer
from regard.model.probe import Probe, probe
from regard.model.stack import Stack
from regard.model.visibility import View, full


def bare(
    _: Probe | None, name: str, mixer: Mixer, q: Tensor, k: Tensor, v: Tensor, view: View, bias: None, dropout: float
) -> Tensor:
    """The seam without a probe in it."""
    return mixer.mix(q, k, v, view, dropout)


@contextmanager
def without_seam() -> Iterator[None]:
    kept, attention.attend = attention.attend, bare
    try:
        yield
    finally:
        attention.attend = kept


@torch.no_grad()
def time_costs(rounds: int) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Transformer(TransformerConfig(width=256, heads=4, feedforward=1024, layers=3), 8000, 8000).to(device).eval()
    source, target = (torch.randint(4, 8000, (8, 24), device=device) for _ in range(2))
    lengths = torch.full((8,), 24, device=device)

    def off() -> Tensor:
        return model(source, lengths, target)

    def direct() -> Tensor:
        with without_seam():
            return off()

    def on() -> Tensor:
        with probe(model):
            return off()

    assert torch.equal(off(), direct())
    assert torch.equal(off(), on())
    seconds = alternate({"off": off, "direct": direct, "on": on}, rounds)
    pairs = zip(seconds["off"], seconds["direct"])
    return {
        "rounds": rounds,
        "seconds": {name: summary(values) for name, values in seconds.items()},
        "off_over_direct": statistics.median(a / b for a, b in pairs),
        "on_over_off": statistics.median(a / b for a, b in zip(seconds["on"], seconds["off"])),
    }


@torch.no_grad()
def memory_cost() -> dict[str, Any]:
    """Bytes kept by the probe for 4,096 tokens, 6 layers, 8 heads, width 512."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    stack = Stack(BlockConfig(width=512, heads=8, dropout=0.0), 6, "encoder").to(device).eval()
    x = torch.randn(1, 4096, 512, device=device)
    with probe(stack) as seen:
        stack(x, full.over(4096, 4096, device=device))
    kept = [t.untyped_storage() for name in seen for t in (seen[name].q_BHLK, seen[name].k_BHMK, seen[name].v_BHMK)]
    total = sum({storage.data_ptr(): storage.nbytes() for storage in kept}.values())
    return {"tokens": 4096, "layers": 6, "heads": 8, "bytes_kept": total, "bytes_of_all_weights": 6 * 8 * 4096 * 4096 * 4}


if __name__ == "__main__":
    results = {"time": time_costs(rounds=200), "memory": memory_cost()}
    path = write("probe_cost", results)
    time, memory = results["time"], results["memory"]
    print(f"probe off / kernel called directly   {time['off_over_direct']:.4f}")
    print(f"probe on / probe off                 {time['on_over_off']:.4f}")
    kept, whole = memory["bytes_kept"] / 1e6, memory["bytes_of_all_weights"] / 1e6
    print(f"kept for 4,096 tokens, 6 x 8 heads   {kept:.0f} MB (all weights would be {whole:,.0f} MB)")
    print(f"written to {path.name}")

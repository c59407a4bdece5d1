"""GPT-2 (124M) training at 1,024 tokens: ours against Hugging Face's, eager and compiled, on the same weights and batches."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, row, versions, write
from benchmarks.peers.gpt2 import gpt2
from benchmarks.steps import CUDA, DEVICE, must_agree, ours, theirs
from regard.data.batching.windows import Windows
from regard.families.base import Sizes
from regard.families.gpt import FAMILY, GPT, GPTConfig
from regard.objectives.causal_lm import CausalLMConfig, CausalLMLoss

VOCABULARY, LENGTH, WINDOWS = 50_257, 1024, 64 if CUDA else 1
PEAK = {"NVIDIA H200": 989e12, "NVIDIA H100 80GB HBM3": 989e12, "NVIDIA A100-SXM4-80GB": 312e12}  # dense bf16, by the vendor


def loss(model: nn.Module, ids_BL: Tensor) -> Tensor:
    inputs, aims = ids_BL[:, :-1].contiguous(), ids_BL[:, 1:].contiguous()
    return model(input_ids=inputs, labels=inputs, shift_labels=aims, use_cache=False).loss


def main(rounds: int = 10) -> None:
    model = GPT(GPTConfig(dropout=0.0, maximum_length=LENGTH), VOCABULARY).to(DEVICE)
    text = np.random.default_rng(1).integers(0, VOCABULARY, (8 * WINDOWS + 1) * LENGTH + 1)
    source, objective = Windows(text, LENGTH, WINDOWS * LENGTH, seed=1), CausalLMLoss(CausalLMConfig())
    peer, eager = gpt2(model), gpt2(model)
    plan = source.plan(0)
    drawn = [source.batch(rows, 0) for rows in plan]
    batches = [torch.cat([batch.ids_BL, batch.next_BL[:, -1:]], 1).to(DEVICE) for batch in drawn]
    few = source.batch(plan[0][:2], 0).to(DEVICE)
    with torch.no_grad():
        must_agree(objective(copy.deepcopy(model), few).total / few.tokens, loss(peer, batches[0][:2]))
    seconds = alternate(
        {
            "regard": ours(model, objective, source),
            "hugging face, compiled": theirs(peer, loss, batches, compiled=True),
            "hugging face": theirs(eager, loss, batches, compiled=False),
        },
        rounds,
        warm_up=4,
    )
    tokens = WINDOWS * LENGTH
    bars = {"regard / hugging face, compiled": {"floor": 1.35, "goal": 1.65}}
    found: list[Row] = [row("64 texts of 1,024 tokens", "tokens/s", tokens, seconds, bars=bars)]
    print(mfu_lines(found[0]))
    write(
        "train_lm",
        title="Training GPT-2 (124M)",
        setting="Random weights and text, no dropout, bf16 autocast on a GPU, fused AdamW, clipping at 1.",
        rows=found,
        versions=versions("transformers"),
        tables=[{"title": "Model FLOP utilisation", "columns": ["system", "MFU"], "rows": mfu_lines(found[0])}] if CUDA else [],
    )


def mfu_lines(found: Row) -> list[list[str]]:
    """As nanoGPT counts: six operations a parameter and token, attention not halved for causality."""
    peak = PEAK.get(torch.cuda.get_device_name()) if CUDA else None
    if peak is None:
        return []
    flops = 3 * FAMILY.count(GPTConfig(maximum_length=LENGTH), Sizes(vocabulary=VOCABULARY), LENGTH).flops / LENGTH
    return [[name, f"{speed['median'] * flops / peak:.1%}"] for name, speed in found["systems"].items()]


if __name__ == "__main__":
    main()

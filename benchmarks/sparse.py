"""Sparse attention against dense attention and against BigBird of transformers: time as texts grow, and memory.

    python -m benchmarks.sparse

Attention alone is measured from queries, keys and values to the context, in rows of as many tokens at every length. Before any
clock runs, kernels must give the answer of the dense mask, and our model that of transformers with the same weights: where it
answers, without chance (`bigbird_fixed`); what is timed is training, where both pick blocks at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

from benchmarks.attention import SOFTMAX, agree, as_trained, passes
from benchmarks.measure import Bar, Curves, Row, Table, alternate, peak_bytes, row, versions, write
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.interop.huggingface import read_public
from regard.model.attention import attend
from regard.model.visibility.parse import parse_visibility

BIGBIRD, WINDOW, FIXED = "bigbird(64)", "window(192)", "bigbird_fixed(64, 3)"
BOTH = "forward + backward"
HEAD_WIDTH = 64


@dataclass(frozen=True)
class Scale:
    device: torch.device
    dtype: torch.dtype
    heads: int
    rows: int  # of the longest text
    lengths: tuple[int, ...]
    checked: int  # the longest that a dense mask is laid over
    bars: dict[int, Bar]  # of bigbird against dense, by length
    model: tuple[int, int, int]  # layers, width, tokens of the whole model beside that of transformers
    peer: Bar
    long: int  # tokens of the text whose memory is measured, in 4 layers of width 256
    tolerance: float
    rounds: int


CPU = Scale(
    device=torch.device("cpu"),
    dtype=torch.float32,
    heads=4,
    rows=1,
    lengths=(1024, 2048, 4096, 8192),
    checked=4096,
    bars={4096: {"floor": 2.0, "goal": 5.0}},
    model=(2, 256, 4096),
    peer={"floor": 1.5, "goal": 3.0},
    long=16_384,
    tolerance=1e-4,
    rounds=5,
)
CUDA = Scale(
    device=torch.device("cuda"),
    dtype=torch.bfloat16,
    heads=8,
    rows=2,
    lengths=(4096, 8192, 16_384, 32_768, 65_536),
    checked=8192,
    bars={4096: {"floor": 1.5, "goal": 4.0}, 16_384: {"floor": 5.0, "goal": 15.0}, 65_536: {"floor": 18.0, "goal": 40.0}},
    model=(4, 768, 4096),
    peer={"floor": 3.0, "goal": 10.0},
    long=65_536,
    tolerance=3e-2,
    rounds=10,
)


def heads_of(scale: Scale, batch: int, length: int) -> list[Tensor]:
    shape = (batch, scale.heads, length, HEAD_WIDTH)
    return [torch.randn(shape, device=scale.device, dtype=scale.dtype, requires_grad=True) for _ in range(3)]


def seen(visibility: str, scale: Scale, batch: int, length: int, q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    """By our seam, which chooses the kernel."""
    view = parse_visibility(visibility).over(length, length, batch=batch, device=scale.device)
    if length <= scale.checked:  # by the kernels that will be timed, gradients and all: FlexAttention compiles others without
        agree([attend(None, "", SOFTMAX, q, k, v, each, None, 0.0).detach() for each in (view.rendered(), view)], scale.tolerance)
    return partial(attend, None, "", SOFTMAX, q, k, v, view, None, 0.0)


def grown(scale: Scale, known: Callable[[list[Row]], None]) -> list[Row]:
    """A row for every length, told when it is known; each holds as many tokens."""
    found = list[Row]()
    for length in scale.lengths:
        batch = scale.rows * scale.lengths[-1] // length
        q, k, v = inputs = heads_of(scale, batch, length)
        outputs: dict[str, Callable[[], Tensor]] = {
            "bigbird": seen(BIGBIRD, scale, batch, length, q, k, v),
            "window": seen(WINDOW, scale, batch, length, q, k, v),
            "dense": partial(F.scaled_dot_product_attention, q, k, v),
        }
        runs = {name: passes(output, inputs)[BOTH] for name, output in outputs.items()}
        seconds = alternate(runs, scale.rounds, warm_up=2)
        bars = {"bigbird / dense": scale.bars[length]} if length in scale.bars else {}
        peaks = {name: peak_bytes(run) for name, run in runs.items()}
        pairs = [("bigbird", "dense"), ("window", "dense")]
        found.append(row(f"{length:,}, {BOTH}", "tokens/s", batch * length, seconds, pairs=pairs, bars=bars, peaks=peaks))
        print(f"{length:,}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found[-1]["ratios"].items()), flush=True)
        known(found)
    return found


def exponent(lengths: Sequence[int], rows: Sequence[Row], system: str) -> float:
    """p of seconds a text = c length^p, by least squares on logarithms of all lengths."""
    seconds = [n / each["systems"][system]["median"] for n, each in zip(lengths, rows)]
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def growth(scale: Scale, rows: Sequence[Row]) -> Table:
    systems = {"bigbird": BIGBIRD, "window": WINDOW, "dense": "full"}
    shares = {name: _share(text, scale) for name, text in systems.items()}
    cells = [[name, systems[name], shares[name], f"n^{exponent(scale.lengths, rows, name):.2f}"] for name in systems]
    title = f"Time of {BOTH} as texts grow from {scale.lengths[0]:,} to {scale.lengths[-1]:,} tokens (bar: n^1.10)"
    return {"title": title, "columns": ["", "visibility", f"pairs at {scale.lengths[-1]:,}", "time"], "rows": cells}


def _share(visibility: str, scale: Scale) -> str:
    view = parse_visibility(visibility).over(scale.lengths[-1], scale.lengths[-1], device=torch.device("cpu"))
    return "100%" if view.blocks is None else f"{view.blocks.some_BQN.float().mean():.1%}"


def curves(scale: Scale, rows: Sequence[Row]) -> Curves:
    lines: dict[str, Any] = {
        f"{name}, n^{exponent(scale.lengths, rows, name):.2f}": {
            "x": [float(n) for n in scale.lengths],
            "y": [1000 * n / each["systems"][name]["median"] for n, each in zip(scale.lengths, rows)],
        }
        for name in ("bigbird", "window", "dense")
    }
    return {"title": f"Attention alone, {BOTH}", "x": "length n", "y": "ms a text", "lines": lines}


def models(scale: Scale) -> tuple[BERT, BERT, Any]:
    """Ours as it trains and as transformers answers, and theirs; of the same weights."""
    layers, width, tokens = scale.model
    keys: dict[str, Any] = dict(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // HEAD_WIDTH, intermediate_size=4 * width
    )
    keys |= dict(max_position_embeddings=tokens, vocab_size=1000, block_size=64, num_random_blocks=3)
    keys |= dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    theirs = transformers.BigBirdForMaskedLM(transformers.BigBirdConfig(**keys))
    with TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        public = read_public(Path(folder))
    assert isinstance(public.config, BERTConfig)
    assert public.config.visibility == FIXED
    ours = []
    for visibility in (BIGBIRD, FIXED):
        config = BERTConfig(**{**vars(public.config), "visibility": visibility})
        ours.append(BERT(config, public.vocabulary, heads=Heads(pooler=public.heads.pooler)))
        ours[-1].load_state_dict(public.weights)
    trained, fixed = (model.to(scale.device) for model in ours)
    return trained, fixed, theirs.to(device=scale.device)  # type: ignore[call-arg]


def beside_transformers(scale: Scale) -> Row:
    trained, fixed, theirs = models(scale)
    tokens = scale.model[2]
    ids_BL, lengths_B = torch.randint(4, 1000, (1, tokens), device=scale.device), torch.tensor([tokens], device=scale.device)
    autocast = partial(torch.autocast, scale.device.type, torch.bfloat16, enabled=scale.dtype == torch.bfloat16)
    with torch.no_grad(), autocast():
        found = theirs.eval().bert(input_ids=ids_BL)[0], fixed.eval().hidden(ids_BL, lengths_B)
        agree([answer.float() for answer in found], 3 * scale.tolerance)
    theirs.train()
    trained.train()

    def step(answer: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            with autocast():
                found = answer()
            found.float().square().mean().backward()

        return run

    systems = {
        "regard": step(lambda: trained.hidden(ids_BL, lengths_B)),
        "transformers": step(lambda: theirs.bert(input_ids=ids_BL)[0]),
    }
    peaks = {name: peak_bytes(run) for name, run in systems.items()}
    systems |= as_trained(scale.device, {"regard": systems["regard"]})  # theirs draws its blocks on the host
    seconds = alternate(systems, scale.rounds, warm_up=2)
    layers, width, _ = scale.model
    case = f"BigBird, {layers} layers x {width}, {tokens:,} tokens, {BOTH}"
    found = row(case, "tokens/s", tokens, seconds, bars={"regard / transformers": scale.peer}, peaks=peaks)
    print(f"{case}: {found['ratios']}", flush=True)
    return found


def attention_beside_transformers(scale: Scale) -> Row:
    """From queries, keys and values to the context, as theirs trains; compared as it answers."""
    tokens, heads = scale.model[2], scale.heads
    config = transformers.BigBirdConfig(hidden_size=heads * HEAD_WIDTH, num_attention_heads=heads, max_position_embeddings=tokens)
    block, random = config.block_size, config.num_random_blocks
    theirs = BigBirdBlockSparseAttention(config, seed=0)
    masks = transformers.BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, tokens, device=scale.device), block)
    blocked, band, queries, keys = (mask.to(scale.dtype) for mask in masks)
    q, k, v = inputs = heads_of(scale, 1, tokens)

    def their_context() -> Tensor:
        shape = (heads, random, HEAD_WIDTH, block, block, 1, tokens, tokens)
        found, _ = theirs.bigbird_block_sparse_attention(q, k, v, band, queries, keys, blocked, blocked, *shape, 0, None, None)
        return found.transpose(1, 2)

    theirs.eval()
    with torch.no_grad():
        agree([their_context(), seen(FIXED, scale, 1, tokens, q, k, v)()], scale.tolerance)
    theirs.train()
    systems = {"regard": seen(BIGBIRD, scale, 1, tokens, q, k, v), "transformers": their_context}
    runs = {name: passes(output, inputs)[BOTH] for name, output in systems.items()}
    peaks = {name: peak_bytes(run) for name, run in runs.items()}
    case = f"BigBird's attention alone, {tokens:,} tokens, {BOTH}"
    found = row(case, "tokens/s", tokens, alternate(runs, scale.rounds, warm_up=2), peaks=peaks)
    print(f"{case}: {found['ratios']}", flush=True)
    return found


def memory(scale: Scale) -> Table:
    """Of one training step of a model of 4 layers x 256, beside what weights of all pairs would take."""
    config = BERTConfig(
        layers=4, width=256, heads=4, feedforward=1024, maximum_length=scale.long, visibility=BIGBIRD, dropout=0.0
    )
    model = BERT(config, 1000, heads=Heads(words=False)).to(scale.device).train()
    ids_BL = torch.randint(4, 1000, (1, scale.long), device=scale.device)
    lengths_B = torch.tensor([scale.long], device=scale.device)

    def step() -> None:
        with torch.autocast(scale.device.type, torch.bfloat16, enabled=scale.dtype == torch.bfloat16):
            found = model.hidden(ids_BL, lengths_B)
        found.float().square().mean().backward()

    step()
    peak, squares = peak_bytes(step), config.layers * config.heads * scale.long**2 * torch.tensor([], dtype=scale.dtype).itemsize
    cells = [["bigbird(64)", f"{peak / 1e9:.2f} GB"], ["weights of all pairs, kept by every layer", f"{squares / 1e9:.0f} GB"]]
    print(f"peak at {scale.long:,} tokens: {peak / 1e9:.2f} GB of {squares / 1e9:.0f}", flush=True)
    title = f"Memory of a training step: 4 layers x 256, one text of {scale.long:,} tokens"
    return {"title": title, "columns": ["", "most held at once"], "rows": cells}


def main() -> None:
    """Each part is recorded when it is known."""
    torch.manual_seed(0)
    transformers.utils.logging.set_verbosity_error()
    scale = CUDA if torch.cuda.is_available() else CPU
    rows = grown(scale, lambda found: record(scale, found, [], []))
    tables, drawn = [growth(scale, rows)], [curves(scale, rows)]
    for name, _, _, found in tables[0]["rows"]:
        print(f"{name}: {found}", flush=True)
    tables.append(memory(scale))
    for part in (attention_beside_transformers, beside_transformers):
        record(scale, rows, tables, drawn)
        rows.append(part(scale))
    record(scale, rows, tables, drawn)


def record(scale: Scale, rows: Sequence[Row], tables: Sequence[Table], drawn: Sequence[Curves]) -> None:
    kind = str(scale.dtype).removeprefix("torch.")
    setting = (
        f"{scale.heads} heads of {HEAD_WIDTH}, {kind}; {BIGBIRD}: a window of 3 blocks of 64 tokens, 2 global and 3 random ones; "
        "dense: `scaled_dot_product_attention` without a mask. Answers compared first. Whole models: no dropout, same weights"
        f"{', ours recorded as one launch, as it trains' if scale.device.type == 'cuda' else ''}."
    )
    write(
        "sparse",
        title="Sparse attention",
        setting=setting,
        rows=rows,
        versions=versions("transformers"),
        tables=tables,
        curves=drawn,
    )


if __name__ == "__main__":
    main()

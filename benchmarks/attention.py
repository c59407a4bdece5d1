"""Our attention seam against the kernel it calls, the explicit form, and nn.MultiheadAttention, for every kind of view.

    python -m benchmarks.attention

Each case holds the same number of tokens, in fewer rows the longer they are. Before any clock runs, all must give the same
answer. On a GPU also what a sliding window is worth where blocks that nobody sees are skipped (FlexAttention, compiled).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from benchmarks.measure import Row, Table, alternate, row, write
from regard.model.attention import Attention, attend
from regard.model.kernels.cuda_graph import CudaRecorder
from regard.model.mixers.softmax import Softmax
from regard.model.visibility import View, Visibility, causal, full, padding, window

SOFTMAX = Softmax()
HEAD_WIDTH = 64
RADIUS = 64
SLIDING = 1023  # of the sliding window: each query sees 1,024 keys
PAIRS = [("regard", "sdpa"), ("regard", "explicit"), ("regard layer", "nn.MultiheadAttention")]


@dataclass(frozen=True)
class Scale:
    device: torch.device
    dtype: torch.dtype
    heads: int
    tokens: int
    lengths: tuple[int, ...]
    dense_up_to: int  # longer than this, no dense mask is laid over the case
    explicit_up_to: int  # longer than this, systems that may hold all scores are left out
    tolerance: float
    rounds: int

    @property
    def width(self) -> int:
        return self.heads * HEAD_WIDTH

    @property
    def precision(self) -> str:
        return str(self.dtype).removeprefix("torch.")


CPU = Scale(torch.device("cpu"), torch.float32, 4, 4096, (128, 512, 2048, 4096), 4096, 4096, 1e-4, 5)
CUDA = Scale(torch.device("cuda"), torch.bfloat16, 16, 65_536, (1024, 4096, 16_384, 65_536), 16_384, 4096, 3e-2, 10)

Output = Callable[[], Tensor]
Run = Callable[[], object]
Trial = tuple[Output, Sequence[Tensor]]  # how an answer is made, and of what: gradients are taken by these


def passes(output: Output, inputs: Sequence[Tensor]) -> dict[str, Run]:
    """The two ways a layer is paid for."""

    @torch.no_grad()
    def forward() -> Tensor:
        return output()

    def both() -> object:
        answer = output()
        return torch.autograd.grad(answer, inputs, torch.ones_like(answer))

    return {"forward": forward, "forward + backward": both}


def as_trained(device: torch.device, runs: Mapping[str, Run]) -> dict[str, Run]:
    """On a GPU each as one launch, as steps of training are recorded; what takes many small kernels would wait for the host."""
    if device.type != "cuda":
        return dict(runs)
    recorded: dict[str, Run] = {}
    for name, run in runs.items():
        recorder = CudaRecorder(device)
        for _ in range(3):
            recorder.warm_up(run)  # type: ignore[arg-type]  # what it returns is let go
        recorded[name] = recorder.record(run)  # type: ignore[arg-type]
    return recorded


def heads_of(scale: Scale, batch: int, length: int) -> list[Tensor]:
    """Queries, keys and values."""
    shape = (batch, scale.heads, length, HEAD_WIDTH)
    return [torch.randn(shape, device=scale.device, dtype=scale.dtype, requires_grad=True) for _ in range(3)]


def views(scale: Scale, length: int) -> Iterator[tuple[str, View]]:
    batch = scale.tokens // length
    lengths_B = torch.linspace(length, length // 2, batch, device=scale.device).long()
    patterns = {"full": full, "causal": causal, "padding": padding(lengths_B), "window": window(RADIUS)}
    for name, pattern in patterns.items():
        if length <= scale.dense_up_to or name in ("full", "causal"):
            yield name, pattern.over(length, length, batch=batch, device=scale.device)


def cores(scale: Scale, view: View) -> dict[str, Trial]:
    """From queries, keys and values to the context."""
    q, k, v = inputs = heads_of(scale, view.batch, view.length)
    dense = masked(view)
    systems: dict[str, Output] = {
        "regard": partial(attend, None, "benchmark", SOFTMAX, q, k, v, view, None, 0.0),
        "sdpa": partial(F.scaled_dot_product_attention, q, k, v, attn_mask=dense.mask, is_causal=dense.causal),
    }
    if view.length <= scale.explicit_up_to:
        sees = view.rows(torch.arange(view.length))
        systems["explicit"] = lambda: SOFTMAX.weights(q, k, sees) @ v
    return {name: (system, inputs) for name, system in systems.items()}


def layers(scale: Scale, view: View) -> dict[str, Trial]:
    """From vectors to vectors, with the same four projections."""
    if view.length > scale.explicit_up_to:
        return {}
    place: dict[str, Any] = {"device": scale.device, "dtype": scale.dtype}
    ours = Attention(scale.width, scale.heads, mixer=SOFTMAX, dropout=0.0, name="layer").to(**place).eval()
    theirs = nn.MultiheadAttention(scale.width, scale.heads, batch_first=True, **place).eval()
    project, out = ours.project, ours.out
    theirs.load_state_dict(
        {"in_proj_weight": project.weight, "in_proj_bias": project.bias, "out_proj.weight": out.weight, "out_proj.bias": out.bias}
    )
    x = torch.randn(view.batch, view.length, scale.width, requires_grad=True, **place)
    masks = _masks_of_torch(masked(view))
    return {
        "regard layer": (partial(ours, x, view), [x, *ours.parameters()]),
        "nn.MultiheadAttention": (lambda: theirs(x, x, x, need_weights=False, **masks)[0], [x, *theirs.parameters()]),
    }


def masked(view: View) -> View:
    """For kernels that know of no blocks to leave out."""
    return view if view.blocks is None else view.rendered()


def _masks_of_torch(view: View) -> dict[str, Any]:
    """In nn.MultiheadAttention's terms, where True is what may not be seen."""
    if view.causal:
        return {"attn_mask": ~view.rows(torch.arange(view.length))[0, 0], "is_causal": True}
    if view.mask is None:
        return {}
    return {"key_padding_mask": ~view.mask[:, 0, 0]} if view.mask.shape[2] == 1 else {"attn_mask": ~view.mask[0, 0]}


def agree(answers: Sequence[Tensor], tolerance: float) -> None:
    expected, *others = answers
    for answer in others:
        torch.testing.assert_close(answer, expected, atol=tolerance, rtol=tolerance)


def race(case: str, systems: Mapping[str, Trial], scale: Scale, rounds: int) -> Iterator[Row]:
    runs = {name: passes(output, inputs) for name, (output, inputs) in systems.items()}
    pairs = [pair for pair in PAIRS if set(pair) <= set(systems)]
    for way in ("forward", "forward + backward"):
        seconds = alternate({name: run[way] for name, run in runs.items()}, rounds, warm_up=2)
        found = row(f"{case}, {way}", "tokens/s", scale.tokens, seconds, pairs=pairs)
        print(f"{found['case']}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found["ratios"].items()), flush=True)
        yield found


def cases(scale: Scale) -> Iterator[Row]:
    for length in scale.lengths:
        for name, view in views(scale, length):
            core, layer = cores(scale, view), layers(scale, view)
            with torch.no_grad():
                for group in filter(None, (core, layer)):
                    agree([output() for output, _ in group.values()], scale.tolerance)
            rounds = min(25, scale.rounds * max(scale.lengths) // length)  # short cases are the noisy ones
            yield from race(f"{name}, {length:,}", core | layer, scale, rounds)


_flex = torch.compile(flex_attention)
_block_mask = torch.compile(create_block_mask)


def block_sparse(visibility: Visibility, q: Tensor, k: Tensor, v: Tensor) -> Output:
    """FlexAttention asks the visibility about every block once, and then never computes those where nobody is seen."""

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:  # a method's self would be counted as an argument
        return visibility.sees(b, h, i, j)

    blocks = _block_mask(sees, None, None, q.shape[2], k.shape[2], device=q.device)
    return lambda: _flex(q, k, v, block_mask=blocks)


def sliding_window(scale: Scale) -> Table:
    """Causal attention to everybody before, by our seam, and to the last 1,024 only, by blocks."""
    pattern, few, many = causal & window(SLIDING), 4096, max(scale.lengths)
    q, k, v = heads_of(scale, 1, few)
    with torch.no_grad():
        expected = attend(None, "benchmark", SOFTMAX, q, k, v, pattern.over(few, few, device=scale.device), None, 0.0)
        agree([expected, block_sparse(pattern, q, k, v)()], scale.tolerance)
    q, k, v = inputs = heads_of(scale, 1, many)
    everybody = causal.over(many, many, device=scale.device)
    dense = passes(partial(attend, None, "benchmark", SOFTMAX, q, k, v, everybody, None, 0.0), inputs)
    blocks = passes(block_sparse(pattern, q, k, v), inputs)
    rows = []
    for way in dense:
        seconds = alternate({"dense": dense[way], "blocks": blocks[way]}, scale.rounds, warm_up=3)
        slow, fast = (1000 * statistics.median(values) for values in seconds.values())
        rows.append([way, f"{slow:.1f}", f"{fast:.2f}", f"{slow / fast:.1f}×"])
    columns = ["", "all before, ms", f"the last {SLIDING + 1:,}, ms", "ratio"]
    return {"title": f"What a sliding window is worth at {many:,} tokens: causal attention", "columns": columns, "rows": rows}


def main() -> None:
    torch.manual_seed(0)
    scale = CUDA if torch.cuda.is_available() else CPU
    rows = list(cases(scale))
    tables = [sliding_window(scale)] if scale.device.type == "cuda" else []
    setting = (
        f"{scale.tokens:,} tokens in each case, in rows as long as the case says; {scale.heads} heads of {HEAD_WIDTH}, "
        f"{scale.precision}; rows of the padded case are half full to full, the window's radius is {RADIUS}. "
        "regard, sdpa and explicit start from queries, keys and values; the two layers project too, with the same weights."
    )
    path = write("attention", title="The attention seam", setting=setting, rows=rows, versions={}, tables=tables)
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()

"""ProbSparse attention (Informer): how its time and memory grow with the length, beside fused softmax attention.

    python -m benchmarks.probsparse

Before any clock runs, with a factor at which every query is chosen, it must give what softmax attention gives. At the factor
of the paper, 5, it is another function, and only raced.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.attention import Output, passes
from benchmarks.favor import Scale, curves, exponent
from benchmarks.measure import Row, Table, alternate, peak_bytes, row, write
from regard.model.sparse.probsparse import ProbSparse
from regard.model.visibility import View, causal, full

HEAD_WIDTH, FACTOR = 64, 5
CPU = Scale(torch.device("cpu"), torch.float32, 1, 4, (512, 1024, 2048, 4096, 8192), 4096, 5, 1e-4)
CUDA = Scale(torch.device("cuda"), torch.bfloat16, 4, 8, (1024, 4096, 16_384, 65_536), 16_384, 10, 3e-2)
WAYS = ("forward", "forward + backward")


def drawn(scale: Scale, length: int) -> list[Tensor]:
    shape = (scale.batch, scale.heads, length, HEAD_WIDTH)
    return [torch.randn(shape, device=scale.device, dtype=scale.dtype, requires_grad=True) for _ in range(3)]


def mixer(scale: Scale, factor: int = FACTOR) -> ProbSparse:
    found = ProbSparse(factor, "benchmark").to(scale.device)
    found.draw(0, 0)
    return found


def laid(scale: Scale, length: int, is_causal: bool) -> View:
    return (causal if is_causal else full).over(length, length, batch=scale.batch, device=scale.device, mask=False)


@torch.no_grad()
def agree(scale: Scale) -> None:
    """Compare both where every query is chosen, which padding to the full length does by the way of the chosen ones."""
    q, k, v = drawn(scale, 256)
    for is_causal in (False, True):
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        found = mixer(scale, 256).mix(q, k, v, laid(scale, 256, is_causal))
        torch.testing.assert_close(found, expected, atol=scale.tolerance, rtol=scale.tolerance)


def ours(scale: Scale, inputs: list[Tensor], is_causal: bool) -> Output:
    (q, k, v), of, view = inputs, mixer(scale), laid(scale, inputs[0].shape[2], is_causal)
    return lambda: of.mix(q, k, v, view)


def dense(inputs: list[Tensor], is_causal: bool) -> Output:
    q, k, v = inputs
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def race(scale: Scale, length: int, way: str) -> Row:
    inputs, systems = drawn(scale, length), dict[str, Callable[[], object]]()
    for name, is_causal in (("", False), (", causal", True)):
        pair = {f"probsparse{name}": ours(scale, inputs, is_causal), f"softmax{name}": dense(inputs, is_causal)}
        systems |= {system: passes(output, inputs)[way] for system, output in pair.items()}
    peaks = {name: peak_bytes(run) for name, run in systems.items()}
    seconds = alternate(systems, scale.rounds, warm_up=2)
    pairs = [("probsparse", "softmax"), ("probsparse, causal", "softmax, causal")]
    found = row(f"{length:,}, {way}", "tokens/s", scale.batch * length, seconds, pairs=pairs, peaks=peaks)
    print(f"{found['case']}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found["ratios"].items()), flush=True)
    return found


def main() -> None:
    torch.manual_seed(0)
    scale = CUDA if torch.cuda.is_available() else CPU
    agree(scale)
    rows = [race(scale, length, way) for way in WAYS for length in scale.lengths]
    tables, drawings = [], []
    for way in WAYS:
        own = [each for each in rows if each["case"].endswith(f", {way}")]
        names = list(own[0]["systems"])
        times = {
            name: [1000 * scale.batch * n / each["systems"][name]["median"] for n, each in zip(scale.lengths, own)]
            for name in names
        }
        memory = {name: [each["systems"][name]["peak_bytes"] / 1e6 for each in own] for name in names}
        grown = [[name, *(f"n^{exponent(scale, values[name]):.2f}" for values in (times, memory))] for name in names]
        fitted = f"Growth with n, {way}, fitted over {scale.lengths[0]:,} to {scale.lengths[-1]:,} tokens"
        tables.append(Table(title=fitted, columns=["attention", "time", "memory"], rows=grown))
        drawings += [curves(scale, f"Time, {way}", "ms", times), curves(scale, f"Memory, {way}", "MB", memory)]
    setting = (
        f"From queries, keys and values to the context: {scale.batch} x {scale.heads} heads of {HEAD_WIDTH}, "
        f"{str(scale.dtype).removeprefix('torch.')}, eager, factor {FACTOR}; softmax is torch's fused kernel. "
        "With every query chosen, both give the same. On a CPU, the machine was shared with other work."
    )
    write("probsparse", title="ProbSparse attention", setting=setting, rows=rows, versions={}, tables=tables, curves=drawings)
    for table in tables:
        print("\n".join(" | ".join(cells) for cells in [[table["title"]], table["columns"], *table["rows"]]))


if __name__ == "__main__":
    main()

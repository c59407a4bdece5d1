"""Attention by features (FAVOR+): how its cost grows with the length, and against flash attention, the plain form and a peer.

    python -m benchmarks.favor

Causal, since that is the hard half: bidirectional attention by features is two products. The plain form keeps the sums of every
place, an F x K matrix each. Before any clock runs, all that compute the same must give the same answer; softmax is another
function, and only raced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.attention import Trial, as_trained, passes
from benchmarks.measure import Bar, Curves, Line, Row, Table, alternate, peak_bytes, row, write
from benchmarks.peers import performer
from regard.model.mixers.feature_maps import PositiveFeatures
from regard.model.mixers.linear import Favor
from regard.model.visibility import View, causal, full

HEAD_WIDTH, FEATURES, SHORT = 64, 256, 0.25
BOTH = "forward + backward"


@dataclass(frozen=True)
class Scale:
    device: torch.device
    dtype: torch.dtype
    batch: int
    heads: int
    lengths: tuple[int, ...]  # over which growth is fitted
    raced: int
    rounds: int
    tolerance: float

    @property
    def dense(self) -> str:
        return "flash" if self.device.type == "cuda" else "sdpa"


CPU = Scale(torch.device("cpu"), torch.float32, 1, 4, (1024, 2048, 4096, 8192), 4096, 7, 1e-4)
CUDA = Scale(torch.device("cuda"), torch.bfloat16, 4, 8, (4096, 8192, 16_384, 32_768, 65_536), 16_384, 10, 3e-2)


def mixer(scale: Scale) -> Favor:
    features = PositiveFeatures(HEAD_WIDTH, FEATURES, "benchmark").to(scale.device)
    features.draw(0, 0)
    return Favor(features)


def ours(scale: Scale, of: Favor, view: View) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """As training runs it: on a GPU compiled."""

    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return of.mix(q, k, v, view)

    return torch.compile(mix, fullgraph=True, dynamic=False) if scale.device.type == "cuda" else mix


def dense(scale: Scale) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return attend


def plain(of: Favor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The sums of phi(k) v up to every place, one after the other in memory."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        queries, keys = of.features(q.float()), of.features(k.float())
        k_BHLF = keys.phi_BHLF * (keys.scale_BHL - keys.scale_BHL.amax(-1, keepdim=True)).exp()[..., None]
        sums_BHLFK = torch.einsum("bhlf,bhlk->bhlfk", k_BHLF, v.float()).cumsum(2)
        context = torch.einsum("bhlf,bhlfk->bhlk", queries.phi_BHLF, sums_BHLFK)
        return (context / (queries.phi_BHLF * k_BHLF.cumsum(2)).sum(-1, keepdim=True)).to(v.dtype)

    return attend


def heads_of(scale: Scale, batch: int, length: int) -> list[Tensor]:
    """Queries, keys and values. The first two are short: of longer ones the features drown in what the peer adds to them."""
    shape = (batch, scale.heads, length, HEAD_WIDTH)
    drawn = [size * torch.randn(shape, device=scale.device) for size in (SHORT, SHORT, 1.0)]
    return [part.to(scale.dtype).requires_grad_() for part in drawn]


def laid(scale: Scale, length: int, batch: int) -> View:
    return causal.over(length, length, batch=batch, device=scale.device)


# ---------------------------------------------------------------------------------------------------------------------- growth


def growth(scale: Scale) -> tuple[list[Row], Table, list[Curves]]:
    of, rows = mixer(scale), list[Row]()
    for length in scale.lengths:
        torch._dynamo.reset()  # what was compiled for other lengths
        inputs = heads_of(scale, scale.batch, length)
        everybody = full.over(length, length, batch=scale.batch, device=scale.device)
        systems: dict[str, Callable[..., Tensor]] = {
            "favor, causal": ours(scale, of, laid(scale, length, scale.batch)),
            "favor, bidirectional": ours(scale, of, everybody),
            f"softmax, causal ({scale.dense})": dense(scale),
        }
        runs = {name: passes(partial(attend, *inputs), inputs)[BOTH] for name, attend in systems.items()}
        peaks = {name: peak_bytes(run) for name, run in runs.items()}
        seconds = alternate(as_trained(scale.device, runs), scale.rounds, warm_up=2)
        pairs = [("favor, causal", f"softmax, causal ({scale.dense})")]
        rows.append(row(f"{length:,}, {BOTH}", "tokens/s", scale.batch * length, seconds, pairs=pairs, peaks=peaks))
        print(f"{length:,}: " + ", ".join(f"{name} {1000 * min(each):.3g} ms" for name, each in seconds.items()), flush=True)
    names = list(rows[0]["systems"])
    times = {
        name: [1000 * scale.batch * n / each["systems"][name]["median"] for n, each in zip(scale.lengths, rows)] for name in names
    }
    memory = {name: [each["systems"][name]["peak_bytes"] / 1e6 for each in rows] for name in names}
    table: Table = {
        "title": f"Growth with n, fitted over {scale.lengths[0]:,} to {scale.lengths[-1]:,} tokens",
        "columns": ["attention", f"time, {BOTH}", "memory", "time must be"],
        "rows": [
            [name, *(f"n^{exponent(scale, values[name]):.2f}" for values in (times, memory)), wanted(name)] for name in names
        ],
    }
    drawn = [curves(scale, f"Time, {BOTH}", "ms", times), curves(scale, f"Memory, {BOTH}", "MB", memory)]
    return rows, table, drawn


def wanted(name: str) -> str:
    return "at most n^1.10" if name.startswith("favor") else "about n^2"


def exponent(scale: Scale, values: Sequence[float]) -> float:
    return float(np.polyfit(np.log(scale.lengths), np.log(values), 1)[0])


def curves(scale: Scale, title: str, unit: str, values: dict[str, list[float]]) -> Curves:
    lines: dict[str, Line] = {
        f"{name}, n^{exponent(scale, y):.2f}": {"x": [float(n) for n in scale.lengths], "y": y} for name, y in values.items()
    }
    return {"title": title, "x": "length n", "y": unit, "lines": lines}


# ------------------------------------------------------------------------------------------------------------------------ races


def race(scale: Scale) -> list[Row]:
    of, length = mixer(scale), scale.raced
    inputs = heads_of(scale, 1, length)
    same: dict[str, Callable[..., Tensor]] = {"regard": ours(scale, of, laid(scale, length, 1))}
    if scale.device.type == "cuda":  # on a CPU its sums fill the memory of most
        same["plain form"] = plain(of)
    if performer.ready():
        same[performer.NAME] = performer.causal(of.features.directions_FK.to(scale.dtype))  # type: ignore[attr-defined]
    _agree(scale, same, inputs)
    systems = same | {scale.dense: dense(scale)}
    trials: dict[str, Trial] = {name: (partial(attend, *inputs), inputs) for name, attend in systems.items()}
    runs = {name: passes(*trial) for name, trial in trials.items()}
    rows = []
    for way in ("forward", BOTH):
        contenders = {name: run[way] for name, run in runs.items()}
        peaks = {name: peak_bytes(run) for name, run in contenders.items()}
        seconds = alternate(as_trained(scale.device, contenders), scale.rounds, warm_up=2)
        wanted = {f"regard / {name}": bar for name, bar in bars(scale).items() if name in systems and way == BOTH}
        rows.append(row(f"causal, {length:,}, {way}", "tokens/s", length, seconds, bars=wanted, peaks=peaks))
        told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in rows[-1]["ratios"].items())
        print(f"{rows[-1]['case']}: {told}", flush=True)
    return rows


def bars(scale: Scale) -> dict[str, Bar]:
    if scale.device.type == "cuda":
        return {"plain form": {"floor": 10, "goal": 50}, "flash": {"floor": 1, "goal": 3}}
    return {performer.NAME: {"floor": 5, "goal": 20}}


@torch.no_grad()
def _agree(scale: Scale, systems: dict[str, Callable[..., Tensor]], inputs: Sequence[Tensor]) -> None:
    """To what the peer adds to features, and to the type that its sums have."""
    expected = systems["regard"](*inputs)
    for name, attend in systems.items():
        tolerance = max(scale.tolerance, 3e-2 if name == performer.NAME else 0.0)
        off = (attend(*inputs) - expected).norm() / expected.norm()
        assert off < tolerance, f"{name} is off by {off:.1e}"


def main() -> None:
    torch.manual_seed(0)
    scale = CUDA if torch.cuda.is_available() else CPU
    raced = race(scale)
    grown, table, drawn = growth(scale)
    how = "compiled, and everybody recorded as one launch" if scale.device.type == "cuda" else "eager"
    setting = (
        f"From queries, keys and values to the context: {scale.heads} heads of {HEAD_WIDTH}, {FEATURES} features, "
        f"{str(scale.dtype).removeprefix('torch.')}, ours {how}; races with 1 sequence, growth with {scale.batch}. "
        f"{performer.remark()}"
    )
    told: dict[str, Any] = {"title": "Attention by features", "setting": setting, "versions": performer.version()}
    path = write("favor", **told, rows=[*raced, *grown], tables=[table], curves=drawn)
    print("\n".join(" | ".join(cells) for cells in [table["columns"], *table["rows"]]))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()

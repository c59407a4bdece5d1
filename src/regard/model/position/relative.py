"""Positions inside attention, by distance: rotary, T5's learned buckets, ALiBi's slopes, Transformer-XL's scores.

Rotary (Su et al. 2021, "RoFormer", section 3.2.2): pairs of coordinates of queries and keys are turned by an angle that grows
with the position. The product of a query at m and a key at n then depends on their content and on m - n.
The angle of pair i is position * base^(-2i/K). As in the public LLaMA checkpoints, coordinate i is paired with i + K/2; the
paper pairs neighbours, which is the same up to the order of coordinates. Nothing is learned. Cached keys stay rotated by their
own position, so decoding rotates only the newest token. Scaling lets a trained model read longer texts: `linear` (Chen et al.
2023) divides every angle by a factor; `llama3` (Llama 3.1) divides those of pairs that turn fewer than `rotary_low` times within
the context of training, leaves those of pairs that turn more than `rotary_high` times, and goes over smoothly between.

T5 (Raffel et al. 2020, section 2.1): one learned number for each head and bucket of distances, shared by all layers of a stack.
Half of the buckets are single distances, the others grow logarithmically up to `farthest`, and the last holds all beyond. An
encoder has half of its buckets for keys behind the query; a decoder has no such keys.
ALiBi (Press et al. 2022, section 3): minus the distance times a slope, 2^(-8/H), 2^(-16/H), ... by head; nothing is learned.
Where the number of heads is no power of 2, slopes of the next power of 2 are taken in between, as in the paper's code. A
bidirectional stack uses the distance to either side.

Transformer-XL (Dai et al. 2019, section 3.3) compares a query with the content of a key and with its distance: the score of query
i and key j is (q_i + u) . k_j + (q_i + v) . W_R R_{i-j}, with R the sinusoidal vector of a distance and u, v, W_R learned. q . k
is the mixer's; the rest is a bias, u . k_j + (q_i + v) . r_{i-j}, divided by the root of the head width where scores are. u, v
and W_R are a layer's own (`untie_r` of the paper's code); u and v may be shared.

Differs from the paper in: a bidirectional stack uses negative distances, too. Segment memory is in `model/memory`.

Dims: B batch, H heads, L queries, M keys, K head width, D width, R distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.config import Bounds, refuse_unused
from regard.core.errors import UserError
from regard.model.layers import Linear
from regard.model.position.base import Bias, LearnedTable, Placement, Position
from regard.model.visibility import View

BASE = 10_000.0
RotaryBase = Annotated[float, Bounds(1, above=True, example="10000")]


@dataclass(frozen=True, kw_only=True)
class Llama3Settings:
    """Recipe keys of model.rotary_scaling=llama3."""

    rotary_low: float = 1.0  # turns within rotary_context; pairs with fewer are divided
    rotary_high: float = 4.0  # pairs with more are left
    rotary_context: int = 8192  # tokens of a text in training, before scaling


@dataclass(frozen=True, kw_only=True)
class RotarySettings(Llama3Settings):
    """Recipe keys of model.position=rotary."""

    rotary_base: RotaryBase = BASE  # of the slowest angle; larger for longer texts (LLaMA 3: 500000)
    rotary_scaling: Literal["none", "linear", "llama3"] = "none"
    rotary_factor: float = 1.0  # by which scaling divides angles

    def check_rotary(self) -> None:
        refuse_unused(self, RotarySettings, "position", "rotary")
        refuse_unused(self, Llama3Settings, "rotary_scaling", "llama3")
        if not self.rotary_factor >= 1 or (self.rotary_scaling != "none") != (self.rotary_factor > 1):
            raise UserError(
                f"model.rotary_factor={self.rotary_factor} does not suit model.rotary_scaling={self.rotary_scaling}; scaling "
                "divides by a factor above 1, such as 8, and none leaves it at 1."
            )
        if not 0 < self.rotary_low < self.rotary_high or self.rotary_context < 1:
            raise UserError("model.rotary_low must be above 0 and below model.rotary_high, and model.rotary_context at least 1.")


class Rotary(Position):
    fused = True

    def __init__(self, head_width: int, settings: RotarySettings) -> None:
        super().__init__()
        self.head_width, self.settings = head_width, settings

    def rates(self, device: torch.device) -> Tensor:
        """Return rate_K, the angle in radians by which each of K / 2 pairs turns from one position to the next."""
        s, even_K = self.settings, torch.arange(0, self.head_width, 2, device=device)
        rate_K = s.rotary_base ** (-even_K.double() / self.head_width)
        if s.rotary_scaling == "linear":
            rate_K = rate_K / s.rotary_factor
        elif s.rotary_scaling == "llama3":
            turns_K = s.rotary_context * rate_K / (2 * math.pi)
            kept_K = ((turns_K - s.rotary_low) / (s.rotary_high - s.rotary_low)).clamp(0, 1)
            rate_K = rate_K * (kept_K + (1 - kept_K) / s.rotary_factor)
        return rate_K.float()

    def over(self, view: View) -> Placement:
        at_BL, _ = view.positions()
        angle_B1LK = (at_BL[..., None].float() * self.rates(at_BL.device)).repeat(1, 1, 2)[:, None]
        return Rotation(angle_B1LK.cos(), angle_B1LK.sin())


class Rotation(Placement):
    rotates = True

    def __init__(self, cos_B1LK: Tensor, sin_B1LK: Tensor) -> None:
        self.turns = cos_B1LK, sin_B1LK
        first, second = sin_B1LK.chunk(2, -1)
        self.signed_B1LK = torch.cat([-first, second], -1)

    def rotate(self, x_BHLK: Tensor) -> Tensor:
        assert self.turns is not None
        cos_B1LK, _ = self.turns
        turned_BHLK = x_BHLK.roll(x_BHLK.shape[-1] // 2, -1)
        return x_BHLK * cos_B1LK.to(x_BHLK.dtype) + turned_BHLK * self.signed_B1LK.to(x_BHLK.dtype)


BUCKETS, FARTHEST = 32, 128


@dataclass(frozen=True, kw_only=True)
class RelativeSettings:
    """Recipe keys of model.position=relative."""

    buckets: int = BUCKETS  # of distances, each with a learned number for every head
    farthest: int = FARTHEST  # distance in tokens; all beyond share the last bucket

    def check_relative(self) -> None:
        refuse_unused(self, RelativeSettings, "position", "relative")
        if self.buckets < 4 or self.buckets % 2:
            raise UserError(f"model.buckets={self.buckets} must be an even number of at least 4, such as {BUCKETS}.")
        if self.farthest <= self.buckets // 2:
            raise UserError(
                f"model.farthest={self.farthest} must be more than half of model.buckets={self.buckets}, such as {FARTHEST}."
            )


def relative_bucket(distance: Tensor, *, causal: bool, buckets: int = BUCKETS, farthest: int = FARTHEST) -> Tensor:
    """Return the bucket of each distance, key position - query position: exact when short, logarithmic up to `farthest`."""
    start: Tensor | int = 0
    if causal:
        distance = (-distance).clamp(min=0)
    else:
        buckets //= 2
        start, distance = (distance > 0) * buckets, distance.abs()
    exact = buckets // 2
    far = exact + (torch.log(distance.clamp(min=1) / exact) / math.log(farthest / exact) * (buckets - exact)).long()
    return start + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def alibi_slopes(heads: int, device: torch.device | None = None) -> Tensor:
    """Return slope_H. Computed on its device: a number from the host could not be recorded in a CUDA graph."""
    number_H, power = torch.arange(heads, device=device, dtype=torch.float32), 2 ** int(math.log2(heads))
    between_H = 4 * (2 * (number_H - power) + 1) / power
    return torch.exp2(-torch.where(number_H < power, 8 * (number_H + 1) / power, between_H))


class ByDistance(Placement):
    """A bias that only the distance between two positions and the head decide: computed once for all layers."""

    def __init__(
        self,
        view: View,
        heads: int,
        value: Callable[[Tensor, Tensor], Tensor],
        table_of: Callable[[Tensor], Tensor],
        table_HR: Tensor | None = None,
    ) -> None:
        """`value(h, distance)` is for single pairs; `table_of(distances_BLM)` returns bias_BHLM of all.

        `table_HR` has the value of every distance from -R // 2 to R // 2, where these are learned and no pair is farther apart.
        """
        at_BL, at_BM = view.positions()
        alike_BL, alike_BM = len(at_BL) == 1, len(at_BM) == 1
        in_one_row = view.packed is not None and view.packed.queries is view.packed.keys

        def distance(b: Tensor, i: Tensor, j: Tensor) -> Tensor:
            if in_one_row:  # that of two tokens of a sequence; of others, which do not see each other, it is some number
                return j - i
            return at_BM[b * (not alike_BM), j] - at_BL[b * (not alike_BL), i]

        def at(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return value(h, distance(b, i, j)) if table_HR is None else _read(table_HR, h, distance(b, i, j))

        learned = None
        if table_HR is not None:
            fixed_HR = table_HR.detach()
            learned = LearnedTable(table_HR, lambda b, h, i, j: _read(fixed_HR, h, distance(b, i, j)))
        shape = (max(len(at_BL), len(at_BM)), heads, at_BL.shape[1], at_BM.shape[1])
        whole = None
        if not view.by_blocks:  # now, not inside a layer: all layers share it, also those that are computed again for gradients
            dense_BHLM = table_of(at_BM[:, None, :] - at_BL[:, :, None])
            whole = lambda: dense_BHLM  # noqa: E731
        self.scores: Bias = Bias(at, shape, at_BL.device, whole, learned=learned)

    def bias(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Bias:
        return self.scores


class RelativeBias(Position):
    fused = True

    def __init__(self, heads: int, *, causal: bool, buckets: int = BUCKETS, farthest: int = FARTHEST) -> None:
        super().__init__()
        self.causal, self.buckets, self.farthest = causal, buckets, farthest
        self.table = nn.Embedding(buckets, heads)

    def bucket(self, distance: Tensor) -> Tensor:
        return relative_bucket(distance, causal=self.causal, buckets=self.buckets, farthest=self.farthest)

    def by_distance(self, distance_R: Tensor) -> list[Tensor]:
        return [self.table(self.bucket(distance_R)).T]

    def over(self, view: View) -> Placement:
        # By blocks a number for every distance there is, not only up to `farthest`: gradients of pairs are added up one by one
        # then, and those of all far pairs into one number would wait for each other.
        most = _table_reach(view.farthest()) if view.by_blocks else self.farthest
        every_R = torch.arange(-most, most + 1, device=self.table.weight.device)
        value_HR = self.table(self.bucket(every_R)).T.contiguous()
        if view.by_blocks and not torch.compiler.is_compiling():
            torch._dynamo.mark_static(value_HR)  # for FlexAttention, as `fixed_shapes` says; compiled, its size is a constant

        def table_of(distance_BLM: Tensor) -> Tensor:
            return nn.functional.embedding(distance_BLM.clamp(-most, most) + most, value_HR.T).permute(0, 3, 1, 2)

        return ByDistance(view, len(value_HR), lambda h, distance: _read(value_HR, h, distance), table_of, value_HR)


def _read(table_HR: Tensor, h: Tensor, distance: Tensor) -> Tensor:
    """Return the numbers of these distances; beyond its ends the table goes on as it ends.

    Its middle is taken from its size, a constant of every graph: FlexAttention cannot compile a number of the host that varies.
    """
    size = table_HR.shape[1]
    return table_HR[h, (distance + size // 2).clamp(0, size - 1)]


def _table_reach(distance: int) -> int:
    """Return the smallest power of 2, at least 128, that is not below the distance: few sizes, each a constant of its graph."""
    reach = 128
    while reach < distance:
        reach *= 2
    return reach


class ALiBi(Position):
    fused = True

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def by_distance(self, distance_R: Tensor) -> list[Tensor]:
        return [-alibi_slopes(self.heads, distance_R.device)[:, None] * distance_R.abs()]

    def over(self, view: View) -> Placement:
        slope_H = alibi_slopes(self.heads, view.device)

        def value(h: Tensor, distance: Tensor) -> Tensor:
            return -slope_H[h] * distance.abs()

        return ByDistance(view, self.heads, value, lambda distance_BLM: -slope_H[:, None, None] * distance_BLM.abs()[:, None])


class DistanceScores(nn.Module):
    """Parameters of one layer: u (content), v (position), W_R."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.content_HK = nn.Parameter(torch.zeros(heads, head_width))
        self.position_HK = nn.Parameter(torch.zeros(heads, head_width))
        self.project = Linear(width, heads * head_width, bias=False)


class TransformerXL(Position):
    fixed_shapes = True

    def __init__(
        self, width: int, heads: int, head_width: int, layers: int, scaled: bool = True, clamp: int = 0, shared: bool = False
    ) -> None:
        """Distances beyond `clamp` count as it, 0: none do; `shared`: all layers have one u and one v."""
        super().__init__()
        self.width, self.scale, self.clamp = width, head_width**-0.5 if scaled else 1.0, clamp
        self.layers = nn.ModuleList(DistanceScores(width, heads, head_width) for _ in range(layers))
        for layer in self.layers if shared else ():
            layer.content_HK, layer.position_HK = self.layers[0].content_HK, self.layers[0].position_HK

    def by_distance(self, distance_R: Tensor) -> list[Tensor]:
        """v . W_R R of every layer."""
        r_RD, found = self.vectors(-distance_R.float()), list[Tensor]()
        for learned in self.layers:
            assert isinstance(learned, DistanceScores)
            r_RHK = learned.project(r_RD.to(learned.project.weight.dtype)).unflatten(-1, (learned.position_HK.shape[0], -1))
            found.append(torch.einsum("hk,rhk->hr", learned.position_HK, r_RHK) * self.scale)
        return found

    def over(self, view: View) -> Placement:
        return _Distances(self, view)

    def vectors(self, distance_R: Tensor) -> Tensor:
        """Return the sinusoidal vectors_RD of distances: sines, then cosines, as in the paper's code."""
        distance_R = distance_R.clamp(-self.clamp, self.clamp) if self.clamp else distance_R
        rate_K = 10_000.0 ** (-torch.arange(0, self.width, 2, device=distance_R.device).double() / self.width)
        angle_RK = distance_R[:, None] * rate_K.float()
        return torch.cat([angle_RK.sin(), angle_RK.cos()], -1)[:, : self.width]


class _Distances(Placement):
    """The positions of one pass and the vectors of their distances; `layer` adds what a layer has learned."""

    def __init__(self, scheme: TransformerXL, view: View) -> None:
        self.scheme, self.at, most = scheme, view.positions(), view.farthest()
        ahead = not view.visibility.looks_back
        # The last query is the last key and no key is ahead: then row i of the bias is row i - 1, moved by one (appendix B).
        self.slides = not ahead and view.in_order and view.offset + view.length == view.memory
        self.zero, self.sign = (most - 1, -1) if self.slides else (most * ahead, 1)  # the place of distance 0, and the order
        every_R = torch.arange(most - 1, -1, -1) if self.slides else torch.arange(-most * ahead, most + 1)
        self.r_RD = scheme.vectors(every_R.to(view.device).float())

    def layer(self, n: int) -> Placement:
        learned = self.scheme.layers[n]
        assert isinstance(learned, DistanceScores)
        return _LayerDistances(self, learned)


class _LayerDistances(Placement):
    def __init__(self, of: _Distances, learned: DistanceScores) -> None:
        self.of, self.learned = of, learned

    def bias(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Bias:
        learned, scheme, of, (at_BL, at_BM) = self.learned, self.of.scheme, self.of, self.of.at
        heads = learned.content_HK.shape[0]
        r_HKR = learned.project(self.of.r_RD.to(learned.project.weight.dtype)).unflatten(-1, (heads, -1)).permute(1, 2, 0)
        content_BHM = torch.einsum("hk,bhmk->bhm", learned.content_HK.to(k_BHMK.dtype), k_BHMK) * scheme.scale
        by_distance_BHLR = (q_BHLK + learned.position_HK.to(q_BHLK.dtype)[:, None]) @ r_HKR.to(q_BHLK.dtype) * scheme.scale
        last = r_HKR.shape[2] - 1

        def place(distance: Tensor) -> Tensor:  # pairs that do not see each other may have any
            return (of.zero + of.sign * distance).clamp(0, last)

        def at(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance = at_BL[b * (len(at_BL) > 1), i] - at_BM[b * (len(at_BM) > 1), j]
            return content_BHM[b, h, j] + by_distance_BHLR[b, h, i, place(distance)]

        def whole() -> Tensor:
            batch, _, length, _ = q_BHLK.shape
            if of.slides:
                moved_BHRL = F.pad(by_distance_BHLR, (1, 0)).view(batch, heads, last + 2, length)[:, :, 1:]
                return content_BHM[:, :, None] + moved_BHRL.reshape(batch, heads, length, last + 1)
            index_BHLM = place((at_BL[:, :, None] - at_BM[:, None])[:, None]).expand(batch, heads, length, -1)
            return content_BHM[:, :, None] + by_distance_BHLR.gather(3, index_BHLM)

        return Bias(at, (*q_BHLK.shape[:3], k_BHMK.shape[2]), q_BHLK.device, whole, fixed_shapes=True)

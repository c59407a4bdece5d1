"""Latents: a few learned vectors that read an array of any length by cross-attention, then think by self-attention.

Jaegle et al. 2021 (Perceiver), section 3.1, and 2022 (Perceiver IO), section 3: N latents attend to M inputs, which costs N M,
and then to each other, N^2 for each layer, whatever M is. Output queries attend to the latents in the same way: a query for
each thing that is asked, a class, a masked byte, a time to come.

    CrossLayer       q + attention(norm q, norm array), then x + feedforward(norm x); the first sum may be left out
    LatentEncoder    blocks of self-attention layers, some of which begin by reading the array

Blocks run several times with the same weights: like a recurrent network whose input is always the whole array. The paper shares
the weights of all readings but the first one. Layers that share weights are modules of their own with the same parameters, so
that a probe tells the passes apart: encoder.2.cross is the reading in front of block 2, encoder.5.self the sixth layer that
runs.

Dims: B batch, M positions of the array, N latents or queries, C channels of the array, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.config import Count, Fraction, check_bounds
from regard.core.errors import UserError
from regard.model.attention import Attention
from regard.model.layers import Activation, FeedForward, Norm
from regard.model.mixers.softmax import Softmax
from regard.model.perceiver.inputs import dtype_of
from regard.model.visibility import View, full, padding

Shared = Literal["all", "after_first", "none"]
EPSILON = 1e-5  # of every norm


@dataclass(frozen=True, kw_only=True)
class LatentSettings:
    """Settings of families whose latents read an array. Widths of 0 are those of what is read, or of the latents."""

    width: Count = 128  # of a latent
    latents: Count = 64
    layers: Count = 4  # of self-attention, in a block
    blocks: Count = 1  # times that these layers run
    readings: Count = 1  # of the array: before the first block, and before as many others as are asked for
    shared: Shared = "all"  # which blocks have the same weights; readings after the first share theirs too, but for `none`
    heads: Count = 8
    cross_heads: Count = 1  # of a reading
    qk_width: int = 0  # of queries and keys, all heads side by side
    value_width: int = 0  # of values, likewise
    widening: Count = 1  # of the feed-forward networks between latents: their inner width by the outer
    cross_widening: Count = 1  # of those behind a reading
    query_residual: bool = True  # what a latent reads is added to it, rather than put in its place
    activation: Activation = "gelu"
    dropout: Fraction = 0.0
    attention_dropout: Fraction = 0.0

    def check_latents(self, channels: int) -> None:
        """Refuse widths that heads do not divide; `channels` is the width of the array."""
        check_bounds(self, "model.")
        for key in ("qk_width", "value_width"):
            if (given := getattr(self, key)) < 0:
                raise UserError(f"model.{key}={given} must be a width such as {self.width}, or 0 for the width of what is read.")
        for heads, key, given in (
            (self.heads, "heads", self.qk_width or self.width),
            (self.heads, "heads", self.value_width or self.qk_width or self.width),
            (self.cross_heads, "cross_heads", self.qk_width or channels),
            (self.cross_heads, "cross_heads", self.value_width or self.qk_width or channels),
        ):
            if given % heads:
                raise UserError(
                    f"model.{key}={heads} does not divide a width of {given}; set model.{key}=1, or model.qk_width and "
                    f"model.value_width to {max(1, round(given / heads)) * heads}."
                )
        if self.readings > self.blocks:
            raise UserError(
                f"model.readings={self.readings} is more than model.blocks={self.blocks}, and each block reads at most once; set "
                f"model.blocks={self.readings}, or fewer readings."
            )
        if self.shared != "all" and self.blocks == 1:
            raise UserError(
                f"model.shared={self.shared} is for several blocks, and there is one; leave it out or set model.blocks=2."
            )

    @property
    def encoder_attentions(self) -> list[str]:
        """Return the names of all attentions of a `LatentEncoder`, in the order of the pass."""
        per = [[f"encoder.{b * self.layers + n}.self" for n in range(self.layers)] for b in range(self.blocks)]
        return [name for b, layers in enumerate(per) for name in ([f"encoder.{b}.cross"] if b < self.readings else []) + layers]


class CrossLayer(nn.Module):
    """Queries x_BND attend to an array_BMC of another width, then pass a feed-forward network."""

    def __init__(
        self,
        settings: LatentSettings,
        name: str,
        *,
        width: int,
        channels: int,
        heads: int,
        qk_width: int = 0,
        value_width: int = 0,
        widening: int = 1,
        residual: bool = True,
    ) -> None:
        super().__init__()
        qk = qk_width or channels
        self.norm, self.array_norm = Norm(width, eps=EPSILON), Norm(channels, eps=EPSILON)
        self.attention = Attention(
            width,
            heads,
            mixer=Softmax(),
            dropout=settings.attention_dropout,
            name=name,
            cross=True,
            head_width=qk // heads,
            value_width=(value_width or qk) // heads,
            memory_width=channels,
        )
        self.residual, self.dropout = residual, nn.Dropout(settings.dropout)
        self.ffn_norm = Norm(width, eps=EPSILON)
        self.ffn = FeedForward(width, widening * width, settings.activation)

    def forward(self, q_BND: Tensor, array_BMC: Tensor, view: View) -> Tensor:
        memory = self.attention.project_kv(self.array_norm(array_BMC))
        x_BND = self.dropout(self.attention(self.norm(q_BND), view, memory))
        x_BND = q_BND + x_BND if self.residual else x_BND
        return x_BND + self.dropout(self.ffn(self.ffn_norm(x_BND)))


class SelfLayer(nn.Module):
    """Latents x_BND attend to each other, then pass a feed-forward network: a pre-norm Transformer layer."""

    def __init__(self, c: LatentSettings, name: str) -> None:
        super().__init__()
        qk = c.qk_width or c.width
        self.norm, self.ffn_norm = Norm(c.width, eps=EPSILON), Norm(c.width, eps=EPSILON)
        value_width = (c.value_width or qk) // c.heads
        self.attention = Attention(
            c.width,
            c.heads,
            mixer=Softmax(),
            dropout=c.attention_dropout,
            name=name,
            head_width=qk // c.heads,
            value_width=value_width,
        )
        self.dropout = nn.Dropout(c.dropout)
        self.ffn = FeedForward(c.width, c.widening * c.width, c.activation)

    def forward(self, x_BND: Tensor, view: View) -> Tensor:
        x_BND = x_BND + self.dropout(self.attention(self.norm(x_BND), view))
        return x_BND + self.dropout(self.ffn(self.ffn_norm(x_BND)))


class LatentEncoder(nn.Module):
    """latents_BND of an array_BMC."""

    def __init__(self, settings: LatentSettings, channels: int) -> None:
        super().__init__()
        c = self.settings = settings
        self.latents = nn.Embedding(c.latents, c.width)
        self.reads: Sequence[CrossLayer] = nn.ModuleList(  # type: ignore[assignment]
            CrossLayer(
                c,
                f"encoder.{block}.cross",
                width=c.width,
                channels=channels,
                heads=c.cross_heads,
                qk_width=c.qk_width,
                value_width=c.value_width,
                widening=c.cross_widening,
                residual=c.query_residual,
            )
            for block in range(c.readings)
        )
        self.layers: Sequence[SelfLayer] = nn.ModuleList(  # type: ignore[assignment]
            SelfLayer(c, f"encoder.{n}.self") for n in range(c.blocks * c.layers)
        )
        first = {"all": 0, "after_first": 1}.get(c.shared, c.blocks)
        for n in range((first + 1) * c.layers, c.blocks * c.layers):
            share_parameters(self.layers[n], self.layers[first * c.layers + n % c.layers])
        for block in range(2, c.readings if c.shared != "none" else 0):
            share_parameters(self.reads[block], self.reads[1])

    def forward(self, array_BMC: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Of each row of the array the first `lengths_B` positions count; all of them where no lengths are given."""
        c, (batch, length, _), device = self.settings, array_BMC.shape, array_BMC.device
        reading = full if lengths_B is None else padding(lengths_B)
        view, array_view = (
            full.over(c.latents, c.latents, device=device),
            reading.over(c.latents, length, batch=batch, device=device),
        )
        x_BND = self.latents.weight.to(dtype_of(self.latents.weight)).expand(batch, -1, -1)
        for n, layer in enumerate(self.layers):
            block, place = divmod(n, c.layers)
            if place == 0 and block < c.readings:
                x_BND = self.reads[block](x_BND, array_BMC, array_view)
            x_BND = layer(x_BND, view)
        return x_BND


class OutputQueries(nn.Module):
    """Learned queries x_BQD, one for each thing that is asked, which attend to the latents."""

    def __init__(
        self,
        settings: LatentSettings,
        name: str,
        queries: int,
        width: int,
        *,
        residual: bool,
        heads: int = 1,
        qk: int = 0,
        value: int = 0,
    ) -> None:
        super().__init__()
        self.queries = nn.Embedding(queries, width)
        self.layer = CrossLayer(
            settings,
            name,
            width=width,
            channels=settings.width,
            heads=heads,
            qk_width=qk,
            value_width=value,
            residual=residual,
        )

    def forward(self, latents_BND: Tensor, number: int | None = None) -> Tensor:
        """Return the answers to the first `number` queries, or to all of them."""
        q_QD = self.queries.weight[:number].to(latents_BND.dtype)
        return self.ask(latents_BND, q_QD.expand(len(latents_BND), -1, -1))

    def ask(self, latents_BND: Tensor, q_BQD: Tensor) -> Tensor:
        """Return the answers to any queries of this width."""
        view = full.over(q_BQD.shape[1], latents_BND.shape[1], device=latents_BND.device)
        return self.layer(q_BQD, latents_BND, view)


def share_parameters(module: nn.Module, other: nn.Module) -> None:
    """Give a module the parameters of another one of the same shape."""
    for (_, part), (_, model) in zip(module.named_modules(), other.named_modules(), strict=True):
        for name, parameter in model.named_parameters(recurse=False):
            setattr(part, name, parameter)

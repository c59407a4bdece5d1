"""Parameters and operations of every part, in closed form: nothing is allocated, so 175 billion are counted in a millisecond.

A multiply-add is two operations; a product of L vectors with a D x E matrix is 2 L D E. Norms, biases, softmax and activations
are left out of operations, as usual, and are counted among parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from regard.model.block import BlockConfig
from regard.model.mixers.convolution import CYCLE
from regard.model.pruning import kept_heads
from regard.model.sparse.dispatch import computed
from regard.model.stack import BodyConfig
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True)
class Part:
    """A node of the model's tree: what `regard explain` prints."""

    name: str
    shape: str = ""  # in the letters of docs/notation.md
    file: str = ""
    own_parameters: int = 0
    own_flops: int = 0  # forward, for one sequence
    children: tuple[Part, ...] = field(default=())
    times: int = 1  # identical copies, such as the layers of a stack

    @property
    def parameters(self) -> int:
        return self.times * (self.own_parameters + sum(child.parameters for child in self.children))

    @property
    def flops(self) -> int:
        return self.times * (self.own_flops + sum(child.flops for child in self.children))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Part]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def keys_and_values(config: BlockConfig, layers: int, source: bool) -> int:
    """Numbers that decoding keeps of every token it has read: a key and a value as wide as the model, in every layer.

    Where sums are kept, none; with convolutions, of the source alone.
    """
    keeps = source if config.mixer == "conv" else config.mixer not in LINEAR
    return 2 * layers * (config.kv_heads or config.heads) * config.key_width if keeps else 0


def constant_state(config: BlockConfig, layers: int, source: bool) -> int:
    """Numbers that decoding keeps however much it has read."""
    c = config
    if c.mixer == "conv":
        cycle = [((c.kernel_size) - 1) * c.dilation_of(layer) * c.width for layer in range(CYCLE)]
        return layers // CYCLE * sum(cycle) + sum(cycle[: layers % CYCLE])
    if c.mixer not in LINEAR:
        return 0
    return (2 if source else 1) * layers * c.heads * (LINEAR[c.mixer](c) * (c.key_width + 1) + 1)


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def embedding(name: str, vocabulary: int, width: int, tied: bool = False) -> Part:
    return Part(
        name,
        f"V={vocabulary:,} x D={width}" + (" (shared)" if tied else ""),
        "model/embedding.py",
        0 if tied else vocabulary * width,
    )


def learned_positions(name: str, maximum: int, width: int) -> Part:
    return Part(name, f"L={maximum:,} x D={width}", "model/position/absolute.py", maximum * width)


def norm(width: int, kind: str = "layer") -> Part:
    return Part("norm", f"D={width}", "model/norm.py", width if kind == "rms" else 2 * width)


def attention(name: str, config: BlockConfig, heads: int, queries: int, keys: int, share: float = 1.0) -> Part:
    """Of so many heads that are left; each query looks at this share of all keys."""
    width, head_width, inner = config.width, config.key_width, heads * config.key_width
    groups = config.kv_heads or heads
    kv = groups * head_width
    projections = 2 * width * (inner * 2 * queries + kv * 2 * keys)  # Q and out; K and V
    shape = f"D={width} as H={heads} x K={head_width}" + (f", G={groups}" if groups != heads else "")
    flops = projections + mixing(config, heads, queries, keys, share)
    own = (
        linear(width, inner + 2 * kv, config.bias)
        + linear(inner, width, config.bias)
        + score_parameters(config.mixer, head_width)
    )
    return Part(name, shape, "model/attention.py", own, flops)


def score_parameters(mixer: str, head_width: int) -> int:
    """Of what compares queries with keys."""
    return {"bilinear": head_width**2, "additive": head_width}.get(mixer, 0)


def mixing(config: BlockConfig, heads: int, queries: int, keys: int, share: float = 1.0) -> int:
    """Operations between projections. Of features, sums over all keys; a causal scan computes some triangles beside."""
    inner = heads * config.key_width
    if config.mixer not in LINEAR:
        between = 2 * queries * inner * config.key_width if config.mixer == "bilinear" else 0
        return between + 2 * round(queries * keys * share) * inner * 2  # QK^T and weights times V
    features = LINEAR[config.mixer](config)
    mapped = 2 * inner * features * (queries + keys) if config.mixer == "favor" else 0
    return mapped + 2 * inner * features * (queries + keys) + 2 * heads * features * queries  # K^T V, Q times it and its total


LINEAR: dict[str, Callable[[BlockConfig], int]] = {  # features of each
    "favor": lambda config: config.feature_count,
    "linear-relu": lambda config: config.key_width,
}


def convolution(name: str, config: BlockConfig, tokens: int) -> Part:
    width, kernel = config.width, config.kernel_size
    parameters = linear(width, 2 * width) + config.heads * kernel + linear(width, width)
    flops = 2 * tokens * width * (3 * width + kernel)
    return Part(name, f"D={width} as H={config.heads}, {kernel} neighbours", "model/mixers/convolution.py", parameters, flops)


def feedforward(width: int, inner: int, tokens: int, gated: bool = False, bias: bool = True) -> Part:
    wide = 2 if gated else 1
    parameters = wide * linear(width, inner, bias) + linear(inner, width, bias)
    shape = f"D={width} F={inner}" + (" gated" if gated else "")
    return Part("feedforward", shape, "model/feedforward.py", parameters, 2 * tokens * width * inner * (wide + 1))


def vocabulary_head(width: int, vocabulary: int, tokens: int, tied: bool, bias: bool = False) -> Part:
    parameters = (0 if tied else width * vocabulary) + (vocabulary if bias else 0)
    shape = f"D={width} -> V={vocabulary:,}" + (" (shared)" if tied else "")
    return Part("vocabulary head", shape, "model/heads.py", parameters, 2 * tokens * width * vocabulary)


def stack(name: str, config: BlockConfig, layers: int, tokens: int, memory: int | None = None) -> Part:
    """Blocks over `tokens` positions, with cross-attention to `memory` positions where given; those of one shape together."""
    c = config
    different = range(layers if c.pruned else 1)  # or a billion layers would be counted one by one
    blocks = []
    for parts, alike in groupby(_block(c, f"{name}.{n}", tokens, memory) for n in different):
        times = len(list(alike)) if c.pruned else layers
        blocks += [Part(f"{times} x block", f"B,L,D={c.width} -> B,L,D", "model/block.py", children=parts, times=times)]
    last = (norm(c.width, c.norm),) if c.norm_placement == "pre" else ()
    return Part(
        name, f"{layers} layers, {c.norm_placement}-norm", "model/stack.py", children=(*blocks, *last, *_position(c, layers))
    )


def _position(config: BlockConfig, layers: int) -> tuple[Part, ...]:
    """Return what a position scheme has learned inside attention."""
    c = config
    if not isinstance(c, BodyConfig) or c.position not in ("relative", "transformer-xl"):
        return ()
    if c.position == "relative":
        return (Part("position", f"{c.buckets} x H={c.heads}", "model/position/relative_bias.py", c.buckets * c.heads),)
    inner = c.heads * c.key_width
    parameters = layers * (2 * inner + c.width * inner)
    return (Part("position", f"{layers} x (D={c.width} -> {inner}, u, v)", "model/position/transformer_xl.py", parameters),)


def _block(config: BlockConfig, name: str, tokens: int, memory: int | None) -> tuple[Part, ...]:
    c, share = config, computed(parse_visibility(config.visibility), tokens) if isinstance(config, BodyConfig) else 1.0

    def looking(kind: str, keys: int, share: float) -> list[Part]:
        if c.mixer == "conv" and kind == "self":
            return [convolution(kind, c, tokens), norm(c.width, c.norm)]
        return [attention(kind, c, len(kept_heads(c, f"{name}.{kind}")), tokens, keys, share), norm(c.width, c.norm)]

    parts = looking("self", tokens, share) + ([] if memory is None else looking("cross", memory, 1.0))
    return (*parts, feedforward(c.width, c.feedforward, tokens, c.feedforward_kind == "gated", c.bias), norm(c.width, c.norm))

"""Parameters and operations of every part, in closed form: nothing is allocated, so 175 billion are counted in a millisecond.

A multiply-add is two operations; a product of L vectors with a D x E matrix is 2 L D E. Norms, biases, softmax and activations
are left out of operations, as usual, and are counted among parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.model.block import BlockConfig


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


def keys_and_values(width: int, layers: int) -> int:
    """Numbers that decoding keeps of every token it has read: a key and a value as wide as the model, in every layer."""
    return 2 * layers * width


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def embedding(name: str, vocabulary: int, width: int, tied: bool = False) -> Part:
    return Part(
        name, f"V={vocabulary:,} x D={width}" + (" (shared)" if tied else ""), "model/embed.py", 0 if tied else vocabulary * width
    )


def learned_positions(name: str, maximum: int, width: int) -> Part:
    return Part(name, f"L={maximum:,} x D={width}", "model/position.py", maximum * width)


def norm(width: int) -> Part:
    return Part("norm", f"D={width}", "model/block.py", 2 * width)


def attention(name: str, width: int, heads: int, queries: int, keys: int, projected_keys: int) -> Part:
    """`keys` are looked at by each query; `projected_keys` of them are projected to K and V."""
    products = 2 * queries * keys * width * 2  # QK^T and weights times V
    projections = 2 * width * width * (2 * queries + 2 * projected_keys)  # Q and out; K and V
    shape = f"D={width} as H={heads} x K={width // heads}"
    return Part(name, shape, "model/attention.py", linear(width, 3 * width) + linear(width, width), products + projections)


def feedforward(width: int, inner: int, tokens: int) -> Part:
    flops = 2 * tokens * width * inner * 2
    return Part("feedforward", f"D={width} F={inner}", "model/feedforward.py", linear(width, inner) + linear(inner, width), flops)


def vocabulary_head(width: int, vocabulary: int, tokens: int, tied: bool, bias: bool = False) -> Part:
    parameters = (0 if tied else width * vocabulary) + (vocabulary if bias else 0)
    shape = f"D={width} -> V={vocabulary:,}" + (" (shared)" if tied else "")
    return Part("vocabulary head", shape, "model/heads.py", parameters, 2 * tokens * width * vocabulary)


def stack(name: str, config: BlockConfig, layers: int, tokens: int, memory: int | None = None) -> Part:
    """Blocks over `tokens` positions, with cross-attention to `memory` positions where given."""
    c = config
    parts = [attention("self", c.width, c.heads, tokens, tokens, tokens), norm(c.width)]
    if memory is not None:
        parts += [attention("cross", c.width, c.heads, tokens, memory, memory), norm(c.width)]
    parts += [feedforward(c.width, c.feedforward, tokens), norm(c.width)]
    block = Part(f"{layers} x block", f"B,L,D={c.width} -> B,L,D", "model/block.py", children=tuple(parts), times=layers)
    last = (norm(c.width),) if c.norm == "pre" else ()
    return Part(name, f"{layers} layers, {c.norm}-norm", "model/stack.py", children=(block, *last))

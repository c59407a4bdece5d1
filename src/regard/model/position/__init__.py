"""Position schemes, the third axis of attention: mixer x visibility x position.

    sinusoidal, learned     vectors added to the input, by `model/embedding.py`
    sinusoidal-halves       the same waves, all sines before all cosines
    rotary                  queries and keys turned by an angle
    relative, alibi         numbers added to the scores, by distance
    transformer-xl          scores of a query with a distance
    none                    nothing: order is not given

A scheme implements the hooks of `Position` that it needs. Vectors of the input belong to `Embed`; what acts on queries, keys and
scores belongs to a `Stack`, which shares it between its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from regard.core.errors import UserError, nearest
from regard.model.position.base import Position
from regard.model.position.relative import ALiBi, RelativeBias, Rotary, TransformerXL

if TYPE_CHECKING:
    from regard.model.block import BodyConfig

ABSOLUTE = ("sinusoidal", "sinusoidal-halves", "learned", "none")  # kinds that attention itself does not know of


class Scheme(NamedTuple):
    """A scheme that acts inside attention: how it is built, and what it does to queries, keys or scores."""

    build: Callable[[BodyConfig, int, bool], Position]  # (settings, layers, causal)
    does: Literal["rotates", "biases"]


SCHEMES: dict[str, Scheme] = {
    "rotary": Scheme(lambda c, layers, causal: Rotary(c.key_width, c), "rotates"),
    "relative": Scheme(
        lambda c, layers, causal: RelativeBias(c.heads, causal=causal, buckets=c.buckets, farthest=c.farthest), "biases"
    ),
    "alibi": Scheme(lambda c, layers, causal: ALiBi(c.heads), "biases"),
    "transformer-xl": Scheme(lambda c, layers, causal: TransformerXL(c.width, c.heads, c.key_width, layers, c.scaled), "biases"),
}


def attention_position(config: BodyConfig, layers: int, *, causal: bool) -> Position | None:
    """Return the scheme for the self-attention of one stack, or None where positions are given with the input, or not at all."""
    return SCHEMES[config.position].build(config, layers, causal) if config.position in SCHEMES else None


def is_biased(config: BodyConfig) -> bool:
    """Does the position scheme of these settings add a bias to scores?"""
    return config.position in SCHEMES and SCHEMES[config.position].does == "biases"


def check_position(config: BodyConfig, linear: bool, scores: bool) -> None:
    """Refuse a scheme that the mixer cannot use. `scores`: it compares each query with each key; `linear`: by features."""
    if config.position not in (names := (*ABSOLUTE, *SCHEMES)):
        raise UserError(f"model.position={config.position} is not a choice{nearest(config.position, names)}")
    if (scheme := SCHEMES.get(config.position)) is not None:
        others = "sinusoidal, learned, none" + (", rotary" if linear else "")
        if scheme.does == "biases" and not scores:
            raise UserError(
                f"model.position={config.position} adds a bias to scores, and model.mixer={config.mixer} computes none; "
                f"choose one of {others}, or model.mixer=softmax."
            )
        if scheme.does == "rotates" and not (scores or linear):
            raise UserError(
                f"model.position={config.position} rotates queries and keys, and model.mixer={config.mixer} has none; "
                f"choose one of {others}, or model.mixer=softmax."
            )
        if config.position == "rotary" and config.key_width % 2:
            raise UserError(
                f"model.position=rotary turns pairs of numbers, and heads are {config.key_width} wide, an odd number; "
                f"set model.head_width={config.key_width + 1}."
            )
        if scheme.does == "biases" and config.pruned:
            raise UserError(
                f"model.pruned={config.pruned[0]}: model.position={config.position} has a bias for every head; leave it out."
            )

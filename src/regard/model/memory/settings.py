"""The recipe keys of a segment memory, and the settings that they do not go with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from regard.core.config import Bounds
from regard.core.errors import UserError
from regard.model.visibility.parse import parse_visibility

BY_DISTANCE = ("transformer-xl", "relative", "alibi", "rotary", "none")  # position schemes that need no place in a segment


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """Recipe keys of decoders that can have a memory of earlier segments."""

    memory: Annotated[int, Bounds(0, zero="no memory")] = 0  # tokens before a segment, of which the inputs of layers are kept
    memory_start: Literal["empty", "zeros"] = "empty"  # of a text; zeros: vectors that are attended to, as in transformers
    same_length: bool = False  # each token sees the last model.memory tokens, itself counted, wherever it stands in its segment


def check_memory(config: Any) -> None:
    """Refuse settings of a decoder with which a memory means nothing."""
    if not config.memory:
        for key, value in (("memory_start", config.memory_start), ("same_length", config.same_length)):
            if value != getattr(MemorySettings, key):
                raise UserError(f"model.{key}={str(value).lower()} is for a model with a memory; give model.memory=128 too.")
        return
    if config.position not in BY_DISTANCE:
        raise UserError(
            f"model.position={config.position} counts from the start of a segment, so tokens of model.memory={config.memory} "
            f"would have the positions of later ones; choose one of {', '.join(BY_DISTANCE)}, or model.memory=0."
        )
    if not config.compares:
        raise UserError(
            f"model.memory={config.memory} is for mixers that compare queries with keys, and model.mixer={config.mixer} does "
            "not; choose model.mixer=softmax, or model.memory=0."
        )
    if not parse_visibility(config.visibility).relative:
        raise UserError(
            f"model.visibility={config.visibility} depends on where in a text a token stands, which a segment after "
            f"model.memory={config.memory} does not know; choose full or window(RADIUS), or model.memory=0."
        )

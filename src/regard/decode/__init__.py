"""From a model to its outputs: one search for recurrent, cached and linear-attention states."""

from __future__ import annotations

from regard.decode.batching import in_batches
from regard.decode.beam import beam_search
from regard.decode.choice import Choice
from regard.decode.config import DecodeConfig
from regard.decode.graph import Sessions, sessions_on
from regard.decode.greedy import greedy
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Listener
from regard.decode.sample import sample

__all__ = [
    "Choice",
    "DecodeConfig",
    "Hypothesis",
    "Listener",
    "Sessions",
    "beam_search",
    "greedy",
    "in_batches",
    "sample",
    "sessions_on",
]

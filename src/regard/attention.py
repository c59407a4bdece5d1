"""The parts of every model here, for your own PyTorch code: attention, blocks, patterns, mixers, positions.

    import torch
    from regard.attention import BlockConfig, Stack, causal, parse_visibility

    config = BlockConfig(width=64, heads=4, feedforward=256)
    stack = Stack(config, layers=2, name="decoder")
    view = (causal & parse_visibility("window(8)")).over(32, 32, device=torch.device("cpu"))     # queries, keys
    y_BLD = stack(torch.randn(1, 32, 64), view)

Shapes are in the names: B batch, L queries, M keys, D width, H heads, K head width. `regard.probe(module)` records attention.
"""

from regard.model.attention import Attention
from regard.model.block import Block, BlockConfig, Stack
from regard.model.embedding import Embed, Learned, Sinusoidal, VocabularyHead
from regard.model.init import initialise
from regard.model.layers import FeedForward
from regard.model.mixers import MIXERS, Mixer
from regard.model.position.base import Bias, Placement, Position
from regard.model.position.relative import ALiBi, ByDistance, RelativeBias, Rotary, TransformerXL
from regard.model.probe import probe
from regard.model.visibility import View, Visibility, causal, documents, full, padding, window
from regard.model.visibility.parse import parse_visibility

__all__ = [
    "MIXERS",
    "ALiBi",
    "Attention",
    "Bias",
    "Block",
    "BlockConfig",
    "ByDistance",
    "Embed",
    "FeedForward",
    "Learned",
    "Mixer",
    "Placement",
    "Position",
    "RelativeBias",
    "Rotary",
    "Sinusoidal",
    "Stack",
    "TransformerXL",
    "View",
    "Visibility",
    "VocabularyHead",
    "causal",
    "documents",
    "full",
    "initialise",
    "padding",
    "parse_visibility",
    "probe",
    "window",
]

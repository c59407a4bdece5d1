"""LLaMA and its relatives: the decoder block of today, on the same stack as GPT's.

Touvron et al. 2023, section 2.2; each part has a paper of its own. Against GPT-2:

    positions        learned vectors        rotated queries and keys (Su et al. 2021), scaled for long texts in Llama 3.1
    norm             layer, with bias       root mean square, without (Zhang & Sennrich 2019)
    feed-forward     gelu(x W_1) W_2        (silu(x W_g) * x W_1) W_2 (Shazeer 2020)
    biases           everywhere             none; Qwen2 has them on queries, keys and values
    keys and values  one for each head      one for a group of heads (Ainslie et al. 2023)
    output layer     the embedding          a matrix of its own; the smallest models share it

Mistral (Jiang et al. 2023) sees a window of the last tokens, `model.visibility=window(4095)`: 4,096 with the token itself.
Qwen3 normalises queries and keys, `model.qk_norm=true`. Every one of these is a setting, so 2017 and today differ by keys alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.families.base import Family, Sizes, random_ids
from regard.families.gpt import GPT, GPTConfig
from regard.model.layers import Activation, FeedForwardKind, NormKind


@dataclass(frozen=True, kw_only=True)
class LLaMAConfig(GPTConfig):
    """The defaults are those of LLaMA 7B."""

    family: Literal["llama"] = "llama"  # type: ignore[assignment]
    width: int = 4096
    heads: int = 32
    layers: int = 32
    feedforward: int = 11_008
    feedforward_kind: FeedForwardKind = "gated"
    activation: Activation = "silu"
    bias: bool = False
    dropout: float = 0.0
    norm: NormKind = "rms"
    norm_epsilon: float = 1e-5
    position: str = "rotary"
    maximum_length: int = 2048
    tie: Literal["output", "none"] = "none"


def _inputs(config: LLaMAConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor]:
    """Return (ids_BL,)."""
    return (random_ids(sizes.vocabulary, batch, length),)


FAMILY = Family(
    name="llama",
    config=LLaMAConfig,
    build=lambda config, sizes, seed: GPT(config, sizes.vocabulary, seed),
    inputs=_inputs,
    capabilities=frozenset({"causal_lm", "pooled_vector", "attention", "blocks"}),
)

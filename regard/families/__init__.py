"""Families only choose parts. Their settings, by the name a recipe uses."""

from __future__ import annotations

from regard.families.bert import BERTConfig
from regard.families.electra import ELECTRAConfig
from regard.families.gpt import GPTConfig
from regard.families.transformer import TransformerConfig

FAMILIES = {"transformer": TransformerConfig, "gpt": GPTConfig, "bert": BERTConfig, "electra": ELECTRAConfig}

"""Families only choose parts. Their settings, by the name a recipe uses."""

from __future__ import annotations

from regard.families.bert import BERTConfig
from regard.families.captioner import CaptionerConfig
from regard.families.electra import ELECTRAConfig
from regard.families.elmo import ELMoConfig
from regard.families.encoder import EncoderConfig
from regard.families.gpt import GPTConfig
from regard.families.hierarchical import HierarchicalConfig
from regard.families.hran import HRANConfig
from regard.families.recurrent import RecurrentConfig
from regard.families.transformer import TransformerConfig
from regard.families.words import WordsConfig

FAMILIES = {
    "transformer": TransformerConfig,
    "gpt": GPTConfig,
    "bert": BERTConfig,
    "electra": ELECTRAConfig,
    "elmo": ELMoConfig,
    "encoder": EncoderConfig,
    "recurrent": RecurrentConfig,
    "hierarchical": HierarchicalConfig,
    "hran": HRANConfig,
    "words": WordsConfig,
    "captioner": CaptionerConfig,
}

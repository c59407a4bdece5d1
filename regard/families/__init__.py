"""Families only choose parts. Their settings, by the name a recipe uses."""

from __future__ import annotations

from regard.families.bert import BERTConfig
from regard.families.electra import ELECTRAConfig
from regard.families.encoder import EncoderConfig
from regard.families.gpt import GPTConfig
from regard.families.recurrent import RecurrentConfig
from regard.families.transformer import TransformerConfig
from regard.families.words import WordsConfig

FAMILIES = {
    "transformer": TransformerConfig,
    "gpt": GPTConfig,
    "bert": BERTConfig,
    "electra": ELECTRAConfig,
    "encoder": EncoderConfig,
    "recurrent": RecurrentConfig,
    "words": WordsConfig,
}

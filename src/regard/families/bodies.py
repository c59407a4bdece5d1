"""Bodies that read a whole text and give every word its vector, by their settings: BERT and its relatives, ELMo."""

from __future__ import annotations

from regard.families import bert, elmo
from regard.families.base import MASKED_WORDS, Heads
from regard.families.bert import BERT, BERTConfig
from regard.families.elmo import ELMo, ELMoConfig
from regard.model.flops import Part

Config = BERTConfig | ELMoConfig
Body = BERT | ELMo


def body_of(config: Config, vocabulary: int, seed: int = 0, heads: Heads = MASKED_WORDS) -> Body:
    return ELMo(config, vocabulary, seed, heads) if isinstance(config, ELMoConfig) else BERT(config, vocabulary, seed, heads)


def count(config: Config, vocabulary: int, tokens: int, heads: Heads = MASKED_WORDS) -> Part:
    if isinstance(config, ELMoConfig):
        return elmo.count(config, vocabulary, tokens, heads)
    return bert.count(config, vocabulary, tokens, heads=heads)

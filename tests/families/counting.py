"""Counts of small models, with what tests say about them."""

from regard.families import family_of
from regard.families.base import MASKED_WORDS, Heads, Sizes
from regard.families.flops import Part


def count(config, vocabulary: int, tokens: int, scored: int | None = None, heads: Heads = MASKED_WORDS) -> Part:
    return family_of(config).count(config, Sizes(vocabulary=vocabulary, heads=heads), tokens, scored=scored)


def count_pair(config, source_vocabulary: int, target_vocabulary: int, source: int, target: int) -> Part:
    sizes = Sizes(vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
    return family_of(config).count(config, sizes, target, source)

"""Uses of a word with vectors that are drawn, not read: what tests of its pictures share."""

from __future__ import annotations

import numpy as np

from regard.lens.analyses.word_senses import Use, WordUses


def use(sentence: str, word: str = "bank", sense: str = "", pieces: tuple[str, ...] = ("bank",)) -> Use:
    start = sentence.index(word)
    return Use(sentence, start, start + len(word), pieces, sense)


def some(count: int = 6, layers: int = 3, senses: int = 0, seed: int = 0) -> WordUses:
    """Every layer moves the uses further apart, those of one sense less."""
    draw = np.random.default_rng(seed)
    one, apart = draw.normal(size=16), draw.normal(size=(max(1, senses), 16))
    uses = tuple(
        use(f"{'very ' * (n % 7)}near the bank {'and so on ' * (n % 4)}.", sense=f"sense {n % senses}" if senses else "")
        for n in range(count)
    )
    vectors = [np.tile(one, (count, 1))]
    for layer in range(layers + 1):
        moved = [apart[n % max(1, senses)] + 0.5 * draw.normal(size=16) for n in range(count)]
        vectors.append(one + 0.3 * layer * np.stack(moved))
    return WordUses("bank", "a model", uses, tuple(vectors), np.linspace(0.9, 0.7, layers + 2))

"""Text that the tests of this folder share: a few lines to learn from, and lines of every script to get lost in."""

from __future__ import annotations

import random
from functools import cache

from hypothesis import strategies as st

from regard.text.config import Kind
from regard.text.tokenizer import Tokenizer, train_tokenizer

TEXTS = [
    "the animal did not cross the street because it was too tired.",
    "l'animal n'a pas traversé la rue parce qu'il était trop fatigué !",
    "parce qu'il dort. « Où est-elle ? » Elle dort, elle aussi.",
    "die Straße war zu breit; 3,5 m <breit>, zu breit für das Tier (groß)",
    "das Tier war müde, the street was wide, la rue était large",
] * 3
SEEN = "".join(sorted(set("".join(TEXTS))))
SIZES: dict[Kind, int] = {
    "bpe": 150,
    "wordpiece": 200,
    "unigram": 150,
    "word": 150,
    "character": 150,
    "byte": 0,
    "byte-bpe": 340,
    "spaced": 150,
}

seen_text = st.text(alphabet=SEEN, max_size=60)
any_text = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cn", "Co"]), max_size=40)


@cache
def trained(kind: Kind) -> Tokenizer:
    return train_tokenizer(kind, TEXTS, SIZES[kind])


SCRIPTS = (
    (0x21, 0x7E), (0xA1, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x600, 0x6FF), (0x900, 0x97F),
    (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x1200, 0x135A), (0x1E00, 0x1FFE), (0x2010, 0x22FF), (0x3041, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFF01, 0xFFEE), (0x10330, 0x1034A), (0x1D400, 0x1D7FF), (0x20000, 0x2A6D6),
)  # fmt: skip
SPACES = [
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\u00a0",
    "\u2003",
    "\u2028",
    "\u3000",
    "\u200b",
    "\ufeff",
    "\x85",
]
ODD = [
    "'s",
    "'LL",
    "’ve",
    "don't",
    "e\u0301",
    "a\u0308\u0323",
    "👩‍👩‍👧",
    "❤️",
    "🇫🇷",
    "👍🏽",
    "ﬁ",
    "İ",
    "ß",
    "½",
    "١٢٣",
    "\x00",
    "\x1b",
    "\ufffd",
]


def mixed_lines(count: int, seed: int) -> list[str]:
    """Words of one script each, joined by all kinds of space, with apostrophes, emoji, stray accents and any character."""
    chance = random.Random(seed)

    def word() -> str:
        if chance.random() < 0.2:
            return chance.choice(ODD)
        if chance.random() < 0.1:
            return chr(chance.choice((chance.randrange(0xD800), chance.randrange(0xE000, 0x110000))))
        low, high = chance.choice(SCRIPTS)
        letters = "".join(chr(chance.randint(low, high)) for _ in range(chance.randint(1, 7)))
        return letters + (chr(chance.randint(0x300, 0x36F)) if chance.random() < 0.1 else "")

    def line() -> str:
        parts = (word() + (chance.choice(SPACES) if chance.random() < 0.8 else "") for _ in range(chance.randint(0, 12)))
        return (chance.choice(SPACES) if chance.random() < 0.2 else "") + "".join(parts)

    return [line() for _ in range(count)]

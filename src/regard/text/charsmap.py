"""Check SentencePiece's character table, `precompiled_charsmap`: no lookup of a text may read outside of the table.

The table holds the size of a trie in bytes, the trie, and the replacement texts, each ended by NUL. The trie is a double array of
32-bit units (Darts): the index of the next unit is an XOR with a byte of the text, and the library does not check that index.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

BLOCK = 256  # units; a whole number of them, so that no byte leads out of the array from within
LONGEST_KEY = 256  # bytes that are replaced together; those of Unicode's normal forms have some twenty
LEAF, HAS_LEAF, LABEL = 1 << 31, 1 << 8, 0xFF


def longest_replacement(charsmap: Any) -> int | None:
    """Return the length in bytes of the longest replacement, or None if the table is damaged."""
    try:
        content = base64.b64decode(charsmap, validate=True)
        size = int.from_bytes(content[:4], "little")
        texts = content[4 + size :]
        texts.decode("utf-8")
    except (TypeError, ValueError):
        return None
    if size % (4 * BLOCK) or not 0 < size <= len(content) - 4:
        return None
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
    return max(map(len, texts.split(b"\0"))) if _stays_inside(units, np.frombuffer(texts, np.uint8)) else None


def _stays_inside(units: np.ndarray, texts: np.ndarray) -> bool:
    """Check that every index reached from the root lies in the trie, and that every leaf points to the start of a character."""
    numbers, label = np.arange(len(units)), units & LABEL
    base = numbers ^ ((units >> 10) << ((units & (1 << 9)) >> 6))  # from where the next byte leads on
    waiting = ((units & LEAF) == 0) & (label > 0)  # may be reached by their label
    known = np.zeros(len(units), bool)
    reached = base[:1]
    for _ in range(LONGEST_KEY):
        if (reached >= len(units)).any():
            return False
        known[reached] = True
        found = waiting & known[numbers ^ label]
        waiting &= ~found
        reached = base[found]
        ends = base[found & ((units & HAS_LEAF) > 0)]
        if (ends >= len(units)).any() or not _begin_characters(units[ends] & (LEAF - 1), texts):
            return False
        if not found.any():
            return True
    return False


def _begin_characters(places: np.ndarray, texts: np.ndarray) -> bool:
    return bool((places < len(texts)).all() and ((texts[places] & 0xC0) != 0x80).all())

"""What of a batch's rows are words, as a visibility: not the padding, or of packed sequences only one's own."""

from __future__ import annotations

from torch import Tensor

from regard.data.packing import Packing, Words
from regard.model.visibility import Documents, Visibility, padding


def only_words(keys: Words, queries: Packing | None = None) -> Visibility:
    """What may be looked at of these keys; by the keys themselves, where no other queries are named."""
    if not isinstance(keys, Packing):
        return padding(keys)
    queries = queries or keys
    return Documents(queries.ids_T[None], keys.ids_T[None], (queries, keys))


def positions(words: Words | None) -> Tensor | None:
    """None where every row starts at 0."""
    return words.positions_T if isinstance(words, Packing) else None

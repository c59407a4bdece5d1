"""What of a batch's rows are words, as a visibility: not the padding, or where several sequences share a row only one's own."""

from __future__ import annotations

from torch import Tensor

from regard.core.packing import Packing, Pieces, Words
from regard.model.visibility import Documents, Visibility, padding


def only_words(keys: Words, queries: Packing | None = None) -> Visibility:
    """What may be looked at of these keys; by the keys themselves, where no other queries are named."""
    match keys:
        case Packing():
            queries = queries or keys
            places = queries.positions_T[None], keys.positions_T[None]
            return Documents(queries.ids_T[None], keys.ids_T[None], (queries, keys), places)
        case Pieces():
            return Documents(keys.ids_BL, keys.ids_BL, places=(keys.positions_BL, keys.positions_BL))
        case _:
            return padding(keys)


def positions(words: Words | None) -> Tensor | None:
    """None where every row starts at 0."""
    match words:
        case Packing():
            return words.positions_T
        case Pieces():
            return words.positions_BL
        case _:
            return None

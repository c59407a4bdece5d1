"""One function for each kind of search, so that a test says in one line what it asks for."""

from __future__ import annotations

from typing import Any

from regard.decode.config import GREEDY, BeamSettings, Sampling
from regard.decode.request import Hypothesis, SearchRequest
from regard.decode.search import search
from regard.model.state.protocol import EncodedInput


def greedy(encoded: EncodedInput, **options: Any) -> list[Hypothesis]:
    """Return the hypothesis of each row."""
    return sample(encoded, method=GREEDY, **options)


def sample(encoded: EncodedInput, *, method: Sampling, **options: Any) -> list[Hypothesis]:
    """Return the samples of all rows; those of a row are side by side."""
    return [one for found in search(SearchRequest(encoded=encoded, method=method, **options)) for one in found]


def beam_search(encoded: EncodedInput, *, beam: int, alpha: float, n_best: int = 1, **options: Any) -> list[list[Hypothesis]]:
    settings = BeamSettings(beam=beam, length_penalty=alpha, n_best=n_best)
    return search(SearchRequest(encoded=encoded, method=settings, **options))

"""Rows of a search: a request that is put together from rows is the one that is written out."""

from __future__ import annotations

import pytest

from regard.decode.config import GREEDY
from regard.decode.request import SearchRequest
from regard.decode.rows import SearchRow, request_of
from regard.decode.search import search
from tests.decode.models import language_model, last, padded, prompts


@pytest.mark.parametrize("forced", [(), (7, 9)])
def test_rows_make_the_request_that_is_written_out(forced: tuple[int, ...]) -> None:
    model, texts = language_model(), prompts(3, seed=2)
    encoded, options = model.start(*padded(texts)), {"eos": 2, "banned": (1, 3), "no_repeat_ngram": 3}
    rows = [
        SearchRow(
            read=text[:-1], length=len(text) - 1, sos=text[-1], limit=5 + n, options=options, prompt=tuple(text), forced=forced
        )
        for n, text in enumerate(texts)
    ]
    plain = SearchRequest(
        encoded=encoded, sos=last(texts), limits=[5, 6, 7], prompts=texts, forced=[forced] * 3 if forced else None, **options
    )
    found = search(request_of(encoded, rows, GREEDY))
    assert found == search(plain)
    assert all(best.ids[: len(forced)] == list(forced) for (best,) in found)

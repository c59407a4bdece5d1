"""Visibilities that need no mask, and lengths up to which a sparse pattern leaves out nothing."""

from __future__ import annotations

import pytest
import torch

from regard.model.visibility import causal, documents, full, padding, window
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.unmasked import must_be_plain, plain, whole_up_to

LENGTHS, IDS = torch.tensor([3, 2]), torch.tensor([[0, 0, 1]])


def test_what_is_plain():
    assert plain(full) is not None
    assert plain(causal).causal
    assert plain(causal & padding(LENGTHS)).lengths_B is LENGTHS
    found = plain(causal & documents(IDS))
    assert found.causal
    assert found.documents_BL is IDS
    assert plain(window(3)) is None
    assert plain(padding(LENGTHS) & padding(LENGTHS)) is None
    with pytest.raises(ValueError, match=r"linear attention sees everything .* cannot see window"):
        must_be_plain(window(3), "linear attention")


@pytest.mark.parametrize(
    ("text", "whole", "back"), [("full", 2048, 2048), ("causal", 1, 2048), ("window(5)", 6, 6), ("block(4)", 4, 4)]
)
def test_short_texts_are_seen_whole(text: str, whole: int, back: int):
    assert [whole_up_to(parse_visibility(text), back=each) for each in (False, True)] == [whole, back]

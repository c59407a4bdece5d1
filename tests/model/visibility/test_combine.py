"""Conjunctions and alternatives of patterns: the logic, what they promise, how they print.

Visibilities that need no mask, and lengths up to which a sparse pattern leaves out nothing.
"""

from __future__ import annotations

import pytest
import torch

from regard.core.packing import Pieces
from regard.model.visibility import causal, dense, documents, full, only_words, padding, window
from regard.model.visibility.combine import Both, Either, Placed, must_be_plain, plain, whole_up_to
from regard.model.visibility.parse import parse_visibility

PLACES = torch.arange(9)


def seen(pattern, batch: int = 1):
    return dense(pattern.with_length(9), PLACES, 9, batch=batch) > 0


@pytest.mark.parametrize("left", ["causal", "window(2)", "block(3)", "global(1)"])
@pytest.mark.parametrize("right", ["window(1)", "strided(3)", "last(3)"])
def test_and_or_are_those_of_every_pair(left: str, right: str):
    one, other = parse_visibility(left), parse_visibility(right)
    assert torch.equal(
        seen(one & other), seen(one.with_length(None) & other.with_length(None)) if one.looks_back else seen(one & other)
    )
    assert torch.equal(seen(one | other), seen(one) | seen(other))
    if not one.looks_back:  # what looks back cannot know where a text ends
        assert torch.equal(seen(one & other), seen(one) & seen(other))


def test_full_disappears():
    assert full & causal is causal
    assert causal & full is causal
    assert (full | causal) is full


def test_promises():
    both, either = causal & window(2), causal | window(2)
    assert isinstance(both, Both)
    assert isinstance(either, Either)
    assert (both.looks_back, either.looks_back) == (True, False)
    assert (both.reach, either.reach) == ((2, 0), None)
    assert (both.sees_itself, both.sees_first, either.sees_first) == (True, False, True)
    assert str(both & padding(torch.tensor([3]))) == "(causal & window(2) & padding)"


def test_documents_of_a_row_have_places_of_their_own():
    words = only_words(Pieces.of([4, 5], rows=1))
    pattern = parse_visibility("block(3)") & words
    assert isinstance(pattern, Both)
    assert isinstance(pattern.left, Placed)
    found = seen(pattern)[0, 0]
    assert torch.equal(found[:4, :4], seen(parse_visibility("block(3)"))[0, 0][:4, :4])
    assert torch.equal(found[4:, 4:], seen(parse_visibility("block(3)"))[0, 0][:5, :5])
    assert not found[:4, 4:].any()


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

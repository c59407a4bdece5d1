"""Sparse patterns against rules written out by hand, in batches and in documents."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.model.visibility import Documents, causal, dense, documents, only_words, padding, window
from regard.model.visibility.bigbird import BigBirdFixed, bigbird
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.patterns import Last
from tests.model.visibility.pattern_cases import CPU, RULES, few, seen


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("length", [1, 7, 23])
def test_patterns_are_what_their_papers_say(text, length):
    rule = [[RULES[text](i, j, length) for j in range(length)] for i in range(length)]
    assert torch.equal(seen(parse_visibility(text), length)[0], torch.tensor(rule))


@few
@given(st.lists(st.integers(1, 40), min_size=2, max_size=4))
def test_a_batch_sees_what_each_text_sees_alone(lengths):
    for pattern in (bigbird(3, seed=7), BigBirdFixed(3, 1), Last(4)):
        together = seen(pattern & padding(torch.tensor(lengths)), max(lengths), len(lengths))
        for n, length in enumerate(lengths):
            assert torch.equal(together[n, :length, :length], seen(pattern, length)[0])
            assert not together[n, :, length:].any()


def test_documents_in_one_row_are_seen_as_if_alone():
    from regard.core.packing import Packing, Pieces

    for words in (Packing.of([7, 12, 5]), Pieces.of([7, 12, 5], 1)):
        pattern = causal & bigbird(3) & only_words(words)
        together = dense(pattern.with_length(24), torch.arange(24), 24)[0, 0]
        for start, end in pairwise((0, 7, 19, 24)):
            assert torch.equal(together[start:end, start:end], seen(causal & bigbird(3), end - start)[0])
            assert not together[start:end, :start].any()
        turned = dense((only_words(words) & (causal & bigbird(3))).with_length(24), torch.arange(24), 24)[0, 0]
        assert torch.equal(turned, together)
        with pytest.raises(TypeError, match="padded, not packed"):
            (bigbird(3) & only_words(words)).over(24, 24, device=CPU)
    assert isinstance((window(2) & only_words(Packing.of([3, 4]))).right, Documents)  # relative, so left as it is
    assert (window(2) & only_words(Packing.of([3, 4]))).reach == (2, 2)


def test_relative_patterns_are_left_in_rows_of_documents():
    ids = torch.tensor([[0, 0, 1, 1]])
    assert seen(documents(ids) & window(1), 4)[0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]

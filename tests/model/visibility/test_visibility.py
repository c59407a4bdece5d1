"""A pattern says yes or no for one pair; everything else it can do must agree with that."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.model.visibility import Visibility, causal, dense, documents, full, padding, window
from regard.model.visibility.parse import parse_visibility

CPU = torch.device("cpu")


def by_hand(rule, length, memory, offset=0):
    return torch.tensor([[rule(i + offset, j) for j in range(memory)] for i in range(length)])


@given(length=st.integers(1, 9), memory=st.integers(1, 9), offset=st.integers(0, 5), radius=st.integers(0, 4))
@settings(max_examples=40)
def test_dense_is_the_rule_for_every_pair(length, memory, offset, radius):
    rules = {
        full: lambda i, j: True,
        causal: lambda i, j: j <= i,
        window(radius): lambda i, j: abs(i - j) <= radius,
        causal & window(radius): lambda i, j: j <= i and i - j <= radius,
        causal | window(radius): lambda i, j: j <= i or j - i <= radius,
    }
    for pattern, rule in rules.items():
        mask = dense(pattern, torch.arange(length), memory, offset=offset).expand(1, 1, length, memory)
        assert torch.equal(mask[0, 0], by_hand(rule, length, memory, offset)), str(pattern)


def test_padding_and_documents_depend_on_the_sequence():
    lengths = torch.tensor([3, 1])
    mask = padding(lengths).over(2, 4, batch=2, device=CPU).mask
    assert mask.shape == (2, 1, 1, 4)
    assert mask[0, 0, 0].tolist() == [True, True, True, False]
    assert mask[1, 0, 0].tolist() == [True, False, False, False]
    ids = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    packed = (causal & documents(ids)).over(4, 4, batch=2, device=CPU).mask
    assert packed[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert packed[1, 0].int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]


def test_kernels_get_no_mask_where_they_need_none():
    assert full.over(3, 5, device=CPU).mask is None
    view = causal.over(4, 4, device=CPU)
    assert view.mask is None
    assert view.causal
    assert causal.over(1, 4, offset=3, device=CPU).mask is not None


def test_a_cached_step_sees_the_row_the_full_pass_sees():
    pattern: Visibility = causal & window(2)
    whole = dense(pattern, torch.arange(6), 6)
    for t in range(6):
        assert torch.equal(dense(pattern, torch.arange(1), 6, offset=torch.tensor([t]))[..., 0, :], whole[..., t, :])


def test_some_rows_of_a_view_are_rows_of_the_whole():
    view = (causal & padding(torch.tensor([5, 2]))).over(5, 5, batch=2, device=CPU)
    assert torch.equal(view.rows(torch.tensor([3, 1])), view.mask[:, :, [3, 1]])


def test_full_disappears_and_values_compare():
    assert (full & causal) is causal
    assert (window(3) | full) is full
    assert window(2) & causal == window(2) & causal
    assert str(causal & window(2) | full & window(1)) == "((causal & window(2)) | window(1))"


@pytest.mark.parametrize("text", ["full", "causal", "window(3)", "causal & window(2)", "(window(1) | causal) & window(4)"])
def test_text_becomes_the_pattern_it_names(text):
    expected = eval(text, {"full": full, "causal": causal, "window": window})
    assert parse_visibility(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("windw(3)", "did you mean 'window'"),
        ("window", "needs a number"),
        ("window(a)", "cannot be read"),
        ("window(True)", "cannot be read"),
        ("causal + full", "cannot be read"),
        ("__import__('os')", "there is no pattern '__import__'"),
        ("", "cannot be read"),
        ("causal &", "cannot be read"),
        ("window(-1)", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(text, says):
    with pytest.raises(UserError, match="visibility") as caught:
        parse_visibility(text)
    assert says in str(caught.value)

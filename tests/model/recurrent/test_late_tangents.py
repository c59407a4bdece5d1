"""The additive score one query at a time, against autograd over the formula, in double precision."""

import gc
import weakref

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.model.recurrent.deferred_grad import LateTangents


def looped(score, q, steps):
    """Every query needs the scores of the one before."""
    found = []
    for t in range(steps):
        found.append(score(q))
        q = (q + found[-1].softmax(-1).sum(1, keepdim=True) * found[-1].mean(1, keepdim=True) + t).sin()
    return found


def some(rows, memory, width):
    shapes = ((rows, width), (rows, memory, width), (width,))
    return [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(1, 5), st.data())
@settings(max_examples=20)
def test_scores_and_gradients_are_those_of_the_formula(rows, memory, width, steps, data):
    asked = data.draw(st.sets(st.integers(0, steps - 1), min_size=1))
    q, k, w = some(rows, memory, width)
    late = looped(LateTangents(k, w), q, steps)
    plain = looped(lambda q: torch.tanh(q[:, None] + k) @ w, q, steps)
    for a, b in zip(late, plain):
        torch.testing.assert_close(a, b)
    gradients = [torch.autograd.grad(sum(each[t].square().sum() for t in asked), (q, k, w)) for each in (late, plain)]
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


def test_a_second_backward_pass_counts_nothing_twice():
    q, k, w = some(2, 3, 4)
    total = looped(LateTangents(k, w), q, 3)[-1].sum()
    first = torch.autograd.grad(total, (q, k, w), retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(total, (q, k, w))):
        assert torch.equal(a, b)


def test_what_nobody_asks_for_is_zero_and_nothing_is_kept_without_gradients():
    q, k, w = some(2, 3, 4)
    late = LateTangents(k, w)
    looped(late, q, 2)
    assert not any(each.any() for each in torch.autograd.grad(late.last, (k, w)))
    with torch.no_grad():
        quiet = LateTangents(k, w)
        scores = looped(quiet, q, 2)
    assert quiet.last is None
    assert not scores[0].requires_grad


def test_a_pass_that_is_over_leaves_no_memory_behind():
    q, k, w = some(2, 3, 4)
    late = LateTangents(k, w)
    found = looped(late, q, 3)
    gone = weakref.ref(found[0])
    found[-1].sum().backward()
    gc.disable()
    try:
        del late, found
        assert gone() is None
    finally:
        gc.enable()

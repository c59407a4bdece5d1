"""Products whose matrix learns after the loop, against autograd that learns in it."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.model.recurrent.deferred_grad import Late


def looped(product, weight, x, steps):
    """A small recurrence: every step needs the one before."""
    states = []
    for t in range(steps):
        x = (product(torch.cat([x, x.square()], 1)) + t).tanh()
        states.append(x)
    return states


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5), st.data())
@settings(max_examples=20)
def test_gradients_are_those_of_plain_products(rows, steps, width, data):
    asked = data.draw(st.sets(st.integers(0, steps - 1), min_size=1))
    weight, bias, x, more = (
        torch.randn(shape, dtype=torch.double, requires_grad=True)
        for shape in ((width, 2 * width), (width,), (rows, width), (rows, width))
    )
    product = Late(weight, bias)
    plain = looped(lambda given: F.linear(given, weight, bias) + more, weight, x, steps)
    late = looped(lambda given: product(given, more), weight, x, steps)
    for a, b in zip(late, plain):
        torch.testing.assert_close(a, b)
    learned = (weight, bias, x, more)
    gradients = [torch.autograd.grad(sum(each[t].square().sum() for t in asked), learned) for each in (late, plain)]
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 5))
@settings(max_examples=15)
def test_rows_may_have_matrices_of_their_own(rows, steps, width):
    weight = torch.randn(rows, width, 2 * width, dtype=torch.double, requires_grad=True)
    x = torch.randn(rows, width, dtype=torch.double, requires_grad=True)
    plain = looped(lambda given: torch.einsum("rnk,rk->rn", weight, given), weight, x, steps)
    late = looped(Late(weight), weight, x, steps)
    for a, b in zip(*(torch.autograd.grad(each[-1].square().sum(), (weight, x)) for each in (late, plain))):
        torch.testing.assert_close(a, b)


def test_a_second_backward_pass_counts_nothing_twice():
    weight, x = torch.randn(3, 6, requires_grad=True), torch.randn(2, 3)
    total = looped(Late(weight), weight, x, 4)[-1].sum()
    (first,) = torch.autograd.grad(total, weight, retain_graph=True)
    (second,) = torch.autograd.grad(total, weight)
    assert torch.equal(first, second)


def test_what_nobody_asks_the_matrix_for_is_zero_and_nothing_is_kept_without_gradients():
    weight, x = torch.randn(3, 6, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    late = Late(weight)
    looped(late, weight, x, 2)
    (unused,) = torch.autograd.grad(late.last, weight)
    assert not unused.any()
    with torch.no_grad():
        quiet = Late(weight)
        looped(quiet, weight, x, 3)
    assert quiet.last is None
    assert not quiet.left


def test_a_pass_that_is_over_leaves_no_memory_behind():
    weight, x = torch.randn(3, 6, requires_grad=True), torch.randn(2, 3)
    late = Late(weight)
    states = looped(late, weight, x, 3)
    gone = weakref.ref(states[0])
    states[-1].sum().backward()
    gc.disable()
    try:
        del late, states
        assert gone() is None
    finally:
        gc.enable()


def test_under_autocast_it_multiplies_in_half_precision():
    weight, x = torch.randn(3, 6, requires_grad=True), torch.randn(2, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found = Late(weight)(x)
    assert found.dtype == torch.bfloat16
    found.float().sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand(3, -1), atol=5e-2, rtol=5e-2)


@given(st.integers(1, 4), st.integers(1, 5), st.booleans())
@settings(max_examples=15)
def test_more_may_be_added_of_each_row_or_of_all(rows, steps, of_each):
    weight = torch.randn(3, 6, dtype=torch.double, requires_grad=True)
    x = torch.randn(rows, 3, dtype=torch.double, requires_grad=True)
    more = torch.randn(*([rows] if of_each else []), 3, dtype=torch.double, requires_grad=True)
    late, plain = Late(weight), looped(lambda given: F.linear(given, weight) + more, weight, x, steps)
    found = looped(lambda given: late(given, more), weight, x, steps)
    gradients = [torch.autograd.grad(each[-1].square().sum(), (weight, x, more)) for each in (found, plain)]
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("learned", [{"weight"}, {"bias"}, {"x"}, {"weight", "x"}])
def test_parts_that_do_not_learn_stay_out(learned):
    parts = {
        name: torch.randn(shape, requires_grad=name in learned)
        for name, shape in (("weight", (3, 6)), ("bias", 3), ("x", (2, 3)))
    }
    asked = [parts[name] for name in sorted(learned)]
    late = looped(Late(parts["weight"], parts["bias"]), parts["weight"], parts["x"], 3)[-1]
    plain = looped(lambda given: F.linear(given, parts["weight"], parts["bias"]), parts["weight"], parts["x"], 3)[-1]
    for a, b in zip(*(torch.autograd.grad(each.square().sum(), asked) for each in (late, plain))):
        torch.testing.assert_close(a, b)

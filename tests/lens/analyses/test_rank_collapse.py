"""Attention alone makes tokens alike, faster than any power; skip connections keep them apart; the switches do what they say."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.lens.analyses.rank_collapse import distance, rank_collapse, switched
from regard.lens.result import html
from regard.model.block import BlockConfig
from regard.model.stack import Stack
from regard.model.visibility import causal, full
from tests.lens.some_subjects import SOME, subject

DEPTH = 8


def residuals(norm, seed, *, skips, feedforward, visibility=full):
    """Distances to rank one through a random deep stack, in float64."""
    torch.manual_seed(seed)
    config = BlockConfig(width=32, heads=4, feedforward=64, dropout=0.0, norm_placement=norm)
    stack = Stack(config, DEPTH, "encoder").double().eval()
    x = torch.randn(1, 12, 32, dtype=torch.float64)
    found = [distance(x[0])]
    hooks = [block.register_forward_hook(lambda m, a, out: found.append(distance(out[0]))) for block in stack.blocks]
    with torch.no_grad(), switched(stack, skips=skips, feedforward=feedforward):
        stack(x, visibility.over(12, 12, device=x.device))
    for hook in hooks:
        hook.remove()
    return np.array(found)


@settings(max_examples=6)
@given(st.sampled_from(["pre", "post"]), st.integers(0, 1000))
def test_without_skips_it_falls_faster_than_geometrically(norm, seed):
    """Each layer shrinks the distance by a larger factor than the one before, until float64 has no more digits."""
    found = residuals(norm, seed, skips=False, feedforward=False)
    seen = found[: int((found > 1e-9).sum())]
    factors = seen[1:] / seen[:-1]
    assert found.min() < 1e-9
    assert len(factors) >= 2
    assert (factors[1:] < factors[:-1]).all()
    assert factors[-1] < factors[0] / 5


@settings(max_examples=6)
@given(st.sampled_from(["pre", "post"]), st.integers(0, 1000), st.booleans())
def test_with_skips_it_does_not(norm, seed, feedforward):
    found = residuals(norm, seed, skips=True, feedforward=feedforward)
    assert found.min() > 0.1


def test_looking_back_only_collapses_too():
    found = residuals("post", 1, skips=False, feedforward=False, visibility=causal)
    assert found[-1] < 0.5 < residuals("post", 1, skips=True, feedforward=False, visibility=causal)[-1]


@settings(max_examples=20)
@given(st.integers(2, 6), st.integers(2, 5), st.integers(0, 1000))
def test_the_distance_is_to_the_nearest_matrix_of_equal_rows(rows, columns, seed):
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ones = torch.ones(rows, 1, dtype=torch.float64)
    nearest = ones @ torch.linalg.lstsq(ones, x).solution
    assert distance(x) == pytest.approx(float((x - nearest).norm() / x.norm()))
    assert distance(ones @ x[:1]) == pytest.approx(0, abs=1e-7)


def test_switches_are_the_expressions_they_name():
    """Of one block, by hand; and outside the with-block nothing has changed."""
    for norm in ("pre", "post"):
        config = BlockConfig(width=16, heads=2, feedforward=24, dropout=0.0, norm_placement=norm)
        stack = Stack(config, 1, "encoder").eval()
        (block,) = stack.blocks
        x, view = torch.randn(2, 5, 16), full.over(5, 5, device=torch.device("cpu"))
        before = stack(x, view)

        def look(h, block=block, view=view):
            return block.self_attention(h, view)

        def end(h, stack=stack):
            return h if stack.norm is None else stack.norm(h)

        def without(residual, f, h):
            return f(residual.norm(h)) if residual.pre else residual.norm(f(h))

        with switched(stack, skips=False, feedforward=True):
            expected = end(without(block["ffn"], block.feedforward, without(block["self"], look, x)))
            torch.testing.assert_close(stack(x, view), expected)
        with switched(stack, skips=False, feedforward=False):
            torch.testing.assert_close(stack(x, view), end(without(block["self"], look, x)))
        with switched(stack, skips=True, feedforward=False):
            torch.testing.assert_close(stack(x, view), end(block["self"](x, view)))
        assert torch.equal(stack(x, view), before)


@pytest.mark.parametrize("name", SOME)
def test_every_family(name):
    found = subject(name)
    result = rank_collapse(found)
    assert len(result.distances) == 4 * len(found.sides)
    for row in result.distances.values():
        assert all(0 <= d <= 1 + 1e-6 for d in row)
    firsts = {row[0] for row in result.distances.values()}
    assert len(firsts) == len(found.sides)  # all variants of a stack begin with the same vectors


def test_it_tells_and_draws():
    result = rank_collapse(subject("translator"))
    assert {name.split(", ")[0] for name in result.distances} == {"encoder", "decoder"}
    assert len(result.lines()) == 4 + 8
    assert result.as_dict()["distances"].keys() == result.distances.keys()
    assert "distance to rank one" in html(result)

"""Rollout is the product of what layers did, flow is the maximum flow, and both know what could not be seen."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lens.analyses import rollout as module
from regard.lens.analyses.rollout import Network, flow, maximum_flow, maximum_flows, rollout
from regard.lens.result import html
from tests.lens.some_subjects import EVERY, subject


def test_of_one_stack_it_is_the_papers_product():
    found = subject("writer")
    seen = found.record()
    expected = torch.eye(len(found.sides["decoder"]))
    for name in seen:
        attention = seen[name].weights()[0].mean(0)
        mixed = 0.5 * attention + 0.5 * torch.eye(len(attention))
        expected = (mixed / mixed.sum(-1, keepdim=True)) @ expected
    np.testing.assert_allclose(rollout(found).shares_LN, expected.numpy(), atol=1e-6)


def test_a_decoder_that_looks_back_takes_from_the_source():
    """By hand, block by block, with the two parts of a place's share apart."""
    found = subject("translator")
    seen = found.record()
    source, written = (len(found.sides[stack]) for stack in ("encoder", "decoder"))
    mean = {name: seen[name].weights()[0].mean(0).double() for name in seen}
    memory = (mean["encoder.0.self"] + torch.eye(source)) / 2
    own, back = torch.eye(written).double(), torch.zeros(written, source).double()
    own = (mean["decoder.0.self"] @ own + own) / 2
    back, own = (mean["decoder.0.cross"] @ memory + back) / 2, own / 2
    np.testing.assert_allclose(rollout(found).shares_LN, torch.cat([back, own], 1).numpy(), atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_shares_are_shares_and_nothing_comes_from_the_future(name):
    found = subject(name)
    result = rollout(found)
    np.testing.assert_allclose(result.shares_LN.sum(1), 1, atol=1e-5)
    assert len(result.places) == len(result.shares_LN)
    if "decoder" in found.sides:
        own = result.shares_LN[:, [n for n, stack in enumerate(result.stacks) if stack == "decoder"]]
        assert np.triu(own, 1).max() == 0


@pytest.mark.parametrize("name", ["translator", "writer", "filler"])
def test_flow_lets_through_at_least_what_rollout_shares(name):
    found = subject(name)
    most, shares = flow(found), rollout(found)
    assert (most.shares_LN >= shares.shares_LN - 1e-6).all()  # rollout is one way to send, and flow the best
    assert most.shares_LN.max() <= 1 + 1e-6
    assert most.of("decoder" if "decoder" in found.sides else "encoder").shape == (len(found.sides[list(found.sides)[-1]]),)


capacities = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]), min_size=9, max_size=9)


@settings(max_examples=40)
@given(st.lists(capacities, min_size=1, max_size=3))
def test_a_maximum_flow_is_a_minimum_cut(layers):
    """Of all ways to cut the network in two, the cheapest lets through just as much (Ford & Fulkerson 1956)."""
    steps = [np.array(layer).reshape(3, 3) for layer in layers]
    network = Network.of(steps)
    inner = [(layer, place) for layer in range(1, len(steps)) for place in range(3)]
    for top, bottom in product(range(3), repeat=2):
        cuts = []
        for upper in product([True, False], repeat=len(inner)):
            above = {(len(steps), top), *(node for node, on in zip(inner, upper) if on)}
            tails = [(n + 1, i, j) for n in range(len(steps)) for i in range(3) for j in range(3)]
            cuts.append(
                sum(
                    steps[n - 1][i, j]
                    for n, i, j in tails
                    if (n, i) in above and (n - 1, j) not in above and (n > 1 or j == bottom)
                )
            )
        assert maximum_flows(network, top)[bottom] == pytest.approx(min(cuts), abs=1e-6)


def test_what_was_sent_can_be_sent_otherwise():
    """The shortest way first would block the second unless it may be taken back: all ways here have one length."""
    steps = [np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 0]]), np.array([[1.0, 1.0, 0], [0, 0, 0], [0, 0, 0]])]
    assert maximum_flow(Network.of(steps), 6, 0) == pytest.approx(2)


def test_too_long_is_told(monkeypatch):
    found = subject("translator")
    monkeypatch.setattr(module, "FLOWS", 10)
    with pytest.raises(UserError, match="--show rollout"):
        flow(found)
    monkeypatch.setattr(module, "LONGEST", 3)
    with pytest.raises(UserError, match="at most 3"):
        rollout(found)


def test_it_tells_and_draws():
    for result in (rollout(subject("translator")), flow(subject("labeller"))):
        assert len(result.lines()) == 4 + len(result.places)
        assert np.array(result.as_dict()["shares"]).shape == (len(result.places), len(result.words))
        assert f"attention {result.method}" in html(result)

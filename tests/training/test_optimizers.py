"""The optimizer decays matrices only, and does what torch's own would do with the same settings.

The learning rate against the paper's formula, and at the ends of every schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import get_args, get_type_hints

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.training.config import TrainConfig
from regard.training.optimizers import learning_rate, make_optimizer, set_learning_rate


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 3), nn.LayerNorm(3))


def run(network: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 5) -> None:
    for _ in range(steps):
        network(torch.arange(7)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_decay_touches_matrices_and_nothing_else() -> None:
    network = model()
    optimizer = make_optimizer(network, TrainConfig(steps=1, optimizer="adamw", weight_decay=0.5))
    set_learning_rate(optimizer, 0.1)
    before = {name: parameter.clone() for name, parameter in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in network.named_parameters():
        shrunk = 1 - 0.1 * 0.5 if parameter.dim() >= 2 else 1.0
        torch.testing.assert_close(parameter, before[name] * shrunk)
    assert sorted(name for name, parameter in network.named_parameters() if parameter.dim() >= 2) == ["0.weight", "1.weight"]


@pytest.mark.parametrize(("kind", "theirs"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_steps_are_those_of_plain_torch(kind: str, theirs: Callable[..., torch.optim.Optimizer]) -> None:
    ours, reference = model(), model()
    settings = TrainConfig(steps=1, optimizer=kind, beta1=0.8, beta2=0.95, epsilon=1e-6)  # type: ignore[arg-type]
    optimizer = make_optimizer(ours, settings)
    set_learning_rate(optimizer, 0.01)
    run(ours, optimizer)
    run(reference, theirs(reference.parameters(), lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.0, foreach=False))
    for one, other in zip(ours.parameters(), reference.parameters()):
        torch.testing.assert_close(one, other)
    assert not torch.equal(next(ours.parameters()), next(model().parameters()))


def test_every_parameter_is_in_one_group() -> None:
    network = model()
    network[1].bias = network[2].bias  # tied: one parameter under two names
    groups = make_optimizer(network, TrainConfig(steps=1)).param_groups
    listed = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(listed) == sorted({id(parameter) for parameter in network.parameters()})


@pytest.mark.parametrize("network", [nn.Linear(2, 2, bias=False), nn.LayerNorm(3)], ids=["matrices only", "vectors only"])
def test_an_empty_group_is_no_obstacle(network: nn.Module) -> None:
    optimizer = make_optimizer(network, TrainConfig(steps=1))
    set_learning_rate(optimizer, 0.1)
    before = [parameter.clone() for parameter in network.parameters()]
    network(torch.arange(6.0).reshape(-1, next(network.parameters()).shape[-1])).pow(3).sum().backward()
    optimizer.step()
    assert not torch.equal(before[0], next(network.parameters()))


def test_nothing_moves_before_a_rate_is_set() -> None:
    network = model()
    optimizer = make_optimizer(network, TrainConfig(steps=1))
    run(network, optimizer, steps=1)
    assert all(torch.equal(one, other) for one, other in zip(network.parameters(), model().parameters()))
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


SCHEDULES = get_args(get_type_hints(TrainConfig)["schedule"])
DECAYING = ["inverse_sqrt", "cosine", "linear"]


def config(schedule: str, steps: int = 1000, warmup: int = 100, peak: float = 0.01) -> TrainConfig:
    return TrainConfig(steps=steps, schedule=schedule, warmup=warmup, learning_rate=peak)  # type: ignore[arg-type]


def rates(config: TrainConfig) -> list[float]:
    return [learning_rate(config, step) for step in range(1, config.steps + 1)]


@pytest.mark.parametrize("step", [1, 2, 100, 3999, 4000, 4001, 16_000, 100_000, 300_000])
def test_inverse_sqrt_is_equation_3(step: int) -> None:
    width, warmup = 512, 4000
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ours = config("inverse_sqrt", steps=300_000, warmup=warmup, peak=(width * warmup) ** -0.5)
    assert learning_rate(ours, step) == pytest.approx(paper, rel=1e-12)


def test_the_default_peak_is_that_of_the_base_model() -> None:
    assert TrainConfig(steps=1).learning_rate == pytest.approx((512 * 4000) ** -0.5, rel=2e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_is_a_straight_line_to_the_peak(schedule: str) -> None:
    found = rates(config(schedule))
    assert found[:100] == pytest.approx([0.01 * step / 100 for step in range(1, 101)])
    assert max(found) == pytest.approx(0.01)


@pytest.mark.parametrize("schedule", DECAYING)
def test_the_peak_is_at_the_end_of_the_warm_up_and_nowhere_else(schedule: str) -> None:
    found = rates(config(schedule))
    assert found.index(max(found)) + 1 == 100
    assert all(later < earlier for earlier, later in pairwise(found[99:]))


def test_constant_stays() -> None:
    assert rates(config("constant"))[99:] == pytest.approx([0.01] * 901)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_cosine_and_linear_end_near_zero_but_waste_no_step(schedule: str) -> None:
    assert 0 < rates(config(schedule))[-1] < 0.01 / 500


def test_half_way_cosine_and_linear_are_at_half() -> None:
    for schedule in ("cosine", "linear"):
        assert learning_rate(config(schedule, steps=999, warmup=0), 500) == pytest.approx(0.005)


def test_a_quarter_of_the_way_cosine_is_still_high() -> None:
    assert learning_rate(config("cosine", steps=999, warmup=0), 250) == pytest.approx(0.01 * (1 + math.sqrt(0.5)) / 2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_warm_up_begins_at_the_peak(schedule: str) -> None:
    found = rates(config(schedule, warmup=0))
    assert found[0] == pytest.approx(0.01, rel=2e-3)
    assert max(found) == found[0]


@settings(max_examples=60)
@given(st.sampled_from(SCHEDULES), st.integers(1, 300), st.integers(0, 300), st.floats(1e-9, 1e3))
def test_a_rate_is_never_zero_nor_above_the_peak(schedule: str, steps: int, warmup: int, peak: float) -> None:
    if schedule in ("cosine", "linear"):
        warmup = min(warmup, steps - 1)
    for rate in rates(config(schedule, steps, warmup, peak)):
        assert 0 < rate <= peak * (1 + 1e-12)

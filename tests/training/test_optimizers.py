"""The optimizer decays matrices only, and does what torch's own would do with the same settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.training.config import TrainConfig
from regard.training.optimizers import make_optimizer, set_learning_rate


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

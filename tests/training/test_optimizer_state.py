"""An optimizer must come back so exactly that the run cannot tell it was ever gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.training.checkpoint import Store
from regard.training.optimizers import flatten_optimizer, restore_optimizer

Make = Callable[[nn.Module], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, amsgrad=True),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.9, 0.98)),
    "adamw fused": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, fused=True),
    "adam tensor lr": lambda m: torch.optim.Adam(m.parameters(), lr=torch.tensor(0.01), foreach=False),
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "sgd momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "adafactor": lambda m: torch.optim.Adafactor(m.parameters(), lr=0.01),
    "two groups": lambda m: torch.optim.AdamW(
        [{"params": [p for p in m.parameters() if p.ndim > 1]}, {"params": [p for p in m.parameters() if p.ndim < 2]}],
        lr=0.01,
    ),
}


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3))


def advance(net: nn.Module, optimizer: torch.optim.Optimizer, start: int, stop: int) -> None:
    for step in range(start, stop):
        inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        net(inputs.to(next(net.parameters()).device)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_continues_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    stop_and_continue(name, tmp_path, "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_continues_on_a_gpu(name: str, tmp_path: Path) -> None:
    """Fused optimizers keep `step` beside the parameter, the others on the CPU: both must be found where they were."""
    stop_and_continue(name, tmp_path, "cuda")


def stop_and_continue(name: str, tmp_path: Path, device: str) -> None:
    through, stopped = model().to(device), model().to(device)
    optimizer = OPTIMIZERS[name](through)
    advance(through, optimizer, 0, 8)

    first = OPTIMIZERS[name](stopped)
    advance(stopped, first, 0, 5)
    tensors, state = flatten_optimizer(first)
    store = Store(tmp_path)
    store.save("step", 5, {"model": stopped.state_dict(), "optimizer": tensors}, {"optimizer": state})

    checkpoint = store.newest("step")
    assert checkpoint is not None
    resumed = model().to(device)
    second = OPTIMIZERS[name](resumed)
    advance(resumed, second, 90, 92)  # whatever it knew before must go
    resumed.load_state_dict(checkpoint.tensors("model"))
    restore_optimizer(second, checkpoint.tensors("optimizer"), checkpoint.state["optimizer"])
    advance(resumed, second, 5, 8)

    for ours, theirs in zip(resumed.parameters(), through.parameters()):
        assert torch.equal(ours, theirs)
    same_state(second.state_dict(), optimizer.state_dict())


def same_state(ours: dict[str, dict], theirs: dict[str, dict]) -> None:
    assert ours["param_groups"] == theirs["param_groups"]
    assert [type(v) for g in ours["param_groups"] for v in g.values()] == [
        type(g[k]) for g, mine in zip(theirs["param_groups"], ours["param_groups"]) for k in mine
    ]
    assert ours["state"].keys() == theirs["state"].keys()
    for index, expected in theirs["state"].items():
        assert ours["state"][index].keys() == expected.keys()
        for name, value in expected.items():
            found = ours["state"][index][name]
            if isinstance(value, torch.Tensor):
                assert torch.equal(found, value)
                assert (found.dtype, found.device, found.shape) == (value.dtype, value.device, value.shape)
            else:
                assert found == value


def test_state_keeps_a_precision_its_parameter_does_not_have() -> None:
    """PyTorch's own load_state_dict would round these moments to bfloat16."""
    net = model().bfloat16()
    optimizer = torch.optim.AdamW(net.parameters())
    moment = torch.tensor([1.0 + 2**-20])
    for parameter in net.parameters():
        full = moment.expand(parameter.shape).clone()
        optimizer.state[parameter] = {"step": torch.tensor(3.0), "exp_avg": full, "exp_avg_sq": full.clone()}
    other = torch.optim.AdamW(model().bfloat16().parameters())
    restore_optimizer(other, *flatten_optimizer(optimizer))
    for values in other.state.values():
        assert values["exp_avg"].dtype == torch.float32
        assert torch.equal(values["exp_avg"], moment.expand(values["exp_avg"].shape))


def test_restoring_twice_from_the_same_tensors_gives_the_same_run() -> None:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    advance(net, optimizer, 0, 2)
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    tensors, state = flatten_optimizer(optimizer)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    ends = []
    for _ in range(2):
        net.load_state_dict(weights)
        restore_optimizer(optimizer, tensors, state)
        advance(net, optimizer, 2, 5)
        ends.append([p.clone() for p in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*ends))


def test_names_and_json() -> None:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(0.5), foreach=False)
    advance(net, optimizer, 0, 1)
    tensors, state = flatten_optimizer(optimizer)
    assert {"0.step", "0.exp_avg", "3.exp_avg_sq", "group.0.lr"} < tensors.keys()
    assert json.loads(json.dumps(state, allow_nan=False))["groups"][0]["betas"] == [0.9, 0.999]


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    advance(net, optimizer, 0, 2)
    tensors, state = flatten_optimizer(optimizer)
    before = {name: tensor.clone() for name, tensor in tensors.items()}

    with pytest.raises(UserError, match="AdamW, this run uses SGD"):
        restore_optimizer(torch.optim.SGD(net.parameters()), tensors, state)
    with pytest.raises(UserError, match=r"parameter 0 of group 0 is \[8, 4\] there and \[16, 4\] here"):
        restore_optimizer(torch.optim.AdamW(model(16).parameters()), tensors, state)
    with pytest.raises(UserError, match="4 parameters in 1 groups there, 2 parameters in 1 groups here"):
        restore_optimizer(torch.optim.AdamW(list(net.parameters())[:2]), tensors, state)
    with pytest.raises(UserError, match=r"differ at '0\.step'"):
        restore_optimizer(optimizer, {k: v for k, v in tensors.items() if k != "0.step"}, state)
    with pytest.raises(UserError, match="lacks groups"):
        restore_optimizer(optimizer, tensors, {k: v for k, v in state.items() if k != "groups"})
    assert all(torch.equal(before[name], tensor) for name, tensor in flatten_optimizer(optimizer)[0].items())


def test_an_optimizer_whose_state_is_neither_tensors_nor_numbers_is_refused() -> None:
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=6)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = net(torch.ones(2, 4)).square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with pytest.raises(UserError, match="as a list"):
        flatten_optimizer(optimizer)

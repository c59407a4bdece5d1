"""Muon against torch's own, and against what it promises."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.training.config import TrainConfig
from regard.training.optimizers import Muon, flatten_optimizer, make_optimizer, orthogonal, restore_optimizer, set_learning_rate

CONFIG = TrainConfig(steps=100, optimizer="muon", learning_rate=0.02, weight_decay=0.1, warmup=1)


def small() -> GPT:
    return GPT(GPTConfig(width=16, heads=2, layers=2, feedforward=32, dropout=0.0, maximum_length=8), 11, seed=1)


def learn(model: GPT, optimizer: torch.optim.Optimizer, steps: int, begin: int = 0) -> list[float]:
    losses = []
    for step in range(begin, begin + steps):
        ids = torch.randint(11, (4, 8), generator=torch.Generator().manual_seed(step % 3))
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        set_learning_rate(optimizer, 0.02)
        optimizer.step()
        losses.append(loss.item())
    return losses


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=30)
def test_singular_values_come_near_one(rows: int, columns: int, seed: int) -> None:
    matrices = torch.randn(2, rows, columns, generator=torch.Generator().manual_seed(seed))
    found, (left, _, right) = orthogonal(matrices), torch.linalg.svd(matrices, full_matrices=False)
    inside = left.mT @ found @ right.mT  # the same directions, with values of their own
    values = inside.diagonal(dim1=1, dim2=2)
    assert (inside - torch.diag_embed(values)).abs().max() < 1e-3
    assert values.max() < 1.3
    conditioned = torch.linalg.svdvals(matrices) / matrices.norm(dim=(1, 2))[:, None] > 0.02
    assert (values[conditioned] > 0.6).all()


def test_steps_are_those_of_torch() -> None:
    """Which computes in half precision."""
    ours, theirs = (nn.Parameter(torch.randn(24, 40, generator=torch.Generator().manual_seed(1))) for _ in "ab")
    mine = Muon([ours], [{"params": [nn.Parameter(torch.zeros(3))]}], 0.1, lr=0.02)
    other = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    before = ours.detach().clone()
    for step in range(3):
        ours.grad = torch.randn(24, 40, generator=torch.Generator().manual_seed(10 + step))
        theirs.grad = ours.grad.clone()
        mine.step()
        other.step()
    assert (ours - theirs).norm() < 0.03 * (ours - before).norm()


def test_what_is_no_matrix_of_a_block_is_left_to_adamw() -> None:
    model = small()
    optimizer = make_optimizer(model, CONFIG)
    inner = {id(p) for group in optimizer.param_groups if group.get("orthogonal") for p in group["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in inner}
    assert names == {name for name, p in model.named_parameters() if name.startswith("decoder") and p.dim() == 2}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_it_learns() -> None:
    model = small()
    losses = learn(model, make_optimizer(model, CONFIG), 40)
    assert losses[-1] < 0.6 * losses[0]


def test_continued_it_is_the_same_to_the_bit() -> None:
    whole, part, continued = small(), small(), small()
    first, second = make_optimizer(whole, CONFIG), make_optimizer(part, CONFIG)
    learn(whole, first, 8)
    learn(part, second, 5)
    third = make_optimizer(continued, CONFIG)
    continued.load_state_dict(part.state_dict())
    restore_optimizer(third, *flatten_optimizer(second))
    learn(continued, third, 3, begin=5)
    for (name, mine), other in zip(whole.state_dict().items(), continued.state_dict().values()):
        assert torch.equal(mine, other), name


def test_a_step_that_burst_changes_nothing() -> None:
    model = small()
    optimizer = make_optimizer(model, CONFIG)
    learn(model, optimizer, 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    optimizer.found_inf = torch.ones(())  # type: ignore[attr-defined]
    optimizer.step()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_shards_are_refused() -> None:
    with pytest.raises(UserError, match=r"muon needs whole matrices"):
        TrainConfig(steps=10, optimizer="muon", warmup=1, fsdp=True)

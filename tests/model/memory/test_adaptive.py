"""Adaptive embedding and softmax against torch's own AdaptiveLogSoftmaxWithLoss, and the loss against all log-probabilities."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.model.memory.adaptive import AdaptiveEmbedding, AdaptiveHead

V, D = 30, 12


def parts(divisor: int, *, tie: bool = True) -> tuple[AdaptiveEmbedding, AdaptiveHead]:
    torch.manual_seed(divisor)
    embedding = AdaptiveEmbedding(V, D, 8, (10, 20), divisor)
    return embedding, AdaptiveHead(embedding, 8, (10, 20), divisor, tie=tie, tie_projections=tie)


@torch.no_grad()
def test_it_is_torch_s_adaptive_softmax() -> None:
    """Torch's has no biases in its tails, and one projection and matrix a cluster behind the first."""
    torch.manual_seed(0)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(D, V, cutoffs=[10, 20], div_value=2.0, head_bias=True)
    embedding = AdaptiveEmbedding(V, D, D, (10, 20), 2)
    ours = AdaptiveHead(embedding, D, (10, 20), 2, tie=False, tie_projections=False)
    ours.projections[0].weight.copy_(torch.eye(D))
    ours.tables[0].weight.copy_(theirs.head.weight[:10])
    ours.tables[0].bias.copy_(theirs.head.bias[:10])
    ours.clusters.weight.copy_(theirs.head.weight[10:])
    ours.clusters.bias.copy_(theirs.head.bias[10:])
    for i, (narrow, table) in enumerate(theirs.tail, 1):
        ours.projections[i].weight.copy_(narrow.weight.T)
        ours.tables[i].weight.copy_(table.weight)
        ours.tables[i].bias.zero_()
    x, targets = torch.randn(7, D), torch.tensor([0, 9, 10, 19, 20, 29, 3])
    torch.testing.assert_close(ours(x), theirs.log_prob(x))
    torch.testing.assert_close(ours.loss(x, targets), -theirs(x, targets).output.sum())


@pytest.mark.parametrize("divisor", [1, 2])
def test_the_loss_and_its_gradients_are_those_of_all_log_probabilities(divisor: int) -> None:
    _, head = parts(divisor)
    x, targets = torch.randn(9, D), torch.tensor([0, 9, 10, 19, 20, 29, 3, 12, 5])
    learned = [x.requires_grad_(), *head.parameters()]
    torch.testing.assert_close(head(x).exp().sum(-1), torch.ones(9))
    short, whole = head.loss(x, targets), -head(x).gather(1, targets[:, None]).sum()
    torch.testing.assert_close(short, whole)
    for a, b in zip(torch.autograd.grad(short, learned), torch.autograd.grad(whole, learned)):
        torch.testing.assert_close(a, b)


def test_a_loss_without_a_target_in_some_cluster_is_finite() -> None:
    _, head = parts(2)
    assert head.loss(torch.randn(2, D), torch.tensor([1, 2])).isfinite()


@pytest.mark.parametrize("divisor", [1, 2])
def test_what_is_tied(divisor: int) -> None:
    embedding, head = parts(divisor)
    assert all(table.weight is words.weight for table, words in zip(head.tables, embedding.tables))
    same = [own.weight is other.weight for own, other in zip(head.projections, embedding.projections)]
    assert same == ([False] if divisor == 1 else [False, True, True])
    _, apart = parts(divisor, tie=False)
    assert not {id(p) for p in apart.parameters()} & {id(p) for p in embedding.parameters()}


@torch.no_grad()
def test_vectors_by_cluster() -> None:
    embedding, head = parts(2)
    for token, cluster in ((9, 0), (10, 1), (29, 2)):
        own = embedding.tables[cluster].weight[token - 10 * cluster] @ embedding.projections[cluster].weight.T
        torch.testing.assert_close(embedding(torch.tensor([[token]]))[0, 0], own)
        torch.testing.assert_close(embedding.weight[token], own)
    assert len(head.project.weight) == V
    assert embedding.tables[2].weight.shape == (10, 2)

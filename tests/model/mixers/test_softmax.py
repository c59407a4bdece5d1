"""The softmax mixer against the lecture's figures (T1) and its two forms against each other."""

import pytest
import torch

from regard.model.mixers.softmax import Softmax
from regard.model.visibility import causal, full, padding, window

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("raw", "scaled", "weights"),
    [([112.0, 96, 16, 8], [14.0, 12, 2, 1], [0.88, 0.12, 0.0, 0.0]), ([32.0, 64], [4.0, 8], [0.02, 0.98])],
)
def test_the_lecture_figures(raw, scaled, weights):
    """q = (1, 0, ..), k_j = (score_j, 0, ..) with d_k = 64, so that q k^T is the slide's score and sqrt(d_k) = 8."""
    q = torch.zeros(1, 1, 1, 64)
    q[..., 0] = 1
    k = torch.zeros(1, 1, len(raw), 64)
    k[0, 0, :, 0] = torch.tensor(raw)
    assert ((q @ k.mT) / 8)[0, 0, 0].tolist() == scaled
    found = Softmax().weights(q, k, torch.ones(1, 1, 1, len(raw), dtype=torch.bool))
    assert [round(w, 2) for w in found[0, 0, 0].tolist()] == weights


VIEWS = {
    "full": lambda: full.over(7, 7, device=CPU),
    "causal": lambda: causal.over(7, 7, device=CPU),
    "padding": lambda: padding(torch.tensor([7, 3, 1])).over(7, 7, batch=3, device=CPU),
    "causal & window": lambda: (causal & window(2)).over(7, 7, device=CPU),
    "some see nobody": lambda: (window(1) & padding(torch.tensor([7, 3, 1]))).over(7, 7, batch=3, device=CPU),
}


@pytest.mark.parametrize("name", VIEWS)
def test_fused_equals_reference_forwards_and_backwards(name):
    torch.manual_seed(0)
    view = VIEWS[name]()
    q, k, v = (torch.randn(3, 2, 7, 8, requires_grad=True) for _ in range(3))
    fused = Softmax().mix(q, k, v, view)
    reference = Softmax().weights(q, k, view.rows(torch.arange(7)).expand(3, 2, 7, 7)) @ v
    torch.testing.assert_close(fused, reference, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(fused)
    fast = torch.autograd.grad((fused * weight).sum(), (q, k, v))
    plain = torch.autograd.grad((reference * weight).sum(), (q, k, v))
    for a, b in zip(fast, plain):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_a_query_that_sees_nobody_answers_zero():
    view = VIEWS["some see nobody"]()
    q, k, v = (torch.randn(3, 2, 7, 8) for _ in range(3))
    assert torch.equal(Softmax().mix(q, k, v, view)[2, :, 6], torch.zeros(2, 8))

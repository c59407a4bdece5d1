"""Transformer-XL's scores against the paper's equation, term by term."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.model.position.transformer_xl import TransformerXL
from regard.model.visibility import causal, full

CPU = torch.device("cpu")
B, H, L, K, D = 2, 3, 12, 4, 10


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("pattern", [causal, full])
def test_the_papers_equation(pattern, scaled: bool) -> None:
    """A_ij = q k + q W_R R_{i-j} + u k + v W_R R_{i-j} (Dai et al. 2019, section 3.3), pair by pair."""
    torch.manual_seed(0)
    scheme = TransformerXL(D, H, K, layers=2, scaled=scaled).double()
    for parameter in scheme.parameters():
        nn.init.normal_(parameter)
    q, k = torch.randn(2, B, H, L, K, dtype=torch.double)
    bias = scheme.over(pattern.over(L, L, batch=B, device=CPU)).layer(1).bias(q, k)
    learned, scale = scheme.layers[1], K**-0.5 if scaled else 1.0
    for h, i, j in ((0, 0, 0), (1, 11, 0), (2, 7, 7), (2, 9, 4), (0, 3, 2)):
        r = learned.project(scheme.vectors(torch.tensor([float(i - j)])).double()).view(H, K)[h]
        u, v = learned.content_HK[h], learned.position_HK[h]
        for b in range(B):
            expected = scale * (q[b, h, i] @ r + u @ k[b, h, j] + v @ r)
            torch.testing.assert_close(bias.dense()[b, h, i, j], expected, atol=1e-6, rtol=1e-6)
            torch.testing.assert_close(bias.at(*map(torch.tensor, (b, h, i, j))), expected, atol=1e-6, rtol=1e-6)


def test_distances_are_sines_then_cosines() -> None:
    scheme = TransformerXL(6, 1, 6, layers=1)
    rate = 10_000 ** (-torch.arange(0, 6, 2) / 6)
    torch.testing.assert_close(scheme.vectors(torch.tensor([5.0]))[0], torch.cat([(5 * rate).sin(), (5 * rate).cos()]))

"""Starting values: each projection of a fused matrix by its own fans, residual layers narrower, norms 1, biases 0."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig

SMALL = dict(width=64, heads=4, feedforward=96, layers=3)


@pytest.mark.parametrize("groups", [0, 1])
def test_parts_of_a_fused_matrix_have_their_own_fans(groups: int) -> None:
    attention = Transformer(TransformerConfig(**SMALL, kv_heads=groups), 50, 50).encoder.blocks[0].self_attention
    for part in attention.project.weight.split(attention.projections):
        bound = sqrt(6 / (64 + len(part)))
        assert 0.9 * bound < part.abs().max() <= bound


def test_what_residuals_add_starts_narrower() -> None:
    model = GPT(GPTConfig(**SMALL, feedforward_kind="gated", norm="rms"), 300)
    block = model.decoder.blocks[1]
    for linear in (block.self_attention.out, block.feedforward.contract):
        assert linear.weight.std().item() == pytest.approx(0.02 / sqrt(6), rel=0.1)
    for linear in (block.self_attention.project, block.feedforward.expand, block.feedforward.gate):
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert not linear.bias.any()
    assert torch.equal(block["ffn"].norm.weight, torch.ones(64))


def test_new_parts_do_not_change_what_the_others_draw() -> None:
    """Positions inside attention are drawn behind the layers of their stack."""
    plain, biased = (GPT(GPTConfig(**SMALL, position=kind), 50) for kind in ("none", "relative"))
    for name, parameter in plain.named_parameters():
        assert torch.equal(parameter, biased.get_parameter(name)), name
    assert biased.decoder.position.table.weight.std() > 0

"""A stack: its settings, its last norm, blocks computed again for gradients, and a memory of another width."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.families.gpt import GPTConfig
from regard.model.block import BlockConfig, Stack
from regard.model.layers import Norm, RMSNorm
from regard.model.visibility import causal, full

CPU = torch.device("cpu")


@pytest.mark.parametrize(("norm", "kind"), [("layer", Norm), ("rms", RMSNorm)])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_pre_norm_stack_ends_with_a_norm(norm: str, kind: type, placement: str) -> None:
    stack = Stack(BlockConfig(width=8, heads=2, feedforward=12, norm=norm, norm_placement=placement), 2, "encoder")
    assert isinstance(stack.norm, kind) if placement == "pre" else stack.norm is None
    assert all(isinstance(residual.norm, kind) for block in stack.blocks for residual in block.children())


def test_names_of_sublayers_are_those_of_the_state_dict() -> None:
    stack = Stack(BlockConfig(width=8, heads=2, feedforward=12), 1, "decoder", cross=True)
    assert [name for name, _ in stack.blocks[0].named_children()] == ["self", "cross", "ffn"]
    assert {name.split(".")[2] for name in stack.state_dict()} == {"self", "cross", "ffn"}
    convolution = Stack(BlockConfig(width=8, heads=2, feedforward=12, mixer="conv"), 1, "encoder").blocks[0]
    assert "kernel_HW" in dict(convolution["self"].layer.named_parameters())


def test_a_memory_may_have_another_width() -> None:
    stack = Stack(BlockConfig(width=8, heads=2, feedforward=12, dropout=0.0), 2, "decoder", cross=True, memory_width=5)
    memories = stack.project_kv(torch.randn(3, 6, 5))
    out = stack(torch.randn(3, 4, 8), causal.over(4, 4, device=CPU), memories, full.over(4, 6, device=CPU))
    assert out.shape == (3, 4, 8)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(layers=0), "model.layers=0 must be at least 1"),
        (dict(maximum_length=0), "model.maximum_length=0 must be at least 1"),
        (dict(visibility="window(3)", mixer="favor"), "leaves out single pairs"),
        (dict(pruned=("decoder.12.self:0",)), "this model has no attention 'decoder.12.self'"),
    ],
)
def test_refused_in_one_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        GPTConfig(**{"width": 32, "heads": 4, **settings})

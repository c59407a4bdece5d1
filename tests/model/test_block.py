"""Blocks against PyTorch's own layers with copied weights: values and gradients, pre and post norm, masks, cross-attention."""

import pytest
import torch
from torch import nn

from regard.model.block import Block, BlockConfig, sublayers
from regard.model.visibility import causal, full, padding

D, H, F, B, L, M = 32, 4, 64, 3, 7, 5
CPU = torch.device("cpu")


def copy_attention(ours, theirs):
    weight, bias = theirs.in_proj_weight.data, theirs.in_proj_bias.data
    if ours.query is not None:
        ours.query.weight.data, ours.query.bias.data = weight[:D].clone(), bias[:D].clone()
    ours.project.weight.data, ours.project.bias.data = (
        weight[-len(ours.project.weight) :].clone(),
        bias[-len(ours.project.bias) :].clone(),
    )
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def pair(norm, activation, cross):
    torch.manual_seed(1)
    layer = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    theirs = layer(D, H, F, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre")
    for p in theirs.parameters():
        nn.init.normal_(p, std=0.3)
    config = BlockConfig(width=D, heads=H, feedforward=F, dropout=0.0, norm_placement=norm, activation=activation)
    ours = Block(config, sublayers(config, "x.0", cross))
    copy_attention(ours.self_attention, theirs.self_attn)
    norms = [theirs.norm1, theirs.norm2, theirs.norm3] if cross else [theirs.norm1, theirs.norm2]
    ours["self"].norm.load_state_dict(norms[0].state_dict())
    ours["ffn"].norm.load_state_dict(norms[-1].state_dict())
    if cross:
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        ours["cross"].norm.load_state_dict(norms[1].state_dict())
    ours.feedforward.expand.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.contract.load_state_dict(theirs.linear2.state_dict())
    return ours, theirs


def assert_same(ours, theirs, inputs_ours, inputs_theirs, out, expected):
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(out)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    for a, b in zip(inputs_ours, inputs_theirs):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        ours.self_attention.project.weight.grad, theirs.self_attn.in_proj_weight.grad, atol=2e-5, rtol=1e-4
    )
    torch.testing.assert_close(ours.feedforward.expand.weight.grad, theirs.linear1.weight.grad, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(
        ours["ffn"].norm.weight.grad, getattr(theirs, f"norm{3 if 'cross' in ours else 2}").weight.grad, atol=2e-5, rtol=1e-4
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm, activation):
    ours, theirs = pair(norm, activation, cross=False)
    lengths = torch.tensor([7, 4, 1])
    x = torch.randn(B, L, D)
    mine, its = x.clone().requires_grad_(), x.clone().requires_grad_()
    words = torch.arange(L)[None] < lengths[:, None]
    out = ours(mine, padding(lengths).over(L, L, batch=B, device=CPU))
    expected = theirs(its, src_key_padding_mask=~words)
    assert_same(ours, theirs, [mine], [its], out[words], expected[words])


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_decoder_layer(norm, activation):
    ours, theirs = pair(norm, activation, cross=True)
    lengths = torch.tensor([5, 2, 1])
    x, memory = torch.randn(B, L, D), torch.randn(B, M, D)
    mine, its = x.clone().requires_grad_(), x.clone().requires_grad_()
    memory_mine, memory_its = memory.clone().requires_grad_(), memory.clone().requires_grad_()
    view = padding(lengths).over(L, M, batch=B, device=CPU)
    out = ours(mine, causal.over(L, L, device=CPU), ours.cross_attention.project_kv(memory_mine), view)
    expected = theirs(
        its,
        memory_its,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(L),
        memory_key_padding_mask=torch.arange(M)[None] >= lengths[:, None],
    )
    assert_same(ours, theirs, [mine, memory_mine], [its, memory_its], out, expected)
    cross = ours.cross_attention
    found = torch.cat([cross.query.weight.grad, cross.project.weight.grad])
    torch.testing.assert_close(found, theirs.multihead_attn.in_proj_weight.grad, atol=2e-5, rtol=1e-4)


def test_heads_do_not_change_the_size():
    """T2: H heads of K = D / H."""
    configs = [BlockConfig(width=512, heads=h) for h in (1, 2, 8, 64)]
    sizes = {sum(p.numel() for p in Block(c, sublayers(c, "x", False)).parameters()) for c in configs}
    assert len(sizes) == 1


def test_without_positions_a_permuted_input_permutes_the_output():
    """T10: exact up to the order of summation."""
    torch.manual_seed(0)
    config = BlockConfig(width=D, heads=H, feedforward=F, dropout=0.0)
    block = Block(config, sublayers(config, "x.0", False)).double()
    x, order = torch.randn(1, L, D, dtype=torch.double), torch.randperm(L)
    view = full.over(L, L, device=CPU)
    torch.testing.assert_close(block(x[:, order], view), block(x, view)[:, order], atol=1e-12, rtol=0)

"""Blocks against PyTorch's own layers with copied weights: values and gradients, pre and post norm, masks, cross-attention."""

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.core.rng import seed_dropout
from regard.families.gpt import GPTConfig
from regard.model.block import Block, BlockConfig, Stack, sublayers
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


# --- stochastic depth -----------------------------------------------------------------------------------------------------
DEEP = dict(width=8, heads=2, feedforward=12, dropout=0.0, norm_placement="pre")


def test_rates_grow_in_equal_steps_as_deit_has_them():
    stack = Stack(BlockConfig(**DEEP, drop_path=0.3), 5, "encoder")
    rates = [[residual.drop_path for residual in block.children()] for block in stack.blocks]
    expected = torch.linspace(0, 0.3, 5, dtype=torch.double)[:, None].expand(5, 2)
    torch.testing.assert_close(torch.tensor(rates, dtype=torch.double), expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_sublayer_is_left_out_of_an_example_or_counts_for_those_it_is_left_out_of(placement):
    torch.manual_seed(0)
    config = BlockConfig(**DEEP | dict(norm_placement=placement))
    residual = Block(config, {"ffn": sublayers(config, "x.0", False)["ffn"]}, drop_path=0.25)["ffn"].double()
    x = torch.randn(4000, 3, 8, dtype=torch.double)
    found, norm = residual(x), residual.norm
    without, kept = (
        (x, x + residual.layer(norm(x)) / 0.75) if placement == "pre" else (norm(x), norm(x + residual.layer(x) / 0.75))
    )
    left_out = (found - without).abs().amax((1, 2)) < 1e-12
    torch.testing.assert_close(found[~left_out], kept[~left_out], atol=1e-12, rtol=0)
    assert abs(left_out.double().mean() - 0.25) < 5 * (0.25 * 0.75 / 4000) ** 0.5  # deviations of a binomial share


def test_the_seed_of_a_micro_batch_decides_what_is_left_out_also_where_blocks_are_computed_again():
    torch.manual_seed(0)
    stack, x = Stack(BlockConfig(**DEEP, drop_path=0.5), 3, "encoder"), torch.randn(16, 4, 8)

    def gradients(step, recompute=False):
        stack.recompute = recompute
        stack.zero_grad()
        seed_dropout(1, step, 0, 0)
        stack(x, full.over(4, 4, device=CPU)).square().sum().backward()
        return [p.grad for p in stack.parameters()]

    first, again, recomputed, other = gradients(1), gradients(1), gradients(1, recompute=True), gradients(2)
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(first, again, recomputed))
    assert not all(torch.equal(a, b) for a, b in zip(first, other))


def test_nothing_is_left_out_in_evaluation_and_nothing_is_drawn_without_it():
    x, view = torch.randn(2, 4, 8), full.over(4, 4, device=CPU)
    stacks = [Stack(BlockConfig(**DEEP, drop_path=rate), 2, "encoder") for rate in (0.0, 0.9)]
    stacks[1].load_state_dict(stacks[0].state_dict())
    assert torch.equal(stacks[0].eval()(x, view), stacks[1].eval()(x, view))
    state = torch.get_rng_state()
    assert torch.equal(stacks[0].train()(x, view), stacks[1](x, view))
    assert torch.equal(torch.get_rng_state(), state)


def test_drop_path_needs_more_than_the_first_layer_and_rows_of_their_own():
    with pytest.raises(UserError, match=r"model.drop_path=0.1 grows from 0 in the first layer, and there is one layer"):
        GPTConfig(width=8, heads=2, layers=1, drop_path=0.1)
    with pytest.raises(UserError, match=r"model.drop_path=1"):
        GPTConfig(width=8, heads=2, drop_path=1.0)
    assert GPTConfig(width=8, heads=2).packable
    assert not GPTConfig(width=8, heads=2, drop_path=0.1).packable

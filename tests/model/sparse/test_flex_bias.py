"""A bias of positions as FlexAttention's score function: uncompiled on a CPU, compiled on a GPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard.core.packing import Packing, to_device
from regard.families.bert import BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.t5 import T5Config
from regard.families.transformer import Transformer
from regard.model.mixers.softmax import Softmax
from regard.model.position import SCHEMES, Position, attention_position
from regard.model.sparse import flex
from regard.model.sparse.blocks import between_blocks, block_mask
from regard.model.visibility import only_words, padding
from regard.model.visibility.parse import parse_visibility
from regard.training.compile import compile_stacks
from tests.model.position.schemes import cached

BIASED = [name for name, scheme in SCHEMES.items() if scheme.does == "biases"]
CPU = torch.device("cpu")


def scheme_of(position: str, device: torch.device) -> Position:
    scheme = attention_position(BERTConfig(width=32, heads=2, position=position), 1, causal=False)
    assert scheme is not None
    torch.manual_seed(1)
    for parameter in scheme.parameters():
        nn.init.normal_(parameter)
    return scheme.to(device)


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float) -> None:
    for one, other in zip(found, expected):
        scale = other.abs().max().item()
        torch.testing.assert_close(one.float(), other.float(), atol=tolerance * scale, rtol=tolerance)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", ["full", "window(20)"])
@pytest.mark.parametrize("position", BIASED)
@torch.no_grad()
def test_the_score_function_uncompiled(position: str, text: str) -> None:
    """On a CPU FlexAttention has no backward pass."""
    from torch.nn.attention.flex_attention import flex_attention

    scheme, pattern = scheme_of(position, CPU), parse_visibility(text) & padding(torch.tensor([128, 100]))
    view = pattern.over(128, 128, batch=2, device=CPU)
    some, every = between_blocks(pattern, 128, 128, 64, batch=2, offset=0, device=CPU)
    mask = block_mask(pattern, some, every, (128, 128), 64, 0)
    q, k, v = torch.randn(3, 2, 2, 128, 16)
    bias = scheme.over(view).layer(0).bias(q, k)
    found = flex_attention(q, k, v, flex.score_function(view, bias.at), mask)
    assert_same([found], [Softmax().mix(q, k, v, view, bias=bias)], 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("text", ["window(64)", "bigbird(64)"])
@pytest.mark.parametrize("position", BIASED)
def test_compiled_is_all_pairs(position: str, text: str) -> None:
    """By blocks on a GPU, with gradients into what the scheme has learned."""
    device, length = torch.device("cuda"), 4096
    scheme = scheme_of(position, device)
    view = parse_visibility(text).over(length, length, batch=2, device=device)
    assert view.blocks is not None
    inputs = [torch.randn(2, 2, length, 16, device=device, requires_grad=True) for _ in range(3)]
    results = []
    for each in (view, view.rendered()):
        context = Softmax().mix(*inputs, each, bias=scheme.over(each).layer(0).bias(*inputs[:2]))
        learned = list(scheme.parameters())
        weight = torch.linspace(-1, 1, 16, device=device)
        results.append([context, *torch.autograd.grad((context * weight).sum(), [*inputs, *learned])])
    assert_same(*results, 1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("position", list(SCHEMES))
def test_packed_rows_and_cached_steps_on_a_gpu(position: str) -> None:
    config = GPTConfig(width=64, heads=2, feedforward=96, layers=2, dropout=0.0, position=position)
    model = GPT(config, 17).cuda().eval()
    ids, lengths = torch.randint(0, 17, (3, 200), device="cuda"), [200, 70, 140]
    packing = Packing.of(lengths)
    packing = Packing(*(part.cuda() if isinstance(part, torch.Tensor) else part for part in vars(packing).values()))
    assert only_words(packing).over(410, 410, device=torch.device("cuda")).packed is not None
    row = torch.cat([ids[n, :length] for n, length in enumerate(lengths)])[None]
    with torch.no_grad():
        expected = torch.cat([model(ids)[n, :length] for n, length in enumerate(lengths)])
        torch.testing.assert_close(model(row, packing)[0], expected, atol=1e-3, rtol=1e-3)
        steps = cached(model, (ids[:, :1], torch.ones(3, dtype=torch.long, device="cuda")), ids[:, 1:40], fixed=True)
        torch.testing.assert_close(steps, model(ids[:, :40])[:, 1:], atol=1e-3, rtol=1e-3)


def packed(lengths: list[int]) -> tuple[torch.Tensor, Packing]:
    """Return ids of texts of these lengths end to end, and how they are packed."""
    packing = to_device(Packing.of(lengths), torch.device("cuda"))
    return torch.randint(4, 17, (1, sum(lengths)), generator=torch.Generator().manual_seed(lengths[0])).cuda(), packing


@pytest.mark.gpu
@pytest.mark.parametrize("position", [*SCHEMES, "t5"])
def test_compiled_stacks_train_on_packed_rows(position: str) -> None:
    """Values and gradients of a model compiled for rows of changing sizes, against texts one by one, uncompiled in float32."""
    parts = dict(width=64, heads=2, feedforward=96, layers=2, dropout=0.0)
    torch._dynamo.reset()
    t5 = position == "t5"
    compiled = Transformer(T5Config(**parts, head_width=32), 17, 17) if t5 else GPT(GPTConfig(**parts, position=position), 17)
    plain = copy.deepcopy(compiled.cuda())
    compile_stacks(compiled)
    for lengths in ([200, 70, 114], [260, 60, 64], [300, 484, 112], [32, 90, 6]):
        ids, packing = packed(lengths)
        each = [part[None] for part in ids[0].split(lengths)]
        with torch.autocast("cuda", torch.bfloat16):
            found = compiled(ids, packing, ids, packing) if t5 else compiled(ids, packing)
        if t5:
            expected = torch.cat([plain(part, torch.tensor([part.shape[1]], device="cuda"), part) for part in each], 1)
        else:
            expected = torch.cat([plain(part) for part in each], 1)
        results = []
        for model, logits in ((compiled, found), (plain, expected)):
            model.zero_grad()
            logits.float().square().mean().backward()
            learned = [p.grad for name, p in model.named_parameters() if "position" in name and p.grad is not None]
            others = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
            results.append([logits.float(), others, *learned])
        for ours, theirs in zip(*results):  # bf16 rounds to 1 in 256, in two layers forwards and backwards
            assert (ours - theirs).norm() <= 5e-2 * theirs.norm() + 1e-6

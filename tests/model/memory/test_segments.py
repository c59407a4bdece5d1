"""A text read segment by segment equals one pass with the pattern that says the same, a plain formula, and cached decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import Pieces, Segment
from regard.families.base import Sizes
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer_xl import TransformerXLConfig, build
from regard.model.memory.segments import SegmentMemory, Segments, read_in_segments, reading

SIZES = dict(width=24, heads=3, feedforward=40, layers=2, dropout=0.0, maximum_length=4, memory=6)
ANGLES = dict(atol=1e-5, rtol=1e-5)  # which are computed in float32


def drawn(config: GPTConfig, seed: int = 0) -> GPT:
    """A model in float64 whose numbers are large enough that every part of a score matters."""
    xl = isinstance(config, TransformerXLConfig)
    model = build(config, Sizes(vocabulary=31), 0) if xl else GPT(config, 31)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.double().parameters():
        parameter.data = 0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model.eval()


def ids(length: int, rows: int = 3) -> Tensor:
    return torch.randint(0, 31, (rows, length), generator=torch.Generator().manual_seed(3))


def by_segments(model: GPT, ids_BL: Tensor, size: int, memory: SegmentMemory) -> Tensor:
    """Return logits_BLV of texts that are read in segments of this size."""
    rows, logits = len(ids_BL), []
    for begin in range(0, ids_BL.shape[1], size):
        segment = Segment(torch.arange(rows), torch.full((rows,), begin == 0), rows)
        logits.append(model(ids_BL[:, begin : begin + size], segment))
        memory.commit()
    return torch.cat(logits, 1)


@pytest.mark.parametrize("start", ["empty", "zeros"])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(
    "parts",
    [
        dict(position="transformer-xl"),
        dict(position="transformer-xl", norm_placement="post"),
        dict(position="rotary", norm="rms", kv_heads=1, qk_norm=True, visibility="window(8)"),
        dict(position="relative", buckets=4, farthest=4),
        dict(position="alibi"),
    ],
    ids=str,
)
@torch.no_grad()
def test_segment_by_segment_is_one_pass(parts: dict[str, Any], same: bool, start: Any) -> None:
    model = drawn(GPTConfig(**{**SIZES, **parts, "memory_start": start, "same_length": same}))  # type: ignore[arg-type]
    whole = model(ids(19))
    with reading(model) as memory:
        torch.testing.assert_close(by_segments(model, ids(19), 4, memory), whole, **ANGLES)
    shorter = GPTConfig(**{**SIZES, **parts, "memory": 0, "maximum_length": 99})  # type: ignore[arg-type]
    blind = GPT(shorter, 31).double().eval()
    blind.load_state_dict(model.state_dict())
    if not (same or start == "zeros" or "visibility" in parts):
        torch.testing.assert_close(blind(ids(19))[:, :4], whole[:, :4])  # without an earlier segment a memory changes nothing
    assert not torch.allclose(blind(ids(19))[:, 12:], whole[:, 12:])


@torch.no_grad()
def test_the_paper_s_equations() -> None:
    """Section 3.2 and 3.3 in plain sums over one query and key at a time, for one segment after a memory of random vectors."""
    model = drawn(TransformerXLConfig(**SIZES, same_length=False))  # type: ignore[arg-type]
    heads, width, memory = 3, 8, SegmentMemory(model.config, 4, 6)
    generator = torch.Generator().manual_seed(5)
    memory.states_NSMD = torch.randn(2, 1, 6, 24, generator=generator, dtype=torch.float64)
    memory.filled_S, kept = torch.tensor([4]), memory.states_NSMD[:, 0, 2:].clone()  # two places are not filled
    model.segment_memory = memory
    found = model(ids(5, 1), Segment(torch.tensor([0]), torch.tensor([False]), 1))[0]
    x, inputs, scheme = model.embed.tokens.weight[ids(5, 1)[0]] * 24**0.5, [], model.decoder.position
    for n, block in enumerate(model.decoder.blocks):
        inputs.append(x)
        both = torch.cat([kept[n], x])
        w_q, w_k, w_v = block["self"].layer.project.weight.split(24)
        u, v, w_r = (getattr(scheme.layers[n], name) for name in ("content_HK", "position_HK", "project"))
        out = torch.zeros(5, heads, width, dtype=torch.float64)
        for h in range(heads):
            rows = slice(h * width, (h + 1) * width)
            for i in range(5):
                scores = []
                for j in range(4 + i + 1):
                    angle = (4 + i - j) * 10_000.0 ** (-torch.arange(0, 24, 2, dtype=torch.float64) / 24)
                    r = w_r.weight[rows] @ torch.cat([angle.sin(), angle.cos()])
                    q, k = w_q[rows] @ x[i], w_k[rows] @ both[j]
                    scores.append(((q + u[h]) @ k + (q + v[h]) @ r) / width**0.5)
                out[i, h] = torch.stack(scores).softmax(0) @ (both[: 4 + i + 1] @ w_v[rows].T)
        x = _normed(block["self"].norm, x + out.flatten(1) @ block["self"].layer.out.weight.T)
        ffn = block["ffn"].layer
        inner = F.relu(x @ ffn.expand.weight.T + ffn.expand.bias)
        x = _normed(block["ffn"].norm, x + inner @ ffn.contract.weight.T + ffn.contract.bias)
    torch.testing.assert_close(found, x @ model.embed.tokens.weight.T + model.head.project.bias, atol=1e-6, rtol=1e-6)
    memory.commit()
    for n in range(2):
        torch.testing.assert_close(memory.states_NSMD[n, 0], torch.cat([kept[n], inputs[n]])[-6:], atol=1e-6, rtol=1e-6)
    assert memory.filled_S.tolist() == [6]


def _normed(norm: Any, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def test_no_gradient_reaches_an_earlier_segment_but_its_projections_learn() -> None:
    model = drawn(TransformerXLConfig(**{**SIZES, "layers": 1})).train()  # type: ignore[arg-type]
    with reading(model) as memory:
        first = model.hidden(ids(4), Segment(torch.arange(3), torch.ones(3, dtype=torch.bool), 3))
        memory.commit()
        assert memory.states_NSMD is not None
        assert not memory.states_NSMD.requires_grad
        assert first.requires_grad
        model.zero_grad()
        model.hidden(ids(1), Segment(torch.arange(3), torch.zeros(3, dtype=torch.bool), 3)).square().sum().backward()
    keys = model.decoder.blocks[0]["self"].layer.project.weight.grad.split(24)[1]
    assert keys.abs().sum() > 0  # a lone token sees itself and the memory: without the latter its softmax has no gradient


@torch.no_grad()
def test_rows_and_streams_are_told_apart_by_number() -> None:
    """Batches in which streams come in another order, or not at all, and one that begins again."""
    model, text = drawn(GPTConfig(**SIZES, position="alibi")), ids(8)  # type: ignore[arg-type]
    with reading(model) as memory:
        expected = by_segments(model, text, 4, memory)[:, 4:]
    no, yes = torch.zeros(2, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    with reading(model) as memory:
        memory.at_once = False
        model(text[:, :4], Segment(torch.arange(3), yes, 3))
        memory.commit()
        model(text[:, :4], Segment(torch.arange(3), ~yes, 3))
        memory.discard()  # a step that is taken again
        order = torch.tensor([2, 0])
        torch.testing.assert_close(model(text[order, 4:], Segment(order, no, 3)), expected[order])
        memory.commit()
        fresh = torch.tensor([True, False])
        found = model(text[[0, 1], 4:], Segment(torch.tensor([0, 1]), fresh, 3))
        torch.testing.assert_close(found[1], expected[1])
        torch.testing.assert_close(found[0], model(text[:1, 4:])[0])


@torch.no_grad()
def test_a_longer_memory_sees_farther() -> None:
    model = drawn(GPTConfig(**SIZES, position="rotary"))  # type: ignore[arg-type]
    usual = model(ids(19))
    with reading(model, length=99) as memory:
        found = by_segments(model, ids(19), 4, memory)
    read_in_segments(model, 4, 99)
    torch.testing.assert_close(found, model(ids(19)), **ANGLES)
    torch.testing.assert_close(found[:, :8], usual[:, :8], **ANGLES)
    assert not torch.allclose(found[:, 12:], usual[:, 12:])


@torch.no_grad()
def test_compiled_and_recomputed_segments_are_the_same() -> None:
    model = drawn(TransformerXLConfig(**SIZES))  # type: ignore[arg-type]
    with reading(model) as memory:
        expected = by_segments(model, ids(12), 4, memory)
    model.decoder.compile(fullgraph=True, backend="eager", dynamic=False)
    with reading(model) as memory:
        torch.testing.assert_close(by_segments(model, ids(12), 4, memory), expected)
    other = drawn(TransformerXLConfig(**SIZES))  # type: ignore[arg-type]
    other.decoder.recompute = True
    with torch.enable_grad(), reading(other) as memory:
        by_segments(other, ids(12), 4, memory).square().sum().backward()


def test_zeros_before_packed_texts_are_refused() -> None:
    model = drawn(GPTConfig(**SIZES, position="rotary", memory_start="zeros"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="memory_start=zeros puts zeros before each text"):
        model(ids(4, 1), Pieces.of([1, 3], 1))


def test_the_pattern_by_hand() -> None:
    i, j = torch.arange(9)[:, None], torch.arange(9)
    sees = Segments(3, 2).sees(i, i, i, j) & (j <= i)
    assert [row.nonzero().min().item() for row in sees] == [0, 0, 0, 1, 1, 1, 4, 4, 4]
    assert str(Segments(3, 2)) == "segments(3, 2)"

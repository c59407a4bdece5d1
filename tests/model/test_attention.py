"""Attention as a layer: shared keys, heads of any width, a memory of another width, caches, and the seam."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.families.gpt import GPTConfig
from regard.model.attention import Attention, KeysValues, attend, gate_heads
from regard.model.mixers.softmax import Softmax
from regard.model.probe import Probe
from regard.model.visibility import causal, full

CPU = torch.device("cpu")


def attention(**settings: object) -> Attention:
    torch.manual_seed(0)
    return Attention(24, 6, **{"mixer": Softmax(), "dropout": 0.0, "name": "decoder.0.self", **settings})


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_shared_keys_are_keys_repeated(groups: int) -> None:
    """Grouped-query attention is attention whose key and value rows are copied for every head of a group."""
    ours, whole = attention(kv_heads=groups), attention()
    q, k, v = ours.project.weight.split(ours.projections)
    bias = ours.project.bias.split(ours.projections)
    repeated = [part.unflatten(0, (groups, 4)).repeat_interleave(6 // groups, 0).flatten(0, 1) for part in (k, v, *bias[1:])]
    whole.project.weight.data = torch.cat([q, *repeated[:2]])
    whole.project.bias.data = torch.cat([bias[0], *repeated[2:]])
    whole.out.load_state_dict(ours.out.state_dict())
    x, view = torch.randn(2, 7, 24), causal.over(7, 7, device=CPU)
    torch.testing.assert_close(ours(x, view), whole(x, view))


def test_a_memory_of_another_width_and_heads_of_any() -> None:
    cross = attention(cross=True, memory_width=10, head_width=5, kv_heads=2, bias=False)
    memory = cross.project_kv(torch.randn(2, 9, 10))
    assert [part.shape for part in memory] == [(2, 2, 9, 5)] * 2
    assert cross(torch.randn(2, 3, 24), full.over(3, 9, device=CPU), memory).shape == (2, 3, 24)
    assert cross.out.bias is None
    assert [part.shape for part in cross.empty_kv(memory)] == [(2, 2, 0, 5)] * 2


def test_scores_are_divided_by_the_root_of_the_width_or_not() -> None:
    q, k, v = torch.randn(3, 2, 6, 7, 4)
    for scaled, scale in ((True, 0.5), (False, 1.0)):
        context = attention(scaled=scaled)._context(q, KeysValues(k, v), full.over(7, 7, device=CPU), None)
        torch.testing.assert_close(context, F.scaled_dot_product_attention(q, k, v, scale=scale))


def test_the_seam_records_and_gates() -> None:
    q, k, v = torch.randn(3, 2, 6, 7, 4)
    view, seen = full.over(7, 7, device=CPU), Probe(gates={"a": torch.tensor([1.0, 0, 1, 1, 1, 2])})
    context = attend(seen, "a", Softmax(), q, k, v, view, None, 0.0)
    plain = attend(None, "a", Softmax(), q, k, v, view, None, 0.0)
    torch.testing.assert_close(context, plain * torch.tensor([1.0, 0, 1, 1, 1, 2])[:, None, None])
    assert seen["a"].q_BHLK is q
    assert gate_heads(seen, "b", plain) is plain


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(kv_heads=5), "model.kv_heads=5 must divide model.heads=6"),
        (dict(kv_heads=2, pruned=("decoder.0.self:1",)), "heads share them"),
        (dict(kv_heads=2, mixer="favor"), "model.mixer=favor keeps none"),
        (dict(head_width=-1), "model.head_width=-1"),
        (dict(scaled=False, mixer="dot"), "is for model.mixer=softmax"),
    ],
)
def test_refused_in_one_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        GPTConfig(**{"width": 24, "heads": 6, **settings})


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("groups", [6, 3])
def test_values_may_have_a_width_of_their_own(cross: bool, groups: int) -> None:
    ours = attention(head_width=4, value_width=7, kv_heads=groups, cross=cross, memory_width=10 if cross else None)
    x, memory, view = torch.randn(2, 5, 24), torch.randn(2, 9, 10), full.over(5, 9 if cross else 5, device=CPU)
    found = ours(x, view, ours.project_kv(memory)) if cross else ours(x, view)
    parts = ours.project(memory if cross else x).split(ours.projections, -1)
    q = ours.query(x) if ours.query is not None else parts[0]
    k, v = (part.unflatten(-1, (groups, -1)).transpose(1, 2).repeat_interleave(6 // groups, 1) for part in parts[-2:])
    weights = (q.unflatten(-1, (6, 4)).transpose(1, 2) @ k.mT / 2).softmax(-1)
    assert ours.out.in_features == 6 * 7
    torch.testing.assert_close(found, ours.out((weights @ v).transpose(1, 2).flatten(2)), atol=1e-5, rtol=1e-5)

"""Which kernel computes attention: sizes of blocks, the choice for every kind of view, and the words for it."""

from __future__ import annotations

import pytest
import torch

from regard.core.packing import Packing
from regard.model.sparse.dispatch import SHORT, choose, describe, softmax_kernel
from regard.model.visibility import View, causal, full, only_words, window
from regard.model.visibility.parse import parse_visibility

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "cpu", "cuda"),
    [
        ("window(32)", 32, 128),
        ("window(64)", 64, 128),
        ("window(256)", 128, 128),
        ("bigbird(32)", 32, 64),
        ("bigbird(64)", 64, 64),
        ("bigbird(128)", 128, 128),
        ("causal & bigbird(32)", 32, 64),
        ("causal & bigbird(64)", 64, 64),  # the border of what is before lies in blocks of any size
        ("causal & bigbird(128)", 128, 128),
        ("sparse-transformer(128, 32)", 32, 0),
        ("strided(3)", 0, 0),
    ],
)
def test_blocks_have_the_size_that_costs_least(text, cpu, cuda):
    """As measured at 4,096 tokens on a CPU; on a GPU that of the pattern's own blocks."""
    sizes = [choose(parse_visibility(text), 4096, 4096, 0, device).size for device in ("cpu", "cuda")]
    assert sizes == [cpu, cuda]


def test_it_is_said_which_kernel_and_why():
    assert describe(full, 4096) == "all pairs at once (all pairs are visible)"
    assert describe(causal, 4096).startswith("all pairs at once (all before it")
    assert describe(window(8), 100) == "all pairs at once (fewer than 512 tokens)"
    said = describe(parse_visibility("bigbird(64)"), 4096)
    assert "on a CPU blocks by the fused kernel (15% of blocks of 64 needed, 1.8 times the time a pair)" in said
    assert "on a GPU blocks by FlexAttention" in said
    assert "plain products" in describe(parse_visibility("bigbird(64)"), 4096, dropout=0.1)
    assert choose(window(8), 4096, 4096, 0, "mps").size == 0
    assert describe(causal, 4096, biased=True) == "all pairs at once (bias and mask in one tensor)"
    assert "on a CPU blocks by plain products, as a bias of positions needs" in describe(window(32), 4096, biased=True)


def kernel(view: View, *, dropout: float = 0.0, biased: bool = False) -> str:
    q, k = torch.zeros(1, 2, view.length, 16), torch.zeros(1, 2, view.memory, 16)
    return softmax_kernel(q, k, view, dropout, biased)


def test_every_kind_of_view_has_its_kernel_on_a_cpu():
    blocked = window(32).over(1024, 1024, device=CPU)
    assert kernel(blocked) == "blocked"
    assert kernel(blocked, dropout=0.1) == kernel(blocked, biased=True) == "blocked weights"
    packed = only_words(Packing.of([5, 4])).over(9, 9, device=CPU)
    assert kernel(packed) == kernel(causal.over(9, 9, device=CPU), biased=True) == "dense"
    with torch.no_grad():
        assert kernel(packed) == kernel(full.over(9, 9, device=CPU), biased=True) == "products"
        assert kernel(packed, dropout=0.1) == kernel(full.over(9, 9, device=CPU)) == "dense"
        assert kernel(causal.over(2, SHORT + 1, offset=3, device=CPU)) == "dense"

"""The step's attention kernels against explicit weights, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.model.kernels.decode_step import HAS_TRITON
from regard.model.mixers.softmax import Softmax
from tests.model.kernels.interpreted import DEVICE, EXAMPLES, HALF, close, needs_triton

if HAS_TRITON:
    from regard.model.kernels.attention import attend_memory, attend_own

pytestmark = needs_triton


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(
    sentences=st.integers(1, 3),
    lanes=st.integers(1, 4),
    heads=st.integers(1, 3),
    head_width=st.sampled_from([8, 24, 64]),
    written=st.integers(0, 300),
    seed=st.integers(0, 99),
)
def test_own_attention(dtype: torch.dtype, sentences: int, lanes: int, heads: int, head_width: int, written: int, seed: int):
    """Slots not written yet hold no numbers, and some of those that were are hidden. The caches must end up the same."""
    draw, slots, room = torch.Generator().manual_seed(seed), written + 2 * lanes, written + 3 * lanes
    cache = torch.randn(2, sentences + 1, heads, room, head_width, generator=draw).to(DEVICE, dtype)
    cache[:, :, :, written:] = torch.nan
    kv_2SHNK = cache[:, :sentences, :, :slots]
    qkv_RE = torch.randn(sentences * lanes, 3 * heads * head_width, generator=draw).to(DEVICE, dtype)
    sees_SWN = torch.rand(sentences, lanes, slots, generator=draw) < 0.6
    sees_SWN[:, :, written:] = False
    sees_SWN[:, :, written : written + lanes] = torch.eye(lanes, dtype=torch.bool)
    mask_S1WN = torch.zeros(sees_SWN.shape).masked_fill(~sees_SWN, -torch.inf)[:, None].to(DEVICE, dtype)
    slots_W = torch.arange(written, written + lanes, device=DEVICE)

    q_SHWK, k_SHWK, v_SHWK = qkv_RE.unflatten(0, (sentences, lanes)).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    expected = kv_2SHNK.clone()
    expected[:, :, :, written : written + lanes] = torch.stack([k_SHWK, v_SHWK])
    known = expected[:, :, :, : written + lanes].double()
    weights = Softmax().weights(q_SHWK.double(), known[0], sees_SWN[:, None, :, : written + lanes].to(DEVICE))
    found = attend_own(qkv_RE, mask_S1WN, kv_2SHNK, slots_W)
    close(found, (weights @ known[1]).transpose(1, 2).flatten(2).flatten(0, 1), dtype)
    assert kv_2SHNK.equal(expected) if written + lanes == slots else torch.equal(kv_2SHNK.nan_to_num(7), expected.nan_to_num(7))


@settings(max_examples=EXAMPLES)
@given(lengths=st.lists(st.integers(0, 150), min_size=1, max_size=3), lanes=st.integers(1, 3), seed=st.integers(0, 99))
def test_attention_to_a_memory(lengths: list[int], lanes: int, seed: int) -> None:
    """Who sees nobody answers with zeros."""
    draw, memory = torch.Generator().manual_seed(seed), max(1, *lengths)
    kv = torch.randn(2, len(lengths), 2, memory, 12, generator=draw).to(DEVICE)
    q_RD = torch.randn(len(lengths) * lanes, 24, generator=draw).to(DEVICE)
    sees_S11M = (torch.arange(memory) < torch.tensor(lengths)[:, None])[:, None, None].to(DEVICE)
    mask = torch.zeros(sees_S11M.shape, device=DEVICE).masked_fill(~sees_S11M, -torch.inf)
    q_SHWK = q_RD.unflatten(0, (-1, lanes)).unflatten(2, (2, 12)).transpose(1, 2)
    weights = Softmax().weights(q_SHWK.double(), kv[0].double(), sees_S11M)
    found = attend_memory(q_RD, mask, kv[0], kv[1])
    close(found, (weights @ kv[1].double()).transpose(1, 2).flatten(2).flatten(0, 1))


def test_references_are_what_torch_says() -> None:
    """What these tests compare with, once, against torch's own attention."""
    q, k, v = torch.randn(3, 2, 3, 5, 8).unbind()
    sees = torch.rand(2, 1, 5, 5) < 0.9
    sees[..., 0] = True
    torch.testing.assert_close(Softmax().weights(q, k, sees) @ v, F.scaled_dot_product_attention(q, k, v, attn_mask=sees))

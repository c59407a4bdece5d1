"""Maps of blocks against every pair of their patterns, and those for a GPU against FlexAttention's own."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import BlockMask

from regard.model.sparse.blocks import between_blocks, block_mask, blocks_of
from regard.model.sparse.split_global import wide_of
from regard.model.visibility import View, causal, dense, documents, full, padding
from regard.model.visibility.bigbird import bigbird
from regard.model.visibility.parse import parse_visibility
from tests.decode.tape import Tape
from tests.model.sparse.test_flex import WIDE
from tests.model.visibility.pattern_cases import CPU, few, over_three, patterns, seen


@settings(max_examples=150)
@given(patterns, st.integers(1, 12), st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.booleans())
def test_a_map_of_blocks_never_misses_what_is_seen(pattern, size, length, memory, offset, padded):
    pattern = over_three(pattern, memory, padded)
    some, every = between_blocks(pattern, length, memory, size, batch=3, offset=offset, device=CPU)
    pairs = (dense(pattern, torch.arange(length), memory, batch=3, offset=offset).expand(3, 1, length, memory))[:, 0]
    for row in range(some.shape[1]):
        for column in range(some.shape[2]):
            tile = pairs[:, row * size : (row + 1) * size, column * size : (column + 1) * size]
            assert not (tile.gt(0).flatten(1).any(1) & ~some.expand(3, -1, -1)[:, row, column]).any()
            assert not (~tile.eq(1).flatten(1).all(1) & every.expand(3, -1, -1)[:, row, column]).any()


@settings(max_examples=150)
@given(patterns, st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.booleans())
def test_a_mask_that_is_asked_for_by_blocks_is_that_of_all_pairs(pattern, length, memory, offset, padded):
    pattern = over_three(pattern, memory, padded)
    view = View(pattern, 3, length, memory, offset, CPU).rendered()
    pairs = dense(pattern, torch.arange(length), memory, batch=3, offset=offset)
    expected = pairs.log() if pattern.counts else pairs
    if view.fully_masked_rows is not None:
        hidden = ~(pairs > 0).any(-1, keepdim=True).expand(3, 1, length, 1)
        assert torch.equal(view.fully_masked_rows.expand(3, 1, length, 1), hidden)
        expected = expected.masked_fill(view.fully_masked_rows, 0.0 if pattern.counts else True)
    assert torch.equal(view.mask.expand(3, 1, length, memory), expected.expand(3, 1, length, memory))


@pytest.mark.parametrize(
    "text", ["bigbird(4)", "causal & bigbird(4)", "block(8, 1)", "last(4) | global(4)", "bigbird-fixed(4, 1)"]
)
@pytest.mark.parametrize("padded", [False, True])
def test_of_patterns_in_blocks_the_map_is_exact(text, padded):
    pattern = parse_visibility(text) & (padding(torch.tensor([60, 21, 44])) if padded else full)
    pattern = pattern.with_length(60 if pattern.lengths_B is None else pattern.lengths_B)
    some, _ = between_blocks(pattern, 60, 60, 4, batch=3, offset=0, device=CPU)
    pairs = dense(pattern, torch.arange(60), 60, batch=3).expand(3, 1, 60, 60)[:, 0] > 0
    assert torch.equal(some.expand(3, -1, -1), pairs.unflatten(1, (15, 4)).unflatten(3, (15, 4)).any(4).any(2))


@settings(max_examples=150)
@given(patterns, st.integers(1, 12), st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.booleans())
def test_what_a_gpu_asks_inside_blocks_leaves_what_is_seen(pattern, size, length, memory, offset, padded):
    """Parts without a border inside blocks are not asked there, so the map must be exact for them."""
    pattern = over_three(pattern, memory, padded)
    some, every = between_blocks(pattern, length, memory, size, batch=3, offset=offset, device=CPU)
    inside = block_mask(pattern, some, every, (length, memory), size, offset).mask_mod
    b, i, j = torch.arange(3)[:, None, None], torch.arange(length)[:, None], torch.arange(memory)
    needed, whole = (part.expand(3, -1, -1)[:, i // size, j // size] for part in (some, every))
    found = needed & (whole | inside(b, torch.zeros_like(b), i, j))
    pairs = dense(pattern, torch.arange(length), memory, batch=3, offset=offset).expand(3, 1, length, memory)[:, 0]
    assert torch.equal(found, pairs > 0)


def test_the_map_of_a_gpu_lists_the_same_blocks():
    """Built here on a CPU, from the same numbers; what FlexAttention does with it a GPU tests."""
    pattern = (causal & bigbird(16) & padding(torch.tensor([200, 77]))).with_length(None)
    blocks = blocks_of(pattern, 200, 200, 16, batch=2, offset=0, device=CPU)
    mask = block_mask(pattern, blocks.some_BQN, blocks.every_BQN, (200, 200), 16, 0)
    assert torch.equal(mask.to_dense()[:, 0].bool(), blocks.some_BQN)
    whole = blocks.every_BQN.sum(-1)
    assert torch.equal(mask.full_kv_num_blocks[:, 0].long(), whole)
    assert mask.BLOCK_SIZE == (16, 16)


@few
@given(st.lists(st.lists(st.integers(0, 3), min_size=22, max_size=22), min_size=1, max_size=3), st.integers(1, 9), st.booleans())
def test_documents_answer_for_blocks_that_lie_in_one(rows, size, in_order):
    """Whatever their numbers are: never sure of what is not so, and sure where both blocks have one document each."""
    ids = torch.tensor([sorted(row) if in_order else row for row in rows])
    sees = seen(documents(ids), 22, len(ids))
    some, every = between_blocks(documents(ids), 22, 22, size, batch=len(ids), offset=0, device=CPU)
    blocks = [range(start, min(start + size, 22)) for start in range(0, 22, size)]
    for n, q, k in product(range(len(ids)), range(len(blocks)), range(len(blocks))):
        inside = sees[n, blocks[q]][:, blocks[k]]
        alone = all(len(ids[n, blocks[each]].unique()) == 1 for each in (q, k))
        assert some[n, q, k] >= inside.any()
        assert every[n, q, k] <= (inside.all() and len(blocks[k]) == size)
        if alone:
            assert some[n, q, k] == inside.any()


@pytest.mark.parametrize("looks_back", [False, True])
@pytest.mark.parametrize("text", WIDE)
def test_a_map_for_a_gpu_is_flex_attentions_own_and_asks_the_host_for_nothing(text: str, looks_back: bool) -> None:
    """So that a step with it can be recorded. Dense masks, too."""
    lengths_B, tokens, size = torch.tensor([512, 300]), 512, 64
    pattern = (causal if looks_back else full) & parse_visibility(text) & padding(lengths_B)
    settled = pattern.with_length(lengths_B)
    with Tape():
        some, every = between_blocks(settled, tokens, tokens, size, batch=2, offset=0, device=CPU)
        wide = wide_of(settled, tokens, size, batch=2, device=CPU, chunk=2 * size)
        maps = [
            block_mask(settled, some, every, (tokens, tokens), size, 0, each)
            for each in ([None] if wide is None else [None, wide])
        ]
        View(settled, 2, tokens, tokens, 0, CPU).rendered()
    for found in maps:
        by_queries = found.kv_num_blocks, found.kv_indices, found.full_kv_num_blocks, found.full_kv_indices
        lengths = found.seq_lengths
        expected = BlockMask.from_kv_blocks(*by_queries, BLOCK_SIZE=size, mask_mod=found.mask_mod, seq_lengths=lengths)
        for ours, theirs in zip(found.as_tuple(), expected.as_tuple()):
            assert ours is theirs or not isinstance(theirs, torch.Tensor) or torch.equal(ours, theirs)

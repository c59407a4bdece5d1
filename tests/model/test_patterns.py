"""Sparse patterns against rules written out by hand, their maps of blocks against every pair, and how they are written."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import BlockMask

from regard.core.errors import UserError
from regard.model.sparse.blocks import between_blocks, block_mask, blocks_of
from regard.model.sparse.split_global import wide_of
from regard.model.visibility import Documents, View, Visibility, causal, dense, documents, full, only_words, padding, window
from regard.model.visibility.bigbird import BigBirdFixed, Random, bigbird
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.patterns import Block, Global, Last, Local1D, Local2D, Strided, Summary
from tests.decode.tape import Tape
from tests.model.sparse.test_flex import WIDE

CPU = torch.device("cpu")
few = settings(max_examples=40)


def seen(pattern: Visibility, length: int, batch: int = 1) -> torch.Tensor:
    """sees_BLM of every pair, as it is when a model looks."""
    view = pattern.over(length, length, batch=batch, device=CPU)
    return view.rows(torch.arange(length)).expand(batch, 1, length, length)[:, 0]


RULES = {
    "block(3)": lambda i, j, n: i // 3 == j // 3,
    "block(3, 2)": lambda i, j, n: abs(i // 3 - j // 3) <= 2,
    "strided(4)": lambda i, j, n: (i - j) % 4 == 0,
    "strided(2, 3)": lambda i, j, n: (i // 3) % 2 == (j // 3) % 2,
    "summary(5, 2)": lambda i, j, n: j % 5 in (3, 4),
    "global(2)": lambda i, j, n: i < 2 or j < 2,
    "last(4)": lambda i, j, n: (n - 1) // 4 in (i // 4, j // 4),
    "last(4, 2)": lambda i, j, n: bool({(n - 1) // 4, (n - 1) // 4 - 1} & {i // 4, j // 4}),
    "longformer(6, 2)": lambda i, j, n: abs(i - j) <= 3 or i < 2 or j < 2,
    "causal & sparse-transformer-strided(4)": lambda i, j, n: j <= i and (i - j <= 4 or (i - j) % 4 == 0),
    "causal & sparse-transformer(4, 1)": lambda i, j, n: j <= i and (i // 4 == j // 4 or j % 4 == 3),
    "sparse-transformer-strided(6, 3)": lambda i, j, n: abs(i // 3 - j // 3) <= 2 or (i // 3 - j // 3) % 2 == 0,
    "image-local-1d(4, 3)": lambda i, j, n: j in range(i // 4 * 4 - 3, i // 4 * 4 + 4 + 3),
    "image-local-2d(5, 2, 3, 1, 1)": lambda i, j, n: (
        j // 5 in range(i // 5 // 2 * 2 - 1, i // 5 // 2 * 2 + 3) and j % 5 in range(i % 5 // 3 * 3 - 1, i % 5 // 3 * 3 + 4)
    ),
    "bigbird(3, 3, 2, 0)": lambda i, j, n: abs(i // 3 - j // 3) <= 1 or bool({0, (n - 1) // 3} & {i // 3, j // 3}),
}


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("length", [1, 7, 23])
def test_patterns_are_what_their_papers_say(text, length):
    rule = [[RULES[text](i, j, length) for j in range(length)] for i in range(length)]
    assert torch.equal(seen(parse_visibility(text), length)[0], torch.tensor(rule))


def test_bigbird_as_transformers_answers_counts_its_first_block_again():
    counts = seen(BigBirdFixed(2, 1), 20)[0]
    assert counts[0].tolist() == counts[19].tolist() == [1] * 20  # the first and the last block see everybody once
    assert counts[8].tolist() == [2] * 2 + [0] * 4 + [1] * 6 + [0] * 6 + [1] * 2
    assert seen(BigBirdFixed(2, 1), 14)[0].eq(1).all()  # too short for two windows of chance
    assert not seen(BigBirdFixed(2, 1), 15)[0].eq(1).all()
    assert seen(causal & BigBirdFixed(2, 1), 20)[0][8].tolist() == [1] * 2 + [0] * 4 + [1] * 3 + [0] * 11


# ------------------------------------------------------------------------------------------------------------------- chance
@few
@given(st.integers(1, 4), st.integers(0, 99), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(1, 40))
def test_chance_picks_others_each_once(count, seed, near, first, last, blocks):
    picked = seen(Random(count, seed, 2, near, first, last), 2 * blocks)[0]
    assert torch.equal(picked, picked[::2, ::2].repeat_interleave(2, 0).repeat_interleave(2, 1))
    for block, row in enumerate(picked[::2, ::2]):
        chosen = set(row.nonzero().flatten().tolist())
        allowed = {n for n in range(first, blocks - last) if abs(n - block) > near}
        assert chosen <= allowed
        assert len(chosen) == min(count, len(allowed))


def test_chance_depends_on_the_seed_and_nothing_else():
    a, b = (seen(Random(2, seed, 1), 64)[0] for seed in (0, 1))
    assert torch.equal(a, seen(Random(2, 0, 1), 64)[0])
    assert (a & b).sum() < 20
    every = torch.stack([seen(Random(2, seed, 1), 64)[0] for seed in range(200)]).float().mean(0)
    off = every[~torch.eye(64, dtype=torch.bool)]
    assert (off - 2 / 63).abs().max() < 0.1  # each is picked about as often as any other
    assert off.std() < 0.02


def test_chance_that_may_not_look_ahead_never_changes_its_mind():
    long = seen(causal & Random(3, 5, 2), 60)[0]
    for length in (1, 2, 9, 37):
        assert torch.equal(seen(causal & Random(3, 5, 2), length)[0], long[:length, :length])
    row = torch.tensor([41])
    step = (causal & Random(3, 5, 2)).sees(row * 0, row * 0, row[:, None], torch.arange(60))
    assert torch.equal(step[0], long[41])


@few
@given(st.lists(st.integers(1, 40), min_size=2, max_size=4))
def test_a_batch_sees_what_each_text_sees_alone(lengths):
    for pattern in (bigbird(3, seed=7), BigBirdFixed(3, 1), Last(4)):
        together = seen(pattern & padding(torch.tensor(lengths)), max(lengths), len(lengths))
        for n, length in enumerate(lengths):
            assert torch.equal(together[n, :length, :length], seen(pattern, length)[0])
            assert not together[n, :, length:].any()


def test_documents_in_one_row_are_seen_as_if_alone():
    from regard.core.packing import Packing, Pieces

    for words in (Packing.of([7, 12, 5]), Pieces.of([7, 12, 5], 1)):
        pattern = causal & bigbird(3) & only_words(words)
        together = dense(pattern.with_length(24), torch.arange(24), 24)[0, 0]
        for start, end in pairwise((0, 7, 19, 24)):
            assert torch.equal(together[start:end, start:end], seen(causal & bigbird(3), end - start)[0])
            assert not together[start:end, :start].any()
        turned = dense((only_words(words) & (causal & bigbird(3))).with_length(24), torch.arange(24), 24)[0, 0]
        assert torch.equal(turned, together)
        with pytest.raises(TypeError, match="padded, not packed"):
            (bigbird(3) & only_words(words)).over(24, 24, device=CPU)
    assert isinstance((window(2) & only_words(Packing.of([3, 4]))).right, Documents)  # relative, so left as it is
    assert (window(2) & only_words(Packing.of([3, 4]))).reach == (2, 2)


# ------------------------------------------------------------------------------------------------------------------- blocks
numbers = st.integers(1, 9)
plain = st.one_of(
    st.builds(Block, numbers, st.integers(0, 2)),
    st.builds(Strided, numbers, numbers),
    st.builds(lambda period, count: Summary(period + count, count), numbers, numbers),
    st.builds(Global, numbers),
    st.builds(Last, numbers, st.integers(1, 2)),
    st.builds(Random, st.integers(1, 3), numbers, numbers, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    st.builds(Local1D, numbers, st.integers(0, 9)),
    st.builds(Local2D, numbers, numbers, numbers, st.integers(0, 3), st.integers(0, 3)),
    st.builds(window, st.integers(0, 12)),
    st.builds(BigBirdFixed, numbers, st.integers(0, 1)),
    st.sampled_from([causal, full]),
)
patterns = st.recursive(
    plain, lambda p: st.one_of(st.builds(lambda a, b: a & b, p, p), st.builds(lambda a, b: a | b, p, p)), max_leaves=4
)


def over_three(pattern: Visibility, memory: int, padded: bool) -> Visibility:
    """Told where three sequences end."""
    if padded:
        pattern = pattern & padding(torch.tensor([memory, 1, (memory + 1) // 2]))
    return pattern.with_length(memory if pattern.lengths_B is None else pattern.lengths_B)


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


# -------------------------------------------------------------------------------------------------------------------- words
@pytest.mark.parametrize("text", [*RULES, "bigbird", "random(2)", "random(2, 1, 8) | window(3)", "bigbird-fixed"])
def test_what_is_printed_can_be_read_again(text):
    pattern = parse_visibility(text)
    assert parse_visibility(str(pattern)) == pattern


def test_numbers_may_be_named():
    assert parse_visibility("bigbird(random=2, global=1, seed=4)") == bigbird(64, 3, 1, 2, 4)
    assert parse_visibility("longformer(8, global=3)") == window(4) | Global(3)
    assert parse_visibility("longformer(window=8)") == window(4) | Global(1)


def test_what_papers_have_may_be_left_out():
    assert parse_visibility("longformer") == window(256) | Global(1)
    assert parse_visibility("sparse-transformer") == parse_visibility("sparse-transformer(128, 8)")
    assert parse_visibility("bigbird") == bigbird(64, 3, 2, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bigbrd(64)", "did you mean 'bigbird'"),
        ("bigbird(64, rndom=2)", "has no 'rndom'"),
        ("bigbird(64, block=2)", "takes each number once"),
        ("bigbird(1, 3, 2, 3, 0, 9)", "takes each number once"),
        ("bigbird(0)", "block must be at least 1"),
        ("bigbird(64, 2)", "has no middle"),
        ("block", "needs 1 more number"),
        ("image-local-2d(8, 2)", "needs 3 more numbers"),
        ("random(0)", "count must be at least 1"),
        ("strided(4, 0)", "block must be at least 1"),
        ("sparse-transformer-strided(10, 4)", "no whole number of blocks"),
        ("sparse-transformer(4, 5)", "at most 4"),
        ("block(8.5)", "cannot be read"),
        ("bigbird(*[64])", "cannot be read"),
        ("bigbird(**full)", "cannot be read"),
    ],
)
def test_what_no_pattern_can_be_is_said(text, says):
    with pytest.raises(UserError) as caught:
        parse_visibility(text)
    assert says in str(caught.value)


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


def test_relative_patterns_are_left_in_rows_of_documents():
    ids = torch.tensor([[0, 0, 1, 1]])
    assert seen(documents(ids) & window(1), 4)[0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]


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

"""The six steps from sentences to batches (lecture row R4), on examples small enough to check by eye, then on any data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.pairs import Batch, EncodedPairs, PairBatches, Ragged, cuts, encode_pairs, make_batch, pad
from regard.data.sources import Pair
from regard.text.specials import EOS, PAD, SOS, UNK, PairMarks

WORDS = {"a": 4, "b": 5, "c": 6, "d": 7}


def encode(texts: Sequence[str]) -> list[list[int]]:
    return [[WORDS.get(word, UNK) for word in text.split()] for text in texts]


def encoded(*pairs: tuple[list[int], list[int]]) -> EncodedPairs:
    return EncodedPairs(Ragged([source for source, _ in pairs]), Ragged([target for _, target in pairs]))


def padded_size(data: EncodedPairs, rows: np.ndarray) -> int:
    batch = make_batch(data, rows)
    return max(batch.source_BM.numel(), batch.target_in_BL.numel())


SENTENCES = st.lists(st.integers(4, 10_000), max_size=12)
DATA = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=60).map(lambda pairs: encoded(*pairs))

# ----------------------------------------------------------------------------------------------------------- step by step


def test_specials_are_the_numbers_below() -> None:
    assert (PAD, SOS, EOS, UNK) == (0, 1, 2, 3)


def test_step_1_pairs_of_similar_length_share_a_batch() -> None:
    data = encoded(([4], [4]), ([4] * 5, [4] * 5), ([5], [5]), ([5] * 5, [5] * 2), ([6], []), ([6], [6] * 5))
    batches = {frozenset(rows.tolist()) for rows in PairBatches(data, tokens=18, seed=1).plan(0)}
    assert batches == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}  # 3 pairs x 2 tokens, then 3 pairs x 6 tokens


def test_steps_2_to_4_and_6_on_two_pairs() -> None:
    data = encoded(([4, 5], [6]), ([4], [6, 7, 7]))
    batch = make_batch(data, np.array([1, 0]))
    assert batch.source_BM.tolist() == [[4, EOS, PAD], [4, 5, EOS]]
    assert batch.source_lengths_B.tolist() == [2, 3]
    assert batch.target_in_BL.tolist() == [[SOS, 6, 7, 7], [SOS, 6, PAD, PAD]]
    assert batch.target_out_BL.tolist() == [[6, 7, 7, EOS], [6, EOS, PAD, PAD]]
    assert batch.target_lengths_B.tolist() == [4, 2]
    assert batch.tokens == 6


def test_step_4_pads_to_the_longest_and_no_wider() -> None:
    padded, lengths = pad([np.array([9]), np.array([8, 7, 6]), np.array([], np.int32)])
    assert padded.tolist() == [[9, 0, 0], [8, 7, 6], [0, 0, 0]]
    assert lengths.tolist() == [1, 3, 0]
    assert (padded.dtype, lengths.dtype) == (torch.int64, torch.int64)


def test_step_5_words_become_numbers_and_strangers_unk() -> None:
    data = encode_pairs([Pair("a b", "c"), Pair("a zebra", "d d")], encode, encode)
    assert [data.source[n].tolist() for n in range(2)] == [[4, 5], [4, UNK]]
    assert [data.target[n].tolist() for n in range(2)] == [[6], [7, 7]]
    assert data.dropped == 0


def test_a_pair_with_a_side_that_is_too_long_is_dropped_and_counted() -> None:
    pairs = [Pair("a b", "c"), Pair("a b c", "d"), Pair("a", "b c d"), Pair("d d", "d d")]
    data = encode_pairs(pairs, encode, encode, maximum=3)  # two words and <eos>
    assert [data.source[n].tolist() for n in range(len(data))] == [[4, 5], [7, 7]]
    assert [data.target[n].tolist() for n in range(len(data))] == [[6], [7, 7]]
    assert data.dropped == 2


def test_each_side_has_its_own_encoder() -> None:
    data = encode_pairs([Pair("a", "a")], encode, lambda texts: [[99] for _ in texts])
    assert (data.source[0].tolist(), data.target[0].tolist()) == ([4], [99])


def test_an_empty_sentence_is_a_sentence() -> None:
    batch = make_batch(encoded(([], [])), np.array([0]))
    assert (batch.source_BM.tolist(), batch.target_in_BL.tolist(), batch.target_out_BL.tolist()) == ([[EOS]], [[SOS]], [[EOS]])
    assert batch.tokens == 1


# ------------------------------------------------------------------------------------------------------------ on any data


@given(st.lists(SENTENCES, max_size=20))
@settings(max_examples=40)
def test_ragged_holds_what_it_was_given(sequences: list[list[int]]) -> None:
    ragged = Ragged(sequences)
    assert len(ragged) == len(sequences)
    assert [ragged[n].tolist() for n in range(len(ragged))] == sequences
    assert ragged.lengths.tolist() == [len(sequence) for sequence in sequences]


@given(DATA, st.integers(1, 80), st.integers(0, 9), st.integers(0, 9))
@settings(max_examples=80)
def test_an_epoch_has_every_pair_once_within_the_budget(data: EncodedPairs, tokens: int, seed: int, epoch: int) -> None:
    batches = PairBatches(data, tokens, seed).plan(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    for rows in batches:
        assert len(rows) == 1 or padded_size(data, rows) <= tokens


@given(DATA, st.integers(1, 80), st.integers(0, 9))
@settings(max_examples=40)
def test_every_epoch_of_every_seed_has_as_many_batches(data: EncodedPairs, tokens: int, seed: int) -> None:
    counts = {len(PairBatches(data, tokens, some_seed).plan(epoch)) for some_seed in (seed, seed + 1) for epoch in range(4)}
    assert len(counts) == 1


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60).map(sorted), st.integers(1, 90))
@settings(max_examples=80)
def test_cuts_are_as_few_as_can_be(lengths: list[int], tokens: int) -> None:
    found = cuts(np.array(lengths), tokens)
    assert [n for start, end in found for n in range(start, end)] == list(range(len(lengths)))
    for start, end in found[:-1]:
        assert (end + 1 - start) * lengths[end] > tokens  # one more would be too much


@given(DATA, st.data())
@settings(max_examples=60)
def test_a_batch_says_the_truth(data: EncodedPairs, draw: st.DataObject) -> None:
    rows = draw.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=10))
    batch = make_batch(data, np.array(rows))
    check_side(batch.source_BM, batch.source_lengths_B, [[*data.source[n], EOS] for n in rows])
    check_side(batch.target_in_BL, batch.target_lengths_B, [[SOS, *data.target[n]] for n in rows])
    check_side(batch.target_out_BL, batch.target_lengths_B, [[*data.target[n], EOS] for n in rows])
    check_shift(batch)
    assert batch.tokens == int((batch.target_out_BL != PAD).sum()) == int(batch.target_lengths_B.sum())


def check_side(padded: torch.Tensor, lengths: torch.Tensor, sentences: list[list[int]]) -> None:
    assert padded.shape == (len(sentences), max(map(len, sentences)))
    for row, length, sentence in zip(padded.tolist(), lengths.tolist(), sentences):
        assert row[:length] == sentence
        assert set(row[length:]) <= {PAD}


def check_shift(batch: Batch) -> None:
    """What goes in at one place was to come out at the place before."""
    for given_in, wanted, length in zip(batch.target_in_BL, batch.target_out_BL, batch.target_lengths_B.tolist()):
        assert given_in[0] == SOS
        assert torch.equal(given_in[1:length], wanted[: length - 1])
        assert wanted[length - 1] == EOS


# ----------------------------------------------------------------------------------------------------------------- shuffling


def many() -> EncodedPairs:
    return encoded(*[([4] * (1 + n % 3), [n + 4]) for n in range(90)])


def order_of(batches: list[np.ndarray]) -> list[int]:
    return np.concatenate(batches).tolist()


def test_epochs_and_seeds_shuffle_differently_and_again_the_same() -> None:
    data = many()
    orders = [order_of(PairBatches(data, 24, seed).plan(epoch)) for seed in (1, 2) for epoch in range(4)]
    assert len({tuple(order) for order in orders}) == 8
    assert orders == [order_of(PairBatches(data, 24, seed).plan(epoch)) for seed in (1, 2) for epoch in range(4)]


def test_company_changes_too_not_only_the_order_of_batches() -> None:
    data = many()
    together = [{frozenset(rows.tolist()) for rows in PairBatches(data, 24, 1).plan(epoch)} for epoch in range(2)]
    assert len(together[0] & together[1]) < len(together[0]) / 2


def test_batches_do_not_come_in_order_of_length() -> None:
    data = many()
    widths = [int(data.source.lengths[rows].max()) for rows in PairBatches(data, 24, 1).plan(0)]
    assert widths != sorted(widths)


def test_a_batch_that_is_in_place_is_not_copied() -> None:
    batch = make_batch(encoded(([4], [5])), np.array([0]))
    assert batch.to(torch.device("cpu")).source_BM is batch.source_BM


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_moves_whole() -> None:
    batch = make_batch(encoded(([4, 5], [6])), np.array([0]))
    moved = batch.to(torch.device("cuda"))
    assert moved.source_BM.is_cuda
    assert moved.target_out_BL.cpu().equal(batch.target_out_BL)
    assert moved.tokens == batch.tokens


@pytest.mark.parametrize("packed", [False, True])
def test_marks_of_a_public_vocabulary_are_around_both_sides(packed: bool) -> None:
    """BART's way: <s> (0) and </s> (2) around each text, padding is 1, and what is written comes after </s>."""
    marks = PairMarks(pad=1, start=2, before_source=(0,), after_source=(2,), before_target=(0,), after_target=(2, 9))
    data = EncodedPairs(Ragged([[4, 5], []]), Ragged([[6], [7, 8]]), marks=marks)
    source = PairBatches(data, 100, 0, packed)
    batch, rows = source.batch(np.array([0, 1]), 0), np.array([0, 1])
    target_in, target_out = [2, 0, 6, 2], [0, 6, 2, 9]
    assert source.count(rows) == batch.tokens == 9
    assert batch.pad == 1
    assert batch.twice().pad == 1
    if packed:
        assert batch.source_BM[0, :6].tolist() == [0, 4, 5, 2, 0, 2]
        assert set(batch.source_BM[0, 6:].tolist()) <= {1}
        assert batch.target_in_BL[0, :9].tolist() == [*target_in, 2, 0, 7, 8, 2]
        assert batch.target_out_BL[0, :9].tolist() == [*target_out, 0, 7, 8, 2, 9]
    else:
        assert batch.source_BM.tolist() == [[0, 4, 5, 2], [0, 2, 1, 1]]
        assert batch.target_in_BL.tolist() == [[*target_in, 1], [2, 0, 7, 8, 2]]
        assert batch.target_out_BL.tolist() == [[*target_out, 1], [0, 7, 8, 2, 9]]
    assert data.longest().tolist() == [4, 5]

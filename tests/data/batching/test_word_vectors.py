"""Blocks hold every word once, windows end with their sentence, and chances are those of the paper's program."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching import word_vectors as module
from regard.data.batching.word_vectors import BlockSource, WordText, drawing_table, kept_share, room


def numbered_text(lengths: list[int]) -> WordText:
    """Every word another one, so that each can be followed."""
    count = sum(lengths)
    starts = np.cumsum([0, *lengths])[:-1]
    return WordText(tuple(map(str, range(count))), np.ones(count, np.int64), np.arange(count, dtype=np.int32), starts)


def source_of(text: WordText, window: int, batch: int = 64, part: int | None = None, subsample: float = 0.0) -> BlockSource:
    return BlockSource(text, window=window, subsample=subsample, power=0.75, block=32, shared=3, batch=batch, seed=7, part=part)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=6), st.integers(1, 7), st.integers(40, 400))
def test_every_word_is_asked_once_about_neighbours_of_its_sentence(lengths: list[int], window: int, stretch: int) -> None:
    text = numbered_text(lengths)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STRETCH", stretch)
        source = source_of(text, window)
        parts = [part for step in range(source.per_epoch) for part in source.parts(step)]
    for around_NM, left_NT, right_NT, negatives_NK in parts:
        assert negatives_NK.shape == (len(around_NM), 3)
        for around, lefts, rights in zip(around_NM.tolist(), left_NT.tolist(), right_NT.tolist()):
            for t, (left, right) in enumerate(zip(lefts, rights)):
                word, at = around[t + window], t + window
                near = around[at - left : at] + around[at + 1 : at + 1 + right]
                assert near == [word + step for step in (*range(-left, 0), *range(1, right + 1))]
                assert all(sentence[word] == sentence[other] for other in near)
                assert max(left, right) <= window
                asked += [word] if left + right else []
    alone = [n for n in range(len(sentence)) if lengths[sentence[n]] == 1]
    cut = list(range(stretch, len(sentence), stretch))  # where a stretch ends, a word may lose its only neighbour
    missing = set(range(len(sentence))) - set(asked) - set(alone)
    assert len(asked) == len(set(asked))
    assert missing <= {n for edge in cut for n in (edge - 1, edge)}


def test_windows_are_drawn_evenly() -> None:
    source = source_of(numbered_text([20_000]), 4, batch=4096)
    reached = torch.cat([part.left_NT.flatten() for step in range(source.per_epoch) for part in source.parts(step)])
    shares = torch.bincount(reached[reached > 0], minlength=5)[1:] / (reached > 0).sum()
    assert torch.allclose(shares, torch.full((4,), 0.25), atol=0.02)


def test_a_step_is_the_same_whatever_came_before_and_parts_join() -> None:
    text = numbered_text([3000])
    one, other = source_of(text, 3, batch=500, part=100), source_of(text, 3, batch=500)
    last = 2 * one.per_epoch - 1
    for step in range(last):
        one.parts(step)
    joined = [torch.cat(parts) for parts in zip(*one.parts(last))]
    (whole,) = other.parts(last)
    assert len(one.parts(last)) > 3
    assert all(torch.equal(a, b) for a, b in zip(joined, whole))
    first = [torch.cat(parts) for parts in zip(*other.parts(last - other.per_epoch))]
    assert not torch.equal(first[0], joined[0])  # another epoch, another order


def test_words_are_counted_to_the_end_of_the_epoch() -> None:
    text = numbered_text([5000])
    source = source_of(text, 2, batch=256)
    assert [source.count(n * source.per_epoch) for n in range(3)] == [0, 5000, 10_000]
    counted = [source.count(step) for step in range(source.per_epoch)]
    assert counted == sorted(counted)


def test_frequent_words_are_left_out_as_in_the_papers_program() -> None:
    counts = np.array([50_000, 5000, 500, 50])
    threshold = 1e-3 * counts.sum()
    expected = np.minimum(1, (np.sqrt(counts / threshold) + 1) * threshold / counts)
    assert kept_share(counts, 1e-3) == pytest.approx(expected, rel=1e-5)
    assert (kept_share(counts, 0.0) == 1).all()
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(4, dtype=np.int32), counts))
    source = source_of(WordText(tuple("abcd"), counts, ids, np.array([0])), 2, batch=1024, subsample=1e-3)
    seen, epochs = np.zeros(4), 12
    for step in range(epochs * source.per_epoch):
        for part in source.parts(step):
            middle = part.around_NM[:, 2 : 2 + 32][(part.left_NT + part.right_NT) > 0]
            seen += np.bincount(middle.numpy(), minlength=4)
    assert seen / counts / epochs == pytest.approx(expected, rel=0.04)


def test_negatives_are_drawn_by_counts_to_the_power() -> None:
    counts = np.array([10_000, 1000, 100, 1])
    shares = np.bincount(drawing_table(counts, 0.75), minlength=4) / len(drawing_table(counts, 0.75))
    expected = counts**0.75 / (counts**0.75).sum()
    assert shares == pytest.approx(expected, rel=1e-2)
    assert (np.bincount(drawing_table(np.array([10**9, 0, 1]), 1.0)) > 0).all()  # none is never drawn


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.lists(st.integers(1, 39), max_size=5))
def test_room_is_what_is_left_of_the_sentence(kept: list[bool], starts: list[int]) -> None:
    inside = sorted({0, *(start for start in starts if start < len(kept))})
    sentence = np.searchsorted(inside, np.arange(len(kept)), side="right")
    left = [s for s, k in zip(sentence.tolist(), kept) if k]
    before, after = room(np.array(kept), np.array(inside))
    assert before.tolist() == [left[:n].count(s) for n, s in enumerate(left)]
    assert after.tolist() == [left[n + 1 :].count(s) for n, s in enumerate(left)]

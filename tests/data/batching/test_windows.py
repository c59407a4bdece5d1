"""Windows: every token is somebody's aim once an epoch, any step can be drawn alone, and documents stay apart where asked."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.packing import Packing, Pieces
from regard.data.batching.token_cache import tokenise
from regard.data.batching.windows import WindowBatch, Windows
from regard.text.tokenizer import train_tokenizer

EOS = 2
documents = st.lists(st.integers(1, 25), min_size=1, max_size=12)  # lengths, the end token counted


@given(st.integers(2, 200), st.integers(1, 12), st.integers(1, 60), st.integers(0, 3))
def test_an_epoch_is_every_window_once(tokens, length, budget, epoch):
    source = Windows(np.arange(tokens), length, budget, seed=1)
    if tokens <= length:
        with pytest.raises(UserError, match="fewer than one window"):
            source.plan(epoch)
        return
    batches = [source.batch(rows, epoch) for rows in source.plan(epoch)]
    aims = sorted(np.concatenate([batch.next_BL.flatten().numpy() for batch in batches]))
    assert aims == list(range(aims[0], aims[0] + len(source) * length))
    assert 1 <= aims[0] <= aims[-1] < tokens
    assert tokens - len(aims) <= 2 * length
    for batch in batches:
        assert (batch.next_BL - batch.ids_BL == 1).all()
        assert batch.tokens == batch.ids_BL.numel()
        assert batch.ids_BL.shape[1] == length
        assert batch.documents is None


def test_epochs_differ_and_come_again():
    source = Windows(np.arange(1000), 10, 50, seed=1)
    orders = [np.concatenate(source.plan(epoch)).tolist() for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]


@given(st.integers(1, 200), st.integers(1, 12), st.integers(1, 60), st.booleans(), st.booleans())
def test_in_order_every_token_is_an_aim_once(tokens, length, budget, apart, packed):
    source = Windows(np.arange(tokens), length, budget, seed=1, apart=apart, packed=packed)
    batches = list(source.in_order())
    aims = [n for batch in batches for n in batch.next_BL.flatten().tolist()]
    assert aims == list(range(1, tokens))
    assert sum(batch.tokens for batch in batches) == tokens - 1


def stream(lengths: list[int], ended: bool) -> tuple[np.ndarray, np.ndarray]:
    """Each token tells its document (hundreds) and place; the last of each is an end token."""
    rows = [[100 * (n + 1) + place for place in range(length)] for n, length in enumerate(lengths)]
    if ended:
        rows = [[*row[:-1], EOS] for row in rows]
    return np.array([n for row in rows for n in row]), np.cumsum([0, *lengths])[:-1]


@given(documents, st.integers(1, 12), st.integers(12, 60), st.booleans())
@settings(max_examples=60)
def test_pieces_are_documents_cut_at_windows(lengths, length, budget, ended):
    ids, starts = stream(lengths, ended)
    for batch in Windows(ids, length, budget, 1, starts, ended=ended, apart=True).in_order():
        for row, tokens in enumerate(batch.ids_BL.tolist()):
            # As a reader tells: an end token begins what comes after it; without end tokens the hundreds change.
            new = [n for n in range(1, len(tokens)) if (tokens[n] == EOS if ended else tokens[n] // 100 != tokens[n - 1] // 100)]
            if batch.documents is None:
                assert new == []
                continue
            numbers, places = batch.documents.ids_BL[row].tolist(), batch.documents.positions_BL[row].tolist()
            assert len(set(numbers)) == len(new) + 1
            for begin, end in pairwise([0, *new, len(tokens)]):
                assert places[begin:end] == list(range(end - begin))
                assert len(set(numbers[begin:end])) == 1


@given(documents, st.integers(2, 12))
@settings(max_examples=40)
def test_no_word_is_predicted_from_another_document(lengths, length):
    ids, starts = stream(lengths, ended=True)
    for batch in Windows(ids, length, length, 1, starts, apart=True, packed=True).in_order():
        pieces = batch.documents.starts_N.tolist()
        for begin, end in pairwise(pieces):
            words = batch.ids_BL[0, begin:end].tolist() + batch.next_BL[0, begin:end].tolist()
            assert len({word // 100 for word in words if word != EOS}) <= 1


@given(documents, st.integers(1, 12), st.integers(12, 60), st.integers(0, 2))
@settings(max_examples=40)
def test_one_row_holds_what_many_hold(lengths, length, budget, epoch):
    ids, starts = stream(lengths, ended=True)
    if len(ids) <= length:
        return
    in_rows, in_one = (Windows(ids, length, budget, 1, starts, apart=True, packed=packed) for packed in (False, True))
    assert in_rows.fixed_shapes
    assert not in_one.fixed_shapes
    for rows in in_rows.plan(epoch):
        many, one = in_rows.batch(rows, epoch), in_one.batch(rows, epoch)
        assert one.ids_BL.tolist() == [many.ids_BL.flatten().tolist()]
        assert one.next_BL.tolist() == [many.next_BL.flatten().tolist()]
        assert one.tokens == many.tokens == in_one.count(rows)
        assert isinstance(one.documents, Packing)
        assert one.documents.longest == length
        assert one.documents.starts_N.diff().max() <= length
        assert one.documents.starts_N.dtype == torch.int32
        if many.documents is None:
            assert one.documents.starts_N.tolist() == list(range(0, many.tokens + 1, length))
        else:
            assert one.documents.ids_T.tolist() == many.documents.ids_BL.flatten().tolist()
            assert one.documents.positions_T.tolist() == many.documents.positions_BL.flatten().tolist()


def test_a_batch_moves_with_its_pieces():
    ids, starts = stream([3, 4, 5], ended=True)
    for packed in (False, True):
        batch = next(Windows(ids, 5, 10, 1, starts, apart=True, packed=packed).in_order())
        there = batch.to(torch.device("meta"))
        assert isinstance(there, WindowBatch)
        assert isinstance(there.documents, Packing if packed else Pieces)
        tensors = [
            part for part in (there.ids_BL, there.next_BL, *vars(there.documents).values()) if isinstance(part, torch.Tensor)
        ]
        assert {part.device.type for part in tensors} == {"meta"}


def test_a_token_file_is_cut_without_being_read_whole(tmp_path: Path):
    texts = ["one two three", "two", "three one one two"]
    (tmp_path / "a.txt").write_text("\n<|endoftext|>\n".join(texts))
    words = train_tokenizer("word", texts, 20)
    tokens = tokenise((str(tmp_path / "a.txt"),), None, words, eos=EOS, cache=tmp_path / "cache")
    source = Windows(tokens.ids, 4, 8, 1, tokens.starts, apart=True)
    assert source.ids is tokens.ids
    (first, second) = source.in_order()
    assert words.decode_batch(first.ids_BL.tolist()) == ["one two three", "two three one"]
    assert first.documents.positions_BL.tolist() == [[0, 1, 2, 0], [0, 0, 1, 2]]
    assert words.decode(second.next_BL[0].tolist()) == "two"
    assert first.ids_BL.dtype == torch.int64


def test_epochs_cut_in_different_places():
    source = Windows(np.arange(1000), 50, 200, seed=1)
    firsts = {int(source.batch(np.array([0]), epoch).ids_BL[0, 0]) for epoch in range(200)}
    assert len(firsts) > 50
    assert firsts <= set(range(100))

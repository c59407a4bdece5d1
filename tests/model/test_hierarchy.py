"""Rows cut at their marks: what plain Python makes of the same rows, and back again."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.model.hierarchy import Nested, alike
from regard.text.specials import EOS

MARK = 9
rows = st.lists(st.lists(st.sampled_from([EOS, MARK, 4, 5, 6, 7]), min_size=1, max_size=12), min_size=1, max_size=4)


def laid(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """With words behind them that are none."""
    longest = max(map(len, rows)) + 2
    return torch.tensor([row + [5] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def cut(row: list[int]) -> list[list[int]]:
    """Places of the words of each sentence."""
    found: list[list[int]] = [[]]
    for place, number in enumerate(row):
        if number in (EOS, MARK):
            found.append([])
        else:
            found[-1].append(place)
    return [places for places in found if places] or [[0]]


@settings(max_examples=60)
@given(rows)
def test_sentences_are_what_stands_between_marks(rows: list[list[int]]) -> None:
    ids_BL, lengths_B = laid(rows)
    found = Nested.of(ids_BL, lengths_B, MARK)
    expected = [[row[place] for place in places] for row in rows for places in cut(row)]
    assert found.lengths == found.words_S.tolist() == [len(sentence) for sentence in expected]
    assert found.sentences_B.tolist() == [len(cut(row)) for row in rows]
    x_SMD = found.apart(ids_BL[..., None].float())
    for row_MD, sentence in zip(x_SMD, expected):
        assert row_MD[:, 0].tolist() == sentence + [0] * (len(row_MD) - len(sentence))


@settings(max_examples=60)
@given(rows)
def test_words_go_back_where_they_came_from(rows: list[list[int]]) -> None:
    ids_BL, lengths_B = laid(rows)
    found = Nested.of(ids_BL, lengths_B, MARK)
    x_BLD = torch.randn(*ids_BL.shape, 3)
    back_BLD = found.together(found.apart(x_BLD))
    words = [{place for places in cut(row) for place in places} for row in rows]
    for b, places in enumerate(words):
        for place in range(ids_BL.shape[1]):
            assert back_BLD[b, place].equal(x_BLD[b, place] if place in places else torch.zeros(3))


@settings(max_examples=60)
@given(rows)
def test_sentences_go_back_to_their_documents_and_are_counted_from_the_last(rows: list[list[int]]) -> None:
    ids_BL, lengths_B = laid(rows)
    found = Nested.of(ids_BL, lengths_B, MARK)
    numbers = iter(range(1, 1 + len(found.lengths)))
    x_BND = found.documents(torch.arange(1.0, 1 + len(found.lengths))[:, None])
    for row, x_ND in zip(rows, x_BND):
        own = [float(next(numbers)) for _ in cut(row)]
        assert x_ND[:, 0].tolist() == own + [0.0] * (len(x_ND) - len(own))
    for row, turn_L in zip(rows, found.from_the_last()):
        expected = [-1] * ids_BL.shape[1]
        for number, places in enumerate(reversed(cut(row))):
            for place in places:
                expected[place] = number
        assert turn_L.tolist() == expected


@settings(max_examples=60)
@given(st.lists(st.integers(1, 200), max_size=20))
def test_every_row_is_in_one_group_and_no_group_is_much_longer_than_its_shortest(lengths: list[int]) -> None:
    groups = list(alike(lengths))
    assert sorted(row for rows, _ in groups for row in rows) == list(range(len(lengths)))
    for rows, longest in groups:
        assert longest == max(lengths[row] for row in rows)
        assert longest <= max(16, 2 * min(lengths[row] for row in rows))

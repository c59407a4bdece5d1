"""Scores of replies, against values counted by hand and sums written plainly."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.pairs import EncodedPairs, Ragged
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.metrics.dialogue import candidates, distinct, log_likelihoods, perplexity, recalls, score_replies
from regard.text.specials import EOS, SOS


def test_distinct_is_counted_by_hand() -> None:
    texts = ["a b a b", "a b c", ""]
    assert distinct(texts, 1) == 3 / 7  # a b c, of seven words
    assert distinct(texts, 2) == 3 / 5  # ab ba bc, of ab ba ab, ab bc
    assert distinct(texts, 5) == 0


def test_recall_is_counted_by_hand_and_ties_are_lost() -> None:
    scores = np.array([[9.0, 1, 2], [2, 9, 1], [1, 9, 2], [1, 1, 0]])
    assert recalls(scores, [1, 2, 3]) == {1: 0.25, 2: 0.75}


@given(replies=st.lists(st.sampled_from("abcdefghijklmno"), min_size=1, max_size=30), count=st.integers(1, 12))
@settings(max_examples=50)
def test_candidates_are_the_true_reply_and_others_that_say_something_else(replies: list[str], count: int) -> None:
    rows = candidates(replies, count)
    assert rows.shape == (len(replies), min(count, len(set(replies))))
    for reply, row in zip(replies, rows):
        said = [replies[n] for n in row]
        assert said[0] == reply
        assert len(set(said)) == len(said)
    np.testing.assert_array_equal(rows, candidates(replies, count))
    assert rows.shape[1] < 3 or len(replies) < 10 or (candidates(replies, count, seed=1) != rows).any()


def test_candidates_are_drawn_evenly() -> None:
    replies = [f"reply {n}" for n in range(40)]
    seen = np.bincount(np.concatenate([candidates(replies, 10, seed)[:, 1:].ravel() for seed in range(20)]), minlength=40)
    expected = 20 * 40 * 9 / 40
    assert abs(seen - expected).max() < 5 * expected**0.5


def test_log_likelihoods_are_those_of_a_loop_over_words() -> None:
    model = Recurrent(RecurrentConfig(width=8, dropout=0.0), 12, 12, seed=3).eval()
    sources, targets = [[5, 6, 7], [8], [9, 10, 4, 5, 6]], [[7, 8], [4, 5, 6, 7, 9], [11]]
    found = log_likelihoods(model, EncodedPairs(Ragged(sources), Ragged(targets)), budget=12)
    for source, target, total in zip(sources, targets, found):
        nats = 0.0
        for n, word in enumerate([*target, EOS]):
            read = torch.tensor([[*source, EOS]])
            logits = model(read, torch.tensor([read.shape[1]]), torch.tensor([[SOS, *target[:n]]]))[0, -1]
            nats += logits.double().log_softmax(-1)[word].item()
        assert total == pytest.approx(nats, abs=1e-5)


def test_perplexity_is_by_token() -> None:
    assert perplexity(np.array([log(0.5), log(0.125)]), 4) == pytest.approx(2.0)
    assert perplexity(np.array([-1e9]), 1) == float("inf")


def test_all_scores_come_together() -> None:
    found = score_replies(["a b c d", "x"], ["a b c d", "y"], np.array([[2.0, 1.0], [0.0, 1.0]]), exp(1))
    told = found.as_dict()
    assert (told["exact"], told["recall_1"], told["candidates"], told["distinct_1"]) == (50.0, 0.5, 2, 1.0)
    assert "perplexity" in "\n".join(found.lines())
    assert "perplexity" not in "\n".join(score_replies(["a"], ["a"], np.array([[1.0, 0.0]])).lines())

"""Batches of questions: all of them once an epoch, each with its own image, those of an image together."""

from __future__ import annotations

import numpy as np

from regard.data.batching.pairs import Ragged
from regard.data.batching.visual_questions import UNKNOWN, EncodedQuestions, VisualQuestionBatches, in_order


def encoded(images: int = 7, questions: int = 23) -> EncodedQuestions:
    draw = np.random.default_rng(1)
    pixels = np.arange(images, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), np.uint8)
    owner = np.concatenate([np.arange(images), draw.integers(images, size=questions - images)])
    words = Ragged([[n] * draw.integers(1, 5) for n in range(questions)])
    return EncodedQuestions(pixels, owner, words, np.where(draw.random(questions) < 0.2, UNKNOWN, 1))


def test_an_epoch_has_every_question_once_with_its_image() -> None:
    data = encoded()
    source, seen = VisualQuestionBatches(data, 20, seed=3), list[int]()
    plans = [source.plan(epoch) for epoch in (0, 1)]
    assert len(plans[0]) == len(plans[1])
    assert [rows.tolist() for rows in plans[0]] != [rows.tolist() for rows in plans[1]]
    assert [rows.tolist() for rows in plans[0]] == [rows.tolist() for rows in VisualQuestionBatches(data, 20, seed=3).plan(0)]
    for rows in plans[0]:
        batch = source.batch(rows, 0)
        assert batch.tokens == source.count(rows) == int((batch.answers_B != UNKNOWN).sum())
        numbers = batch.ids_BL[:, 0].tolist()
        seen += numbers
        assert batch.image_IYXC[batch.owner_B][:, 0, 0, 0].tolist() == data.owner[numbers].tolist()
        assert len(batch.image_IYXC) == len(set(batch.owner_B.tolist()))
        assert batch.lengths_B.tolist() == data.words.lengths[numbers].tolist()
    assert sorted(seen) == list(range(23))


def test_questions_about_an_image_lie_side_by_side() -> None:
    data = encoded()
    owners = np.concatenate([data.owner[rows] for rows in VisualQuestionBatches(data, 20, seed=3).plan(0)])
    assert (np.diff(owners) != 0).sum() == 6
    assert sum(len(batch.ids_BL) for batch in in_order(data, 20)) == 23

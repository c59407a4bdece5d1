"""Questions about drawn scenes: every answer follows from the scene, and words alone do not give it away."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from regard.data.builtin.scene_questions import KINDS, SceneQuestion, scene_questions
from regard.data.builtin.scenes import OPPOSITE, part_of

TRAIN, TEST = scene_questions("train", 3000), scene_questions("test")


def decided(question: SceneQuestion) -> str:
    """Return the answer by looking at the boxes of what is drawn, and at nothing else of the scene but colours and shapes."""
    things = [(g.colour, g.shape, b) for g, boxes in zip(question.scene.groups, question.scene.boxes) for b in boxes]
    text = question.text.rstrip("?")

    def holds(a, relation: str, b) -> bool:
        if relation in OPPOSITE.values():
            a, b, relation = b, a, next(one for one, other in OPPOSITE.items() if other == relation)
        rows = a.bottom <= 0.5 <= b.top
        columns = a.right <= 0.5 <= b.left
        return rows if relation == "above" else columns

    if found := re.fullmatch(r"what colour (?:is|are) the (\w+?)s?", text):
        (answer,) = {colour for colour, shape, _ in things if shape == found[1]}
        return answer
    if found := re.fullmatch(r"what shape (?:is|are) the (\w+) things?", text):
        (answer,) = {shape for colour, shape, _ in things if colour == found[1]}
        return answer
    if text == "how many things are there":
        return str(len(things))
    if found := re.fullmatch(r"how many (\w+) (\w+)s are there", text):
        return str(sum((colour, shape) == found.groups() for colour, shape, _ in things))
    if found := re.fullmatch(r"is there a (\w+) (\w+)", text):
        return "yes" if any((colour, shape) == found.groups() for colour, shape, _ in things) else "no"
    if found := re.fullmatch(r"what (colour|shape) is (above|below|left of|right of) the (\w+) (\w+?)s?", text):
        others = [box for colour, shape, box in things if (colour, shape) == (found[3], found[4])]
        met = {t[found[1] == "shape"] for t in things if t[2] not in others and all(holds(t[2], found[2], box) for box in others)}
        (answer,) = met
        return answer
    if found := re.fullmatch(r"(?:is|are) the (\w+) (\w+?)s? in the (\w+) or the (\w+) half", text):
        across = found[3] == "left"
        these = [box for colour, shape, box in things if (colour, shape) == (found[1], found[2])]
        middles = [(box.left + box.right if across else box.top + box.bottom) / 2 for box in these]
        (answer,) = {found[3] if middle < 0.5 else found[4] for middle in middles}
        return answer
    if found := re.fullmatch(r"where (?:is|are) the (\w+) (\w+?)s?, seen from the (\w+) (\w+?)s?", text):
        first, second = ([box for c, s, box in things if (c, s) == (found[n], found[n + 1])] for n in (1, 3))
        every = [(a, b) for a in first for b in second]
        words = [word for word in ("above", "below", "left of", "right of") if all(holds(a, word, b) for a, b in every)]
        (answer,) = words
        return answer.removesuffix(" of")
    found = re.fullmatch(r"(?:is|are) the (\w+) (\w+?)s? (above|below|left of|right of) the (\w+) (\w+?)s?", text)
    assert found, text
    first = [box for colour, shape, box in things if (colour, shape) == (found[1], found[2])]
    second = [box for colour, shape, box in things if (colour, shape) == (found[4], found[5])]
    assert first
    assert second
    return "yes" if all(holds(a, found[3], b) for a in first for b in second) else "no"


def test_every_answer_is_what_the_drawing_shows() -> None:
    assert Counter(question.kind for question in TEST).keys() == set(KINDS)
    wrong = [(q.scene.caption, q.text, q.answer, decided(q)) for q in TRAIN[:4000] + TEST if decided(q) != q.answer]
    assert wrong == []


def test_no_scene_of_a_split_is_shown_in_another() -> None:
    shown = {split: {question.scene.caption for question in part} for split, part in (("train", TRAIN), ("test", TEST))}
    assert not shown["train"] & shown["test"]
    assert all(part_of(caption) == 9 for caption in shown["test"])


def test_words_alone_say_little_about_the_answer() -> None:
    """The most frequent training answer to the same words is right about as often as a guess among the answers of a kind."""
    best: dict[str, Counter[str]] = defaultdict(Counter)
    for question in TRAIN:
        best[question.text][question.answer] += 1
    right = [best[q.text].most_common(1)[0][0] == q.answer for q in TEST if q.text in best]
    assert sum(right) / len(right) < 0.4
    for kind, most in (("existence", 0.55), ("colour", 0.3), ("shape", 0.42), ("count", 0.35)):
        counts = Counter(q.answer for q in TRAIN if q.kind == kind)
        assert counts.most_common(1)[0][1] / counts.total() < most, kind


@pytest.mark.parametrize("split", ["train", "valid"])
def test_the_first_scenes_are_the_same_in_any_number(split: str) -> None:
    few, more = scene_questions(split, 20), scene_questions(split, 40)
    assert more[: len(few)] == few

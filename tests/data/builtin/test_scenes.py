"""Drawn scenes: what they say is what is to be seen, told from the boxes and the pixels and not from the captions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.builtin.scenes import COLOURS, GRAIN, PAINT, SHAPES, TINT, Scene, draw, scenes

SOME = scenes("train", 200)
NUMBER = {"a": 1, "two": 2, "three": 3}
PHRASE = re.compile(r"(a|two|three) (\w+) (\w+?)s?")
SIDE = 64


def told(phrase: str) -> tuple[int, str, str]:
    found = PHRASE.fullmatch(phrase)
    assert found
    assert phrase.endswith("s") == (found[1] != "a")
    return NUMBER[found[1]], found[2], found[3]


def extent(scene: Scene, group: int) -> tuple[float, float, float, float]:
    left, top, right, bottom = zip(*scene.boxes[group])
    return min(left), min(top), max(right), max(bottom)


def test_captions_say_what_the_boxes_are() -> None:
    for scene in SOME:
        for caption in scene.captions:
            first, relation, second = [*re.split(r" (above|below|left of|right of) ", caption), "", ""][:3]
            phrases = [told(phrase) for phrase in (first, second) if phrase]
            kinds = {(g.colour, g.shape): n for n, g in enumerate(scene.groups)}
            numbers = [kinds[colour, shape] for _, colour, shape in phrases]
            assert sorted(numbers) == list(range(len(scene.groups)))
            assert [len(scene.boxes[n]) for n in numbers] == [count for count, _, _ in phrases]
            if relation:
                a, b = (extent(scene, n) for n in numbers)
                holds = {"above": a[3] <= b[1], "below": b[3] <= a[1], "left of": a[2] <= b[0], "right of": b[2] <= a[0]}
                assert [name for name, so in holds.items() if so] == [relation]


def test_nothing_lies_on_anything_or_outside() -> None:
    for scene in SOME:
        boxes = [box for group in scene.boxes for box in group]
        for n, a in enumerate(boxes):
            assert min(a) >= 0
            assert max(a) <= 1
            for b in boxes[n + 1 :]:
                assert a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top


def test_pixels_have_the_colours_that_are_named_and_shapes_fill_what_they_should() -> None:
    filled = {"circle": np.pi / 4, "square": 1.0, "triangle": 0.5}
    for scene in SOME[:60]:
        pixels = draw(scene, SIDE).astype(float)
        for group, boxes in zip(scene.groups, scene.boxes):
            for box in boxes:
                left, top, right, bottom = (round(SIDE * share) for share in box)
                inside = pixels[top:bottom, left:right]
                middle = inside[2 * len(inside) // 3, inside.shape[1] // 2]
                nearest = min(PAINT, key=lambda name: np.abs(np.array(PAINT[name]) - middle).sum())
                assert nearest == group.colour
                assert np.abs(middle - PAINT[group.colour]).max() < TINT + 6 * GRAIN
                covered = (np.abs(inside - middle).max(-1) < 40).mean()
                assert abs(covered - filled[group.shape]) < 0.2


def test_a_scene_is_described_by_its_captions_and_by_no_other() -> None:
    everything = {caption for scene in SOME for caption in scene.captions}
    for scene in SOME[:40]:
        assert {caption for caption in everything if scene.is_described_by(caption)} == set(scene.captions)
        assert scene.is_described_by(f"  {scene.captions[0].upper()} ")
        assert not scene.is_described_by("")
        assert not scene.is_described_by(scene.captions[0] + " ,")


def test_words_that_name_things_know_where_they_are() -> None:
    scene = next(scene for scene in SOME if len(scene.groups) == 2)
    for caption in scene.captions:
        words = caption.split()
        named = scene.named(caption)
        assert [words[n].removesuffix("s") for n, _ in named if words[n] in COLOURS or words[n].removesuffix("s") in SHAPES]
        assert len(named) == 4
        for n, boxes in named:
            group = next(g for g, at in zip(scene.groups, scene.boxes) if at == boxes)
            assert words[n].removesuffix("s") in (group.colour, group.shape)
    absent = next(c for c in COLOURS if c not in {g.colour for g in scene.groups})
    assert [named.boxes for named in scene.named(f"a {absent} circle")] == [(), ()]
    assert scene.named("red of above circles") == []


def test_splits_have_no_caption_in_common_and_a_smaller_one_begins_a_larger_one() -> None:
    drawn = {split: [scene for scene in scenes(split, 150) if scene.relation] for split in ("train", "valid", "test")}
    found = {split: {caption for scene in some for caption in scene.captions} for split, some in drawn.items()}
    assert all(120 < len(some) < 145 for some in drawn.values())
    assert min(map(len, found.values())) > 150
    assert not found["train"] & found["valid"]
    assert not found["train"] & found["test"]
    assert not found["valid"] & found["test"]
    assert scenes("train", 20) == SOME[:20]
    assert scenes("train", 20, seed=1) != SOME[:20]
    with pytest.raises(UserError, match="dev"):
        scenes("dev")


@settings(max_examples=10)
@given(st.integers(0, len(SOME) - 1), st.sampled_from([32, 48, 96]))
def test_a_scene_is_drawn_alike_every_time_at_any_size(n: int, side: int) -> None:
    first, again = draw(SOME[n], side), draw(SOME[n], side)
    assert first.shape == (side, side, 3)
    assert first.dtype == np.uint8
    assert (first == again).all()

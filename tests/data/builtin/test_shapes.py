"""The drawn shapes: every class is right by the places of the things, and nothing else says it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.builtin.shapes import BESIDE, CLASSES, MARGIN, SIZES, _scene, draw_shapes, shapes_entry


def test_the_label_is_what_the_places_say() -> None:
    for number in range(200):
        label, scene = _scene("train", number)
        (one,), (other,) = scene.boxes
        across = abs(one.left + one.right - other.left - other.right) / 2
        down = (other.top + other.bottom - one.top - one.bottom) / 2
        assert min(one) >= 0
        assert max(other) <= 1
        if CLASSES[label] == BESIDE:
            assert across >= abs(down) + MARGIN - 1e-9
        else:
            assert down >= across + MARGIN - 1e-9
            assert CLASSES[label] == f"{scene.groups[0].shape} over {scene.groups[1].shape}"


def test_classes_are_equally_frequent_and_colours_say_nothing() -> None:
    drawn = [_scene("train", number) for number in range(2000)]
    assert set(Counter(label for label, _ in drawn).values()) == {200}
    upper = {shape: Counter(s.groups[0].colour for _, s in drawn if s.groups[0].shape == shape) for shape in ("circle", "square")}
    assert all(70 <= count <= 220 for counts in upper.values() for count in counts.values())  # about 133 each


def test_splits_share_no_image_and_are_always_the_same() -> None:
    train, labels = draw_shapes("train", range(30), 16)
    test, _ = draw_shapes("test", range(30), 16)
    assert train.shape == (30, 16, 16, 3)
    assert labels[:10] == list(CLASSES)
    assert not {image.tobytes() for image in train} & {image.tobytes() for image in test}
    corner = [np.array(images[:, :2, :2].mean((1, 2, 3))) for images in (train, test)]
    assert np.abs(np.corrcoef(corner)[0, 1]) < 0.5  # nor paper: the grey of image n in train says nothing of image n in test
    again, _ = draw_shapes("train", range(10, 30), 16)
    assert (again == train[10:]).all()


def test_entries_are_checked() -> None:
    assert shapes_entry("builtin:shapes/train") == ("train", SIZES["train"], None)
    assert shapes_entry("builtin:shapes@count=9000/test/8999") == ("test", 9000, 8999)
    for entry, told in (
        ("builtin:shapes", "lacks a split"),
        ("builtin:shapes/dev", "no split 'dev'"),
        ("builtin:shape/train", "is not known"),
        ("builtin:shapes@count=0/train", "at least 1"),
        ("builtin:shapes/test/1000", "names no image"),
        ("builtin:shapes@size=3/test", "is not known"),
    ):
        with pytest.raises(UserError, match=told):
            shapes_entry(entry)

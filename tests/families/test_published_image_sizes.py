"""Published image models: our counts against released weights and against what papers round, none of them ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regard.families import family_of
from regard.families.published_image_sizes import IMAGE_SIZES
from regard.families.published_sizes import SIZES

RELEASED = {  # numbers of the weights that can be downloaded, with 1,000 classes
    "vit-ti-16": 5_717_416,
    "vit-s-16": 22_050_664,
    "vit-b-16": 86_567_656,
    "vit-b-32": 88_224_232,
    "vit-l-16": 304_326_632,
    "vit-l-32": 306_535_400,
    "deit-ti": 5_910_800,
    "deit-s": 22_436_432,
    "deit-b": 87_338_192,
}
MULTIPLY_ADDS = {"vit-ti-16": 1.26e9, "vit-s-16": 4.61e9, "vit-b-16": 17.58e9, "cct-7-3x1": 1.19e9}  # as their authors count


def tree(name: str, **choices):
    size = SIZES[name]
    config = replace(size.config, **choices)
    return family_of(config).count(config, size.sizes, 1)


@pytest.mark.parametrize("name", RELEASED)
def test_the_released_weights_are_counted_exactly(name: str) -> None:
    assert tree(name).parameters == RELEASED[name]


def test_a_larger_image_has_more_positions() -> None:
    assert tree("vit-h-14", image_size=518).parameters == 633_470_440


@pytest.mark.parametrize("name", [size["name"] for size in IMAGE_SIZES])
def test_all_are_near_what_their_papers_round(name: str) -> None:
    """Compact ones to the last digit, but for the biases of queries, keys and values, which theirs have not."""
    c, stated = SIZES[name].config, SIZES[name].stated
    found = tree(name).parameters
    if SIZES[name].classes == 10:
        assert abs(found - c.layers * 3 * c.width - stated) <= 5_000
    assert found == pytest.approx(stated, rel=0.02)


@pytest.mark.parametrize("name", MULTIPLY_ADDS)
def test_operations_are_those_that_are_published(name: str) -> None:
    assert tree(name).flops / 2 == pytest.approx(MULTIPLY_ADDS[name], rel=0.011)

"""Settings that a memory does not go with are refused in one sentence each."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.errors import UserError
from regard.families.gpt import GPTConfig


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (dict(memory=-1), "must be 0"),
        (dict(memory=8), "model.position=learned counts from the start of a segment"),
        (dict(memory=8, position="sinusoidal"), "choose one of transformer-xl, relative, alibi, rotary, none"),
        (dict(memory=8, position="rotary", mixer="favor"), "model.mixer=favor does not"),
        (dict(memory=8, position="rotary", visibility="block(4)"), "model.visibility=block.4. depends on where"),
        (dict(memory=8, position="rotary", visibility="bigbird(2, 3, 2, 1)"), "choose full or window"),
        (dict(same_length=True), "model.same_length=true is for a model with a memory"),
        (dict(memory_start="zeros"), "model.memory_start=zeros is for a model with a memory"),
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        GPTConfig(**settings)


def test_a_window_and_every_scheme_by_distance_go_with_it() -> None:
    for position in ("rotary", "alibi", "relative", "transformer-xl", "none"):
        assert GPTConfig(memory=8, position=position, visibility="window(5)").memory == 8

"""The `[decode]` section: the paper's defaults, and a sentence for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from regard.decode.config import DecodeConfig
from regard.errors import UserError


def test_defaults_are_those_of_the_paper() -> None:
    config = DecodeConfig()
    assert (config.search, config.beam, config.length_penalty) == ("beam", 4, 0.6)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ({"search": "beem"}, "did you mean 'beam'"),
        ({"beam": 0}, "beam is 0"),
        ({"n_best": 5}, "n_best is 5"),
        ({"n_best": 0}, "n_best is 0"),
        ({"length_penalty": -0.1}, "-0.1"),
        ({"length_penalty": float("nan")}, "nan"),
        ({"maximum_length": -1}, "maximum_length is -1"),
        ({"minimum_length": -1}, "minimum_length is -1"),
        ({"minimum_length": 5, "maximum_length": 5}, "no room"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"search": "greedy", "n_best": 2}, "search=beam"),
    ],
)
def test_mistakes_are_told(mistake: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        DecodeConfig(**mistake)


def test_limits_are_capped_only_where_a_cap_is_given() -> None:
    assert DecodeConfig(maximum_length=10).capped([5, 10, 15]) == [5, 10, 10]
    assert DecodeConfig().capped([5, 500]) == [5, 500]

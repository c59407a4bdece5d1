"""The `[decode]` section: the paper's defaults, and a sentence for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.errors import UserError
from regard.decode.config import DecodeConfig


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
        ({"search": "sample", "n_best": 2}, "decode.samples"),
        ({"search": "sample", "temperature": -0.5}, "temperature is -0.5"),
        ({"search": "sample", "temperature": 1e-9}, "temperature is 1e-09"),
        ({"search": "sample", "temperature": float("nan")}, "temperature is nan"),
        ({"search": "sample", "temperature": float("inf")}, "temperature is inf"),
        ({"search": "sample", "top_k": -1}, "top_k is -1"),
        ({"search": "sample", "top_p": 0.0}, "top_p is 0"),
        ({"search": "sample", "top_p": 1.1}, "top_p is 1.1"),
        ({"search": "sample", "min_p": -0.1}, "min_p is -0.1"),
        ({"search": "sample", "min_p": float("nan")}, "min_p is nan"),
        ({"search": "sample", "repetition_penalty": 0.0}, "repetition_penalty is 0"),
        ({"search": "sample", "samples": 0}, "samples is 0"),
        ({"search": "sample", "samples": 3, "temperature": 0.0}, "the same"),
        ({"search": "sample", "stop": ("x", "")}, "empty"),
        ({"search": "greedy", "top_k": 5}, "top_k is 5.*greedy.*search=sample"),
        ({"search": "greedy", "temperature": 0.7}, "temperature is 0.7.*greedy"),
        ({"search": "greedy", "seed": 4}, "seed is 4.*greedy"),
        ({"top_p": 0.9}, "top_p is 0.9.*beam.*search=sample"),
        ({"min_p": 0.1}, "min_p is 0.1.*beam"),
        ({"samples": 2}, "samples is 2.*beam"),
        ({"repetition_penalty": 1.2}, "repetition_penalty is 1.2.*search=sample or decode.search=greedy"),
        ({"stop": ("x",)}, "stop is .*beam.*search=sample"),
    ],
)
def test_mistakes_are_told(mistake: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        DecodeConfig(**mistake)


def test_what_each_search_heeds_is_accepted() -> None:
    for search in ("beam", "greedy", "sample"):
        assert DecodeConfig(search=search).search == search  # defaults contradict nothing
    greedy = DecodeConfig(search="greedy", repetition_penalty=1.2, stop=("\n\n",))
    assert (greedy.method.temperature, greedy.method.repetition_penalty) == (0.0, 1.2)
    keys = dict(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repetition_penalty=1.1)
    sampling = DecodeConfig(search="sample", seed=9, samples=4, stop=("\n", "."), **keys)
    assert {key: getattr(sampling.method, key) for key in keys} == keys


def test_limits_are_capped_only_where_a_cap_is_given() -> None:
    assert DecodeConfig(maximum_length=10).capped([5, 10, 15]) == [5, 10, 10]
    assert DecodeConfig().capped([5, 500]) == [5, 500]

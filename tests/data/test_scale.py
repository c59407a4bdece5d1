"""Numbers as labels: scaled and back, refused where they are none, and kept whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.labels import Scale, describe_numbers, values
from regard.data.sources.labelled import Example


def examples(*labels: str, second: str | None = None) -> list[Example]:
    return [Example(f"text {n}", second, label, f"a.tsv, line {n + 1}") for n, label in enumerate(labels)]


@given(st.lists(st.integers(-9_999, 9_999).map(lambda n: n / 100), min_size=2, max_size=20).filter(lambda v: min(v) < max(v)))
@settings(max_examples=60)
def test_scaled_and_back(numbers: list[float]) -> None:
    given_examples = examples(*map(str, numbers))
    scale = Scale.of(given_examples)
    scaled = scale.numbers(given_examples, "train")
    assert scaled.dtype == np.float32
    assert scaled.mean() == pytest.approx(0, abs=1e-4)
    assert scaled.std() == pytest.approx(1, abs=1e-4)
    assert scale.restored(scaled.astype(np.float64)) == pytest.approx(numbers, abs=1e-2)
    assert values(given_examples, "train").tolist() == numbers
    assert (scale.lowest, scale.highest, len(scale)) == (min(numbers), max(numbers), 1)


@pytest.mark.parametrize("label", ["good", "nan", "inf", "3,5", "1e999", ""])
def test_what_is_no_number(label: str) -> None:
    with pytest.raises(
        UserError, match=r"data\.train: a\.tsv, line 2: the label .* is not a number.*objective\.name=classification"
    ):
        Scale.of(examples("1", label))


def test_one_number_only() -> None:
    with pytest.raises(UserError, match=r"one number only, 2\.5.*data\.limit"):
        Scale.of(examples("2.5", "2.50"))


def test_one_text_and_two() -> None:
    scale = Scale.of(examples("1", "2", second="b"))
    with pytest.raises(UserError, match=r"data\.test: a\.tsv, line 1: texts found: 1, in training: 2"):
        scale.numbers(examples("1"), "test")


def test_what_they_look_like_is_said() -> None:
    assert describe_numbers(examples("0", "5", "4")) == ["from 0 to 5; always saying their mean, 3.00, is off by 2.00"]
    odd = describe_numbers(examples(*["1"] * 9, "2"))
    assert odd[1] == "warning: 90.0% are 1, so there is little to learn from the rest."


def test_saved_and_loaded(tmp_path: Path) -> None:
    scale = Scale.of(examples("0.1", "5", "2.7"))
    scale.save(tmp_path / "labels.json")
    assert Scale.load(tmp_path / "labels.json") == scale


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"labels": ["a", "b"], "texts": 1}', '{"lowest": 0, "highest": 1, "mean": 0, "deviation": 0, "texts": 1}',
     '{"lowest": 0, "highest": 1, "mean": "x", "deviation": 1, "texts": 1}'],
)  # fmt: skip
def test_a_damaged_one_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(UserError, match="is damaged; copy it again"):
        Scale.load(tmp_path / "labels.json")
    with pytest.raises(UserError, match="There is no scale at"):
        Scale.load(tmp_path / "none.json")

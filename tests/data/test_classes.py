"""Labels: learned in an order that anybody can predict, refused where they are none, and kept whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.labels import Labels, describe_labels
from regard.data.sources.labelled import Example


def examples(*labels: str, second: str | None = None) -> list[Example]:
    return [Example(f"text {n}", second, label, f"a.tsv, line {n + 1}") for n, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ("a", "b")),
        (["10", "9", "1"], ("1", "9", "10")),
        (["1", "-1", "0"], ("-1", "0", "1")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["1", "01"], ("01", "1")),
    ],
)
def test_labels_have_an_order(labels: list[str], expected: tuple[str, ...]) -> None:
    assert Labels.of(examples(*labels)).names == expected


@given(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=10, unique=True), st.randoms())
@settings(max_examples=40)
def test_the_order_of_the_texts_does_not_matter(labels: list[str], random: object) -> None:
    shuffled = [*labels]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = Labels.of(examples(*labels))
    assert found == Labels.of(examples(*shuffled))
    numbers = found.numbers(examples(*labels), "train")
    assert [found.names[n] for n in numbers] == labels


def test_one_label_is_none() -> None:
    with pytest.raises(UserError, match=r"one label only, 'a'.*data\.limit if the file is sorted"):
        Labels.of(examples("a", "a"))


def test_swapped_columns_are_seen() -> None:
    with pytest.raises(UserError, match=r"12 labels for 20 texts, such as 'sentence 0'; are the columns swapped"):
        Labels.of(examples(*(f"sentence {n % 12}" for n in range(20))))
    assert len(Labels.of(examples(*(f"intent {n % 12}" for n in range(24))))) == 12


def test_a_label_that_training_does_not_have() -> None:
    labels = Labels.of(examples("positive", "negative"))
    with pytest.raises(UserError, match=r"data\.valid: a\.tsv, line 2: the label 'postive'.*did you mean 'positive'"):
        labels.numbers(examples("negative", "postive"), "valid")
    with pytest.raises(UserError, match=r"data\.test: a\.tsv, line 1: texts found: 2, in training: 1"):
        labels.numbers(examples("negative", second="b"), "test")


def test_imbalance_rarity_and_contradictions_are_said() -> None:
    even = describe_labels(examples(*["a", "b"] * 50))
    assert even == ["a 50.0%, b 50.0%; always saying 'a' scores 50.0%"]
    lopsided = describe_labels(examples(*["b"] * 95, *["a"] * 5))
    assert lopsided[0] == "b 95.0%, a 5.0%; always saying 'b' scores 95.0%"
    assert [line.split(",")[0] for line in lopsided[1:]] == [
        "warning: 95.0% are 'b'",
        "warning: 1 labels have fewer than 10 texts each",
    ]
    twice = [Example("same", None, "ab"[n % 2], "") for n in range(30)]
    assert "warning: 1 texts occur with two labels" in describe_labels(twice)[-1]
    assert describe_labels(examples(*map(str, range(8))))[0].count("%") == 7  # six are shown


def test_saved_and_loaded(tmp_path: Path) -> None:
    labels = Labels(("é 漢", 'with "quotes"'), 2)
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels
    assert [path.name for path in tmp_path.iterdir()] == ["labels.json"]


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "nonsense", '{"labels": ["a"], "texts": 1}', '{"labels": ["a", 3], "texts": 1}', "\x00"]
)
def test_a_damaged_file_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(UserError, match=r"labels\.json is damaged"):
        Labels.load(tmp_path / "labels.json")
    with pytest.raises(UserError, match="There are no labels at"):
        Labels.load(tmp_path / "none.json")


@given(st.lists(st.sampled_from("abc"), min_size=3, max_size=30).filter(lambda labels: len({*labels}) == 3))
@settings(max_examples=40)
def test_weights_make_classes_even(labels: list[str]) -> None:
    found = Labels.of(examples(*labels))
    numbers = found.numbers(examples(*labels), "train")
    weights = found.weights(numbers)
    together = [sum(weights[n] for n in numbers if n == k) for k in range(3)]
    assert together == pytest.approx([len(labels) / 3] * 3)
    assert weights[numbers].mean() == pytest.approx(1)


def test_numbers_that_look_like_a_scale() -> None:
    with pytest.raises(
        UserError, match=r"12 labels for 20 texts, and all are numbers, such as '0\.0'.*objective\.name=regression"
    ):
        Labels.of(examples(*(f"{n % 12 / 10}" for n in range(20))))


def test_a_model_that_takes_one_text_as_well_as_two(tmp_path: Path) -> None:
    either = Labels(("a", "b"), 0)
    assert either.numbers([*examples("a"), *examples("b", second="c")], "test").tolist() == [0, 1]
    either.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == either

"""Visibility as text: what is printed can be read again, numbers by name or left out, and what cannot be read is said."""

import pytest

from regard.core.errors import UserError
from regard.model.visibility import window
from regard.model.visibility.bigbird import bigbird
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.patterns import Global
from tests.model.visibility.pattern_cases import RULES


@pytest.mark.parametrize("text", [*RULES, "bigbird", "random(2)", "random(2, 1, 8) | window(3)", "bigbird-fixed"])
def test_what_is_printed_can_be_read_again(text):
    pattern = parse_visibility(text)
    assert parse_visibility(str(pattern)) == pattern


def test_numbers_may_be_named():
    assert parse_visibility("bigbird(random=2, global=1, seed=4)") == bigbird(64, 3, 1, 2, 4)
    assert parse_visibility("longformer(8, global=3)") == window(4) | Global(3)
    assert parse_visibility("longformer(window=8)") == window(4) | Global(1)


def test_what_papers_have_may_be_left_out():
    assert parse_visibility("longformer") == window(256) | Global(1)
    assert parse_visibility("sparse-transformer") == parse_visibility("sparse-transformer(128, 8)")
    assert parse_visibility("bigbird") == bigbird(64, 3, 2, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bigbrd(64)", "did you mean 'bigbird'"),
        ("bigbird(64, rndom=2)", "has no 'rndom'"),
        ("bigbird(64, block=2)", "takes each number once"),
        ("bigbird(1, 3, 2, 3, 0, 9)", "takes each number once"),
        ("bigbird(0)", "block must be at least 1"),
        ("bigbird(64, 2)", "has no middle"),
        ("block", "needs 1 more number"),
        ("image-local-2d(8, 2)", "needs 3 more numbers"),
        ("random(0)", "count must be at least 1"),
        ("strided(4, 0)", "block must be at least 1"),
        ("sparse-transformer-strided(10, 4)", "no whole number of blocks"),
        ("sparse-transformer(4, 5)", "at most 4"),
        ("block(8.5)", "cannot be read"),
        ("bigbird(*[64])", "cannot be read"),
        ("bigbird(**full)", "cannot be read"),
    ],
)
def test_what_no_pattern_can_be_is_said(text, says):
    with pytest.raises(UserError) as caught:
        parse_visibility(text)
    assert says in str(caught.value)

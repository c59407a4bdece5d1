"""Patterns of public tokenizers are run; those that take for ever on some text are not."""

from __future__ import annotations

import pytest

from regard.text.regex_check import LONGEST, Refused, check_regex

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


@pytest.mark.parametrize(
    ("pattern", "width"),
    [
        (GPT2, 1),
        (GPT4, 1),
        (GPT4O, 1),
        (BLOOM, 1),
        (" {2,}", 2),
        (r"[\s▁]+", 1),
        (r"[\s\S]", 1),
        (r"<(?=(pad|sos|eos)>)", 1),
        (r"[^\S\n]+", 1),
        ("", 0),
        ("a|", 0),
        (r"\b", 0),
        ("(?=a)", 0),
        ("a?", 0),
        ("a*", 0),
        ("a{3}", 3),
        ("[]a]b", 2),
        (r"[\]]", 1),
        (r"\u00e9\x{1F600}", 2),
    ],
)
def test_patterns_that_are_run_and_what_they_stand_for_at_least(pattern: str, width: int) -> None:
    assert check_regex(pattern) == width


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|aa)+$",
        "(?:a|b)*",
        "(a{1,3}){2,}",
        "((a))+",
        r"\s+\s+\s+x",
        "a*a*a*b",
        "(?=a*)a*a*",
        r"(a)\1",
        r"\g<0>",
        r"(?<name>a)",
        "(?(1)a|b)",
        "(?~a)",
        "(?#",
        "(*FAIL)",
        "a{100000}",
        "(",
        ")",
        "[a",
        "*",
        "\\",
        "(" * 100 + ")" * 100,
        "[" * 100 + "]" * 100,
        "a" * (LONGEST + 1),
    ],
    ids=lambda pattern: pattern[:20],
)
def test_patterns_that_are_not(pattern: str) -> None:
    with pytest.raises(Refused):
        check_regex(pattern)

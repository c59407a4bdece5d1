"""The words of a text: nothing of it lost, each where it stands, as people and CoNLL's files part them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.offsets import word_places


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_places(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Angela Merkel visited Paris.", "Angela|Merkel|visited|Paris|."),
        ("Dr. O'Brien's ex-wife paid $3,500.50 to U.S. firms.", "Dr|.|O'Brien|'s|ex-wife|paid|$|3,500.50|to|U.S.|firms|."),
        ("L’Oréal’s boss J. R. Smith", "L’Oréal|’s|boss|J.|R.|Smith"),
        ("We'll see, don't we?", "We|'ll|see|,|don|'t|we|?"),
        ("at 10:30 on 1996-08-22 (5%)", "at|10:30|on|1996-08-22|(|5|%|)"),
        ("the U.S.A won 3-1; e.g. so", "the|U.S.A|won|3-1|;|e.g.|so"),
        ("हिन्दी में", "हिन्दी|में"),
        ("cafe\u0301 na\u00efve", "cafe\u0301|na\u00efve"),
        ("北京是China的", "北|京|是|China|的"),
        ("snake_case a\u200bb soft\u00adhyphen", "snake_case|a|b|soft\u00adhyphen"),
        ("\t a\x00b \u2028\u00a0c\n", "a|b|c"),
        ("", ""),
        (" \n", ""),
        ("...", ".|.|."),
        ("'tis rock'n'roll", "'|tis|rock|'n|'|roll"),
    ],
)
def test_by_hand(text: str, expected: str) -> None:
    assert words(text) == (expected.split("|") if expected else [])


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_only_white_space_is_left_out(text: str) -> None:
    reached = 0
    for start, end in word_places(text):
        assert reached <= start < end
        assert not any(character in " \t\n" for character in text[start:end])
        between = text[reached:start]
        assert all(not character.isprintable() or character.isspace() for character in between)
        reached = end
    assert all(not character.isprintable() or character.isspace() for character in text[reached:])


@given(st.lists(st.sampled_from(["Rome", "U.S.", "3,5", "J.", "is", "x-y", ".", "北", "O'Brien"]), max_size=8))
@settings(max_examples=100)
def test_spaces_always_part(parts: list[str]) -> None:
    found = words("  ".join(parts))
    assert "".join(found) == "".join(parts)
    assert [word for word in found if word in ("Rome", "is", "x-y", "北", "O'Brien")] == [
        part for part in parts if part in ("Rome", "is", "x-y", "北", "O'Brien")
    ]

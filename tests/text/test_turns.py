"""__eou__ is one piece, and the turns around it are what they are alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from regard.text.config import KINDS, Kind
from regard.text.specials import TURN_END
from regard.text.tokenizer import Tokenizer
from tests.text.samples import seen_text, trained


@pytest.mark.parametrize("kind", KINDS)
@given(first=seen_text, second=seen_text)
@settings(max_examples=15)
def test_turns_are_cut_as_if_they_stood_alone(kind: Kind, first: str, second: str) -> None:
    plain, turns = trained(kind), trained(kind).with_turns()
    first, second = " ".join(first.split()), " ".join(second.split())
    found = turns.encode(f"{first} {TURN_END} {second}")
    assert found == [*plain.encode(first), len(plain), *plain.encode(second)]


def test_it_is_the_last_piece_and_survives_saving(tmp_path: Path) -> None:
    turns = trained("bpe").with_turns()
    assert len(turns) == len(trained("bpe")) + 1
    turns.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(f"the {TURN_END} street") == turns.encode(f"the {TURN_END} street")
    assert again.tokens([len(turns) - 1]) == [TURN_END]

"""The reference of recipe keys: every key has a meaning, no meaning is left over, and the committed pages are up to date."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from regard.commands.reference import ABOUT, _meanings, _owners, find_keys, is_key, pages, section_keys
from regard.core.errors import UserError
from regard.model.mixers import MIXERS
from regard.model.position import ABSOLUTE, SCHEMES
from regard.runs.recipe import SECTIONS
from tests.command import Result, refused, regard

PAGES = Path(__file__).parents[2] / "docs" / "reference"
RIDDLES = re.compile(r"\b(nobody|somebody|everybody|anybody|told|anew|so many|mend|whom|looks at)\b", re.IGNORECASE)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_has_a_meaning_in_plain_english(section: str) -> None:
    for key in section_keys(section).values():
        for variant in key.variants:
            assert re.fullmatch(r"[A-Z].*[.?]", variant.meaning), f"{key.name}: {variant.meaning!r}"
            assert not RIDDLES.search(variant.meaning), key.name
            assert len(variant.meaning) > 10, key.name


def test_no_meaning_is_left_of_a_key_that_is_gone() -> None:
    meanings = _meanings()
    only = meanings.pop("only")
    for section, table in meanings.items():
        assert set(table) == set(section_keys(section)), section
    for name, by_taker in only.items():
        section, _, key = name.partition(".")
        takers = {taker for taker, cls in _owners(section) if key in {field.name for field in dataclasses.fields(cls)}}
        assert set(by_taker) <= takers, name


def test_the_pages_are_up_to_date() -> None:
    """If this fails: python -m regard.commands.reference"""
    assert {path.name: path.read_text("utf-8") for path in PAGES.glob("*.md")} == pages()


def test_defaults_and_takers_are_those_of_the_dataclasses() -> None:
    (key,) = find_keys("train.warmup")
    (variant,) = key.variants
    assert (variant.kind, variant.default()) == ("number", "4000")
    assert key.who(variant) == "all but word_vectors"  # whose training has no warm-up
    (width,) = find_keys("model.width")
    assert {"512", "768"} <= {default for variant in width.variants for default in variant.takers}
    assert set(find_keys("decode.search")[0].variants[0].kind.removeprefix("one of ").split(", ")) >= {"beam", "greedy"}


def printed(*arguments: str) -> str:
    result: Result = regard(*arguments)
    assert (result.code, result.err) == (0, "")
    return result.out


def test_explain_prints_a_key_and_a_section() -> None:
    told = printed("explain", "train.warmup")
    assert "fraction of all steps" in told
    assert "4000" in told
    section = printed("explain", "decode")
    assert ABOUT["decode"] in section
    assert all(key.name in section for key in find_keys("decode"))
    (read,) = json.loads(printed("explain", "decode.beam", "--json"))
    assert read["key"] == "decode.beam"


def test_a_mistyped_key_is_refused_with_the_nearest() -> None:
    refused(regard("explain", "train.wramup"), "train.wramup is not a setting", "did you mean 'train.warmup'?")
    refused(regard("explain", "tran.warmup"), "no section 'tran'", "did you mean 'train'?")
    refused(regard("explain", "train.warmup", "train.steps=3"), "leave that out")
    with pytest.raises(UserError, match="'regard explain model' lists its keys"):
        find_keys("model.zzz")


@pytest.mark.parametrize(
    ("target", "expected"),
    [("train", True), ("model.width", True), ("modle.width", True), ("translate", False), ("mine.toml", False), ("a/b.c", False)],
)
def test_what_is_taken_for_a_key(target: str, expected: bool) -> None:
    assert is_key(target) is expected


def test_a_file_of_a_keys_name_is_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").mkdir()
    assert not is_key("train")


def test_choices_that_are_registries_are_all_named() -> None:
    """Their type is text, since plugins add to them, so the meaning lists what the package has."""
    for key, names in (("model.mixer", (*MIXERS, "conv")), ("model.position", (*ABSOLUTE, *SCHEMES))):
        meanings = " ".join(variant.meaning for variant in find_keys(key)[0].variants)
        assert [name for name in names if f"`{name}`" not in meanings] == []

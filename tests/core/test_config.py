"""Settings keep their word: what is written comes back equal, and what is wrong is told by its key, never by a traceback."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.core.config import Bounds, Count, Fraction, build, check_bounds, override, to_toml
from regard.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Bakery:
    """A section with every type a setting may have."""

    loaves: int
    weight: float = 0.75
    organic: bool = False
    label: str = "plain"
    flour: Literal["wheat", "rye", "spelt"] = "wheat"
    seeds: tuple[str, ...] = ()
    ovens: tuple[int, ...] = (1, 2)
    baker: str | None = None


def from_toml(text: str) -> Bakery:
    return build(Bakery, tomllib.loads(text)["bakery"], "bakery")


def from_command_line(*assignments: str) -> Bakery:
    tables: dict[str, dict[str, Any]] = {"bakery": {"loaves": 1}, "market": {}}
    override(tables, list(assignments))
    return build(Bakery, tables["bakery"], "bakery")


# ----------------------------------------------------------------------------------------------------- there and back

TEXTS = st.text(st.characters(codec="utf-8"))
TROUBLE = 'say "aah"\\ \r\n\ttab\b\f' + "".join(map(chr, range(0x20))) + "\x7f\x80\x9f\u2028\ufeff é 你好 😀"


@settings(max_examples=150)
@given(
    st.builds(
        Bakery,
        loaves=st.integers(-(2**63), 2**63 - 1),
        weight=st.floats(allow_nan=False),
        organic=st.booleans(),
        label=TEXTS,
        flour=st.sampled_from(["wheat", "rye", "spelt"]),
        seeds=st.lists(TEXTS, max_size=4).map(tuple),
        ovens=st.lists(st.integers(-(10**9), 10**9), max_size=4).map(tuple),
        baker=st.none() | TEXTS,
    )
)
@example(Bakery(loaves=1, label=TROUBLE, seeds=(TROUBLE, "", "a,b"), weight=math.inf))
@example(Bakery(loaves=1, label="\x7f", weight=-math.inf))
@example(Bakery(loaves=1, weight=5e-324))
def test_what_is_written_reads_back_equal(bakery: Bakery) -> None:
    text = to_toml({"bakery": bakery})
    assert from_toml(text.encode().decode()) == bakery


def test_a_section_reads_as_a_person_would_write_it() -> None:
    assert to_toml({"bakery": Bakery(loaves=3, weight=1e-9, organic=True, seeds=("poppy", "flax")), "shop": Empty()}) == (
        '[bakery]\nloaves = 3\nweight = 1e-09\norganic = true\nlabel = "plain"\nflour = "wheat"\n'
        'seeds = ["poppy", "flax"]\novens = [1, 2]\n\n[shop]\n'
    )


@dataclass(frozen=True)
class Empty:
    pass


def test_not_a_number_survives_too() -> None:
    assert math.isnan(from_toml(to_toml({"bakery": Bakery(loaves=1, weight=math.nan)})).weight)


@given(st.integers(-(10**12), 10**12), st.floats(allow_nan=False), st.booleans(), st.sampled_from(["wheat", "rye", "spelt"]))
@settings(max_examples=50)
def test_the_command_line_and_toml_agree(loaves: int, weight: float, organic: bool, flour: str) -> None:
    typed = from_command_line(
        f"bakery.loaves={loaves}", f"bakery.weight={weight}", f"bakery.organic={organic}", f"bakery.flour={flour}"
    )
    truth = "true" if organic else "false"
    assert typed == from_toml(f'[bakery]\nloaves={loaves}\nweight={weight}\norganic={truth}\nflour="{flour}"')
    assert [type(value) for value in (typed.loaves, typed.weight, typed.organic, typed.flour)] == [int, float, bool, str]


# --------------------------------------------------------------------------------------------------- from the two sides


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("bakery.loaves=12", "loaves", 12),
        ("bakery.loaves=1_000", "loaves", 1000),
        ("bakery.loaves=-3", "loaves", -3),
        (" bakery.loaves = 4 ", "loaves", 4),
        ("bakery.weight=2", "weight", 2.0),
        ("bakery.weight=1e-3", "weight", 0.001),
        ("bakery.weight=inf", "weight", math.inf),
        ("bakery.organic=TRUE", "organic", True),
        ("bakery.organic=false", "organic", False),
        ("bakery.label=", "label", ""),
        ("bakery.label=a=b, c", "label", "a=b, c"),
        ("bakery.label=12", "label", "12"),
        ("bakery.flour=rye", "flour", "rye"),
        ("bakery.seeds=poppy", "seeds", ("poppy",)),
        ("bakery.seeds=poppy,flax", "seeds", ("poppy", "flax")),
        ("bakery.seeds=", "seeds", ()),
        ("bakery.ovens=3,4", "ovens", (3, 4)),
        ("bakery.baker=Ada", "baker", "Ada"),
    ],
)
def test_command_line_values_take_the_type_of_their_field(assignment: str, key: str, value: Any) -> None:
    found = getattr(from_command_line(assignment), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("weight = 2", "weight", 2.0),
        ("weight = inf", "weight", math.inf),
        ('seeds = "poppy,flax"', "seeds", ("poppy", "flax")),
        ('seeds = ["a,b", "c"]', "seeds", ("a,b", "c")),
        ("seeds = []", "seeds", ()),
        ("ovens = [3]", "ovens", (3,)),
    ],
)
def test_toml_values_that_are_nearly_right_are_taken(line: str, key: str, value: Any) -> None:
    found = getattr(from_toml(f"[bakery]\nloaves = 1\n{line}"), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("loaves = 1.0", "bakery.loaves=1.0 must be a whole number."),
        ("loaves = true", "bakery.loaves=True must be a whole number."),
        ('loaves = "1"', "bakery.loaves='1' must be a whole number."),
        ("weight = true", "bakery.weight=True must be a number."),
        ('weight = "1"', "bakery.weight='1' must be a number."),
        (f"weight = 1{'0' * 400}", "must be a number."),
        ("organic = 1", "bakery.organic=1 must be true or false."),
        ('organic = "true"', "bakery.organic='true' must be true or false."),
        ("label = 3", "bakery.label=3 must be text."),
        ("label = 1979-05-27", "must be text."),
        ("label = {a = 1}", "must be text."),
        ('flour = "whaet"', "bakery.flour=whaet is not a choice (known: rye, spelt, wheat); did you mean 'wheat'?"),
        ("flour = 1", "bakery.flour=1 is not a choice"),
        ('flour = ["wheat"]', "is not a choice"),
        ("seeds = 3", "bakery.seeds=3 must be a list or a comma-separated text."),
        ("seeds = {poppy = 1}", "must be a list"),
        ("seeds = [1]", "bakery.seeds=1 must be text."),
        ('seeds = [["a"]]', "must be text."),
        ("ovens = [1.5]", "bakery.ovens=1.5 must be a whole number."),
        ('ovens = ["1"]', "bakery.ovens='1' must be a whole number."),
        ("ovens = [true]", "must be a whole number."),
        ("baker = 1", "bakery.baker=1 must be text."),
    ],
)
def test_wrong_types_in_toml_are_told(line: str, told: str) -> None:
    tables = tomllib.loads(f"[bakery]\n{line}")["bakery"]
    with pytest.raises(UserError) as caught:
        build(Bakery, {"loaves": 1, **tables}, "bakery")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("bakery.loaves=many", "bakery.loaves=many must be a whole number."),
        ("bakery.loaves=1.0", "must be a whole number."),
        ("bakery.loaves=1e3", "must be a whole number."),
        ("bakery.loaves=", "must be a whole number."),
        (f"bakery.loaves={'9' * 5000}", "must be a whole number."),
        ("bakery.weight=heavy", "bakery.weight=heavy must be a number."),
        ("bakery.weight=1,5", "must be a number."),
        ("bakery.organic=yes", "bakery.organic=yes must be true or false."),
        ("bakery.organic=1", "must be true or false."),
        ("bakery.flour=Wheat", "did you mean 'wheat'?"),
        ("bakery.ovens=1,two", "bakery.ovens=two must be a whole number."),
        ("bakery.label=\udcff", "UTF-8"),  # how Python shows a byte of the command line that is not UTF-8
        ("bakery.laoves=3", "bakery.laoves is not a setting"),
        ("bakery.loaves.of.bread=3", "bakery.loaves.of.bread is not a setting"),
        ("bakry.loaves=3", "there is no section 'bakry' (known: bakery, market); did you mean 'bakery'?"),
        ("bakery.loaves", "write section.key=value"),
        ("loaves=3", "write section.key=value"),
        ("bakery.=3", "write section.key=value"),
        ("=", "write section.key=value"),
        ("", "write section.key=value"),
    ],
)
def test_wrong_settings_on_the_command_line_are_told(assignment: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        from_command_line(assignment)
    assert told in str(caught.value)


def taken_or_told(assignment: str) -> Bakery | str:
    try:
        return from_command_line(assignment)
    except UserError as error:
        return str(error)


@given(TEXTS)
@settings(max_examples=80)
def test_no_text_on_the_command_line_ends_in_a_traceback(text: str) -> None:
    for key in ("loaves", "weight", "organic", "flour", "seeds", "ovens", "label"):
        found = taken_or_told(f"bakery.{key}={text}")
        if isinstance(found, str):
            assert f"bakery.{key}" in found
        else:
            assert isinstance(getattr(found, key), type(getattr(Bakery(loaves=1), key)))


# ------------------------------------------------------------------------------------------------------- keys that are off


@pytest.mark.parametrize(
    ("given", "meant"), [("laoves", "loaves"), ("Weight", "weight"), ("label_", "label"), ("oven", "ovens"), ("seed", "seeds")]
)
def test_an_unknown_key_names_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        build(Bakery, {"loaves": 1, given: 1}, "bakery")
    assert f"bakery.{given} is not a setting" in str(caught.value)
    assert str(caught.value).endswith(f"did you mean 'bakery.{meant}'?")


def test_a_key_like_no_other_lists_them_all() -> None:
    with pytest.raises(UserError) as caught:
        build(Bakery, {"loaves": 1, "zzz": 1}, "bakery")
    assert "did you mean" not in str(caught.value)
    assert "(known: baker, flour, label, loaves, organic, ovens, seeds, weight)." in str(caught.value)


def test_a_missing_required_key_says_how_to_give_it() -> None:
    with pytest.raises(UserError) as caught:
        build(Bakery, {"weight": 1.0}, "bakery")
    assert str(caught.value) == "bakery.loaves is missing; set it in the recipe or as bakery.loaves=VALUE."


def test_later_settings_win_and_leave_the_rest_alone() -> None:
    tables: dict[str, dict[str, Any]] = {"bakery": {"loaves": 1, "label": "old"}, "market": {"stalls": 2}}
    override(tables, ["bakery.loaves=2", "bakery.loaves=3"])
    assert build(Bakery, tables["bakery"], "bakery") == Bakery(loaves=3, label="old")
    assert tables["market"] == {"stalls": 2}


# ------------------------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True, kw_only=True)
class Oven:
    shelves: Count = 1
    steam: Fraction = 0.5
    heat: Annotated[float, Bounds(0, above=True)] = 1.0
    draught: Annotated[float, Bounds(0)] = 0.0
    limit: Annotated[int, Bounds(0, zero="all")] = 0
    window: Annotated[int, Bounds(8, zero="nothing is cut")] = 0
    share: Annotated[float, Bounds(0, 1, above=True, below=True, example="0.15")] = 0.15
    top: Annotated[float, Bounds(0, 1, above=True)] = 1.0
    door: Annotated[int, Bounds(1, 10_000)] = 1
    rate: Annotated[float, Bounds(0, 1, below=True, zero="off")] = 0.0
    tilt: Annotated[float, Bounds()] = 0.0

    def __post_init__(self) -> None:
        check_bounds(self, "oven.")


@pytest.mark.parametrize(
    ("key", "good", "bad", "sentence"),
    [
        ("shelves", (1, 2**62), (0, -1), "at least 1"),
        ("steam", (0.0, 0.999), (1.0, -0.1, math.nan), "at least 0 and less than 1"),
        ("heat", (1e-300, 1e300), (0.0, math.inf, math.nan), "above 0"),
        ("draught", (0.0, 1e300), (-1e-9, math.inf, math.nan), "0 or more"),
        ("limit", (0, 1), (-1,), "0 (all) or more"),
        ("window", (0, 8), (-1, 1, 7), "0 (nothing is cut) or at least 8"),
        ("share", (0.1, 0.9), (0.0, 1.0), "between 0 and 1, such as 0.15"),
        ("top", (0.1, 1.0), (0.0, 1.1), "above 0 and at most 1"),
        ("door", (1, 10_000), (0, 10_001), "from 1 to 10,000"),
        ("rate", (0.0, 0.9), (-0.1, 1.0), "0 (off) or more and less than 1"),
        ("tilt", (-3.0, 0.0), (math.inf, math.nan), "a finite number"),
    ],
)
def test_a_number_outside_its_bounds_is_refused_however_it_comes(
    key: str, good: tuple[float, ...], bad: tuple[float, ...], sentence: str
) -> None:
    for value in good:
        assert getattr(Oven(**{key: value}), key) == value
        assert getattr(build(Oven, {key: value}, "oven"), key) == value
    for value in bad:
        for make in (lambda values: Oven(**values), lambda values: build(Oven, values, "oven")):
            with pytest.raises(UserError) as refused:
                make({key: value})
            assert str(refused.value) == f"oven.{key}={value} must be {sentence}."


def test_types_are_plain_for_whoever_does_not_ask_for_bounds() -> None:
    assert get_type_hints(Oven)["shelves"] is int


@dataclass(frozen=True, kw_only=True)
class SmallOven(Oven):
    """Another default, without its bounds; and bounds of its own."""

    shelves: int = 2
    door: Annotated[int, Bounds(1, 100)] = 1


def test_another_default_keeps_the_bounds_of_its_base() -> None:
    with pytest.raises(UserError, match=r"oven\.shelves=0 must be at least 1\."):
        SmallOven(shelves=0)
    with pytest.raises(UserError, match=r"oven\.door=101 must be from 1 to 100\."):
        SmallOven(door=101)

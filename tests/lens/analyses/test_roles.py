"""Heads that were made for a role are found to have it, and what a model's heads do is held against random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.commands.subjects import fresh, repeated
from regard.commands.views import SHOWS, ViewRequest
from regard.lens.analyses.roles import NONE, Roles, Tally, best, in_order, tally_roles
from regard.lens.result import save
from regard.model.probe import attentions
from tests.lens.planted import looks_at, planted
from tests.lens.some_subjects import EVERY, answers, side, text_of

# 0 [CLS]  1 a  2 b  3 a  4 c  5 b  6 [SEP]; ids are places, but for the words that come twice
WORDS = side("[CLS]", "a", "b", "a", "c", "b", "[SEP]", special=(0, 6))
TWICE = type(WORDS)(WORDS.tokens, (0, 11, 12, 11, 14, 12, 6), WORDS.words, WORDS.special)
MADE: dict[str, list[int]] = {  # for rows 0 to 6, where each looks; rows of marks and rows without such a key do not count
    "previous": [3, 6, 1, 2, 3, 4, 3],
    "next": [3, 2, 3, 4, 5, 6, 3],
    "offset -2": [6, 6, 6, 1, 2, 3, 6],
    "offset +3": [6, 4, 5, 6, 6, 6, 6],
    "itself": [6, 1, 2, 3, 4, 5, 0],
    "marks": [1, 0, 6, 0, 6, 0, 1],
    "same word": [6, 3, 5, 1, 6, 2, 6],
    "rare": [6, 4, 4, 4, 4, 4, 6],
}


@pytest.mark.parametrize("role", MADE)
def test_a_head_that_was_made_for_a_role_has_it(role: str) -> None:
    weights = {f"encoder.{n}.self": looks_at(keys, 7) for n, keys in enumerate(MADE.values())}
    found = tally_roles([planted(weights, {"encoder": TWICE})])
    layer = list(MADE).index(role)
    assert found[role][f"encoder.{layer}.self", 0].score == pytest.approx(1.0)
    assert best(found[role]) == (f"encoder.{layer}.self", 0)
    half = tally_roles([planted({"encoder.0.self": looks_at(MADE[role], 7, 0.5)}, {"encoder": TWICE})])
    tally = half[role]["encoder.0.self", 0]
    assert tally.score == pytest.approx(0.5 + 0.5 * tally.chance)


def test_even_attention_scores_what_even_attention_gives() -> None:
    found = tally_roles([planted({"encoder.0.self": np.full((7, 7), 1 / 7)}, {"encoder": TWICE})])
    for role, tallies in found.items():
        tally = tallies["encoder.0.self", 0]
        assert tally.score == pytest.approx(tally.chance, abs=1e-6), role
    assert found["broad"]["encoder.0.self", 0].score == pytest.approx(1.0)


def test_a_reader_from_left_to_right_is_judged_by_what_it_sees() -> None:
    words = side("x", "a", "b", "c")
    even = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    found = tally_roles([planted({"decoder.0.self": even}, {"decoder": words})])
    assert "next" not in found
    assert found["broad"]["decoder.0.self", 0].score == pytest.approx(1.0)
    assert found["previous"]["decoder.0.self", 0].score == pytest.approx(np.mean([1 / 2, 1 / 3, 1 / 4]))
    assert found["first"]["decoder.0.self", 0].score == pytest.approx(np.mean([1, 1 / 2, 1 / 3, 1 / 4]))


def test_induction_is_looking_behind_the_last_time() -> None:
    """x y z x y z: at the second x a head looks at the first y."""
    words = type(WORDS)(tuple("xyzxyz"), (5, 6, 7, 5, 6, 7), tuple(range(6)), (False,) * 6)
    weights = {"decoder.0.self": looks_at([0, 0, 0, 1, 2, 3], 6), "decoder.1.self": looks_at([0, 0, 1, 2, 3, 4], 6)}
    found = tally_roles([], [planted(weights, {"decoder": words})])
    assert found["induction"]["decoder.0.self", 0].score == pytest.approx(1.0)
    assert found["induction"]["decoder.1.self", 0].score == 0.0
    told = found["induction"]["decoder.0.self", 0].best
    assert told is not None
    assert (told.query, told.key, told.weight) == ("x", "y", pytest.approx(1.0))


def test_looking_across_along_the_diagonal_and_in_order() -> None:
    sides = {"encoder": side(*"abcdefgh"), "decoder": side(*"wxyz")}
    weights = {
        "decoder.0.cross": looks_at([0, 2, 4, 6], 8),
        "decoder.1.cross": looks_at([7, 5, 3, 1], 8),
        "decoder.2.cross": looks_at([4, 4, 4, 4], 8),
    }
    found = tally_roles([planted(weights, sides)])
    scores = {role: [found[role][f"decoder.{n}.cross", 0].score for n in range(3)] for role in ("diagonal", "in order")}
    assert scores["in order"] == pytest.approx([1.0, -1.0, 0.0])
    assert scores["diagonal"] == pytest.approx([1.0, 0.0, 0.25])


@given(st.lists(st.integers(0, 6), min_size=2, max_size=12))
@settings(max_examples=60)
def test_order_is_what_counting_pairs_gives(places: list[int]) -> None:
    pairs = [(a, b) for n, a in enumerate(places) for b in places[n + 1 :]]
    assert in_order(np.array(places)) == pytest.approx(sum((b > a) - (b < a) for a, b in pairs) / len(pairs))


def some_roles() -> Roles:
    made = {f"encoder.{n}.self": looks_at(keys, 7, 0.9) for n, keys in enumerate(MADE.values())}
    even = {name: np.full((7, 7), 1 / 7) for name in made}
    trained, random = (tally_roles([planted(weights, {"encoder": TWICE}, "a b")]) for weights in (made, even))
    return Roles("a b", trained, random)


def test_each_head_has_the_role_in_which_it_is_ahead() -> None:
    found = some_roles()
    assert [found.main((f"encoder.{n}.self", 0)) for n in range(len(MADE))] == list(MADE)
    assert Roles("x", found.random, found.random).main(("encoder.0.self", 0)) == NONE


def test_it_prints_draws_and_tells_all(tmp_path: Path) -> None:
    found = some_roles()
    lines = found.lines()
    assert lines[3].split("  ")[0] == "role"
    (previous,) = [line for line in lines if line.startswith("previous ") and "→" in line]
    assert "encoder.0.self 0" in previous
    assert "b → a" in previous
    assert sum(line.startswith("offset") and "→" in line for line in lines) == 1
    told = found.as_dict()
    assert told["roles"]["offset -2"]["best"]["attention"] == "encoder.2.self"
    assert [head["role"] for head in told["heads"]] == list(MADE)
    for ending in ("png", "svg", "html", "json"):
        save(found, tmp_path / f"x.{ending}")
    assert json.loads((tmp_path / "x.json").read_text()) == json.loads(json.dumps(told))


@pytest.mark.parametrize("name", EVERY)
def test_every_family_has_roles_and_random_twins(name: str) -> None:
    found: Any = SHOWS["roles"].compute(answers(name), ViewRequest(run="x", text=text_of(name)))
    heads = [(one, head) for one, each in attentions(answers(name).model).items() for head in range(each.heads)]
    assert found.heads == heads
    assert "induction" in found.trained
    assert found.trained.keys() == found.random.keys()
    assert all(isinstance(tally, Tally) and tally.rows for tallies in found.trained.values() for tally in tallies.values())
    assert len(found.lines()) > 10


@pytest.mark.parametrize("name", ["translator", "writer", "labeller", "pairs", "filler", "judge", "tagger", "answerer", "rater"])
def test_a_twin_has_the_same_shape_and_other_weights(name: str) -> None:
    model, twin = answers(name).model, fresh(answers(name)).model
    ours, others = model.state_dict(), twin.state_dict()
    assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in others.items()}
    assert not any(torch.equal(ours[key], others[key]) for key in ours if key.endswith("project.weight"))
    again = fresh(answers(name)).model.state_dict()
    assert all(torch.equal(again[key], others[key]) for key in others)


def test_random_tokens_are_said_twice_and_always_the_same() -> None:
    first, second = (repeated(answers("writer")) for _ in range(2))
    assert [each.sides for each in first] == [each.sides for each in second]
    ids = first[0].sides["decoder"].ids
    assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]
    assert len(ids) <= 16  # the writer sees no more
    assert len({each.sides["decoder"].ids for each in first}) == len(first)

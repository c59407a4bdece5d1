"""The numbers of one weight against plain products with the model's own matrices."""

from __future__ import annotations

from threading import Lock

import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.model.attention import Attention
from regard.model.probe import attentions
from regard.studio.arithmetic import Place, arithmetic, terms, trace
from regard.studio.passes import ModelPass
from tests.studio.tiny_session import tiny_pass

PLACES = [Place("encoder.0.self", 1, 3, 2), Place("decoder.1.self", 0, 4, 1), Place("decoder.1.cross", 1, 2, 4)]


@pytest.fixture(scope="module")
def passed() -> ModelPass:
    return tiny_pass()


def near(a: object, b: Tensor) -> bool:
    return torch.allclose(torch.tensor(a), b, atol=2e-4)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@torch.no_grad()
def test_each_step_follows_from_the_one_before(passed: ModelPass, place: Place) -> None:
    traced = trace(passed, place.name, Lock())
    found = arithmetic(passed, place, traced)
    attention = attentions(passed.subject.model)[place.name]
    assert isinstance(attention, Attention)
    wide, inner = attention.head_width, attention.inner
    mine = slice(place.head * wide, (place.head + 1) * wide)
    x_query, x_key = torch.tensor(found["x_query"]), torch.tensor(found["x_key"])
    if attention.query is not None:
        q, kv = attention.query(x_query), attention.project(x_key)
        k, v = kv[:inner], kv[inner:]
    else:
        q, k, v = (
            attention.project(x_query)[:inner],
            attention.project(x_key)[inner : 2 * inner],
            attention.project(x_key)[2 * inner :],
        )
    assert near(found["q"], q[mine])
    assert near(found["k"], k[mine])
    assert near(found["v"], v[mine])
    assert found["dot"] == pytest.approx(float(q[mine] @ k[mine]), rel=1e-3, abs=1e-3)
    assert found["scores"][place.key] == pytest.approx(found["dot"] / wide**0.5, rel=1e-3, abs=1e-3)
    scores = torch.tensor(found["scores"]).masked_fill(~torch.tensor(found["sees"]), -torch.inf)
    assert near(found["weights"], scores.softmax(0))
    assert sum(found["weights"]) == pytest.approx(1, abs=1e-5)
    assert near(found["share"], attention.out.weight[:, mine] @ torch.tensor(found["context"]))
    assert near(found["out"], traced.out_LD[place.query])
    assert found["difference"] < 1e-4


def test_what_a_query_may_not_see_is_masked(passed: ModelPass) -> None:
    place = Place("decoder.0.self", 0, 1, 4)
    found = arithmetic(passed, place, trace(passed, place.name, Lock()))
    assert found["sees"] == [True, True, False, False, False, False]
    assert found["weights"][2:] == [0, 0, 0, 0]


@torch.no_grad()
def test_a_token_starts_from_its_row_and_its_position(passed: ModelPass) -> None:
    place = Place("encoder.0.self", 0, 3, 1)
    found = arithmetic(passed, place, trace(passed, place.name, Lock()))
    embed = passed.subject.model.source
    ids = passed.subject.sides["encoder"].ids
    assert near(found["query"]["embedding"], embed.tokens.weight[ids[3]] * embed.scale)
    sum_ = torch.tensor(found["query"]["embedding"]) + torch.tensor(found["query"]["position"])
    assert near(sum_.tolist(), embed(torch.tensor([ids]))[0, 3])
    assert found["query"]["embedding_from"]["row"] == ids[3]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("vector", ["q", "k", "v", "context", "share", "out"])
def test_a_number_is_the_sum_of_its_terms(passed: ModelPass, place: Place, vector: str) -> None:
    traced = trace(passed, place.name, Lock())
    numbers = arithmetic(passed, place, traced)[vector]
    for index in (0, len(numbers) - 1):
        found = terms(passed, place, traced, vector, index)
        assert found["sum"] == pytest.approx(numbers[index], abs=2e-4)
        parts = sum(term["product"] for term in found["terms"]) + found["rest"] + found["bias"]
        assert parts == pytest.approx(found["sum"], abs=1e-4)
        assert all(term["a"] * term["b"] == pytest.approx(term["product"], abs=1e-4) for term in found["terms"])
        sizes = [abs(term["product"]) for term in found["terms"]]
        assert sizes == sorted(sizes, reverse=True)


def test_the_products_of_q_and_k_are_the_score(passed: ModelPass) -> None:
    place = PLACES[2]
    traced = trace(passed, place.name, Lock())
    assert terms(passed, place, traced, "dot", 0)["sum"] == pytest.approx(arithmetic(passed, place, traced)["dot"], abs=1e-3)


@pytest.mark.parametrize(
    "place", [Place("encoder.0.self", 2, 0, 0), Place("encoder.0.self", 0, 5, 0), Place("encoder.0.self", 0, 0, 5)]
)
def test_what_is_not_there_is_refused(passed: ModelPass, place: Place) -> None:
    with pytest.raises(UserError, match="numbered from 0"):
        arithmetic(passed, place, trace(passed, place.name, Lock()))


def test_no_such_vector_or_number(passed: ModelPass) -> None:
    traced = trace(passed, PLACES[0].name, Lock())
    with pytest.raises(UserError, match="ask for one of"):
        terms(passed, PLACES[0], traced, "z", 0)
    with pytest.raises(UserError, match="numbered from 0"):
        terms(passed, PLACES[0], traced, "q", 16)

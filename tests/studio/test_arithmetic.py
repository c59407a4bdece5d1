"""The numbers of one weight against plain products with the model's own matrices."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import Lock

import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.transformer import Transformer
from regard.model.attention import Attention
from regard.model.probe import attentions
from regard.studio.arithmetic import Place, arithmetic, terms, trace
from regard.studio.passes import ModelPass
from tests.decode.toy import VOCABULARY, lively
from tests.studio.tiny_session import TinySession, tiny_pass

PLACES = [Place("encoder.0.self", 1, 3, 2), Place("decoder.1.self", 0, 4, 1), Place("decoder.1.cross", 1, 2, 4)]


PARTS: dict[str, dict[str, object]] = {
    "paper": {},
    "grouped": {"heads": 4, "kv_heads": 2},
    "multi-query": {"heads": 4, "kv_heads": 1, "bias": False, "norm": "rms", "norm_placement": "pre"},
    "llama": {
        "heads": 4,
        "kv_heads": 2,
        "head_width": 6,
        "bias": False,
        "norm": "rms",
        "norm_placement": "pre",
        "feedforward_kind": "gated",
        "position": "rotary",
    },
    "t5": {"position": "relative", "scaled": False, "bias": False, "head_width": 12},
    "alibi": {"position": "alibi", "heads": 4, "kv_heads": 2},
    "transformer-xl": {"position": "transformer-xl"},
}


@cache
def model_pass(parts: str) -> ModelPass:
    """Return a pass of a translator with these parts, whose biases and norms are not those they start with."""
    config = replace(lively().config, **PARTS[parts])
    model = Transformer(config, VOCABULARY, VOCABULARY, seed=1).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(len(name) + parameter.numel()))
    return tiny_pass(session=TinySession(model=model))


@pytest.fixture(scope="module")
def passed() -> ModelPass:
    return tiny_pass()


def near(a: object, b: Tensor) -> bool:
    return torch.allclose(torch.tensor(a), b, atol=2e-4)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@torch.no_grad()
def test_each_step_follows_from_the_one_before(passed: ModelPass, place: Place) -> None:
    traced = trace(passed, place, Lock())
    found = arithmetic(traced)
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
    found = arithmetic(trace(passed, place, Lock()))
    assert found["sees"] == [True, True, False, False, False, False]
    assert found["weights"][2:] == [0, 0, 0, 0]


@torch.no_grad()
def test_a_token_starts_from_its_row_and_its_position(passed: ModelPass) -> None:
    place = Place("encoder.0.self", 0, 3, 1)
    found = arithmetic(trace(passed, place, Lock()))
    embed = passed.subject.model.source
    ids = passed.subject.sides["encoder"].ids
    assert near(found["query"]["embedding"], embed.tokens.weight[ids[3]] * embed.scale)
    sum_ = torch.tensor(found["query"]["embedding"]) + torch.tensor(found["query"]["position"])
    assert near(sum_.tolist(), embed(torch.tensor([ids]))[0, 3])
    assert found["query"]["embedding_from"]["row"] == ids[3]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize("parts", PARTS)
def test_a_number_is_the_sum_of_its_terms(parts: str, place: Place) -> None:
    """The terms come from the model's matrices, the numbers from what its attention computed."""
    passed = model_pass(parts)
    traced = trace(passed, place, Lock())
    numbers = arithmetic(traced)
    for vector in ("q", "k", "v", "context", "share", "out"):
        for index in (0, 1, len(numbers[vector]) - 1):
            found = terms(traced, vector, index)
            assert found["sum"] == pytest.approx(numbers[vector][index], abs=2e-4), (vector, index)
            shown = sum(term["product"] for term in found["terms"]) + found["rest"] + found["bias"]
            assert shown == pytest.approx(found["sum"], abs=1e-4)
            assert all(term["a"] * term["b"] == pytest.approx(term["product"], abs=1e-4) for term in found["terms"])
            sizes = [abs(term["product"]) for term in found["terms"]]
            assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("parts", PARTS)
@torch.no_grad()
def test_steps_lead_to_what_the_model_computes(parts: str) -> None:
    passed = model_pass(parts)
    for place in (Place(name, head, 3, 2) for name in ("encoder.1.self", "decoder.0.self", "decoder.1.cross") for head in (0, 1)):
        traced = trace(passed, place, Lock())
        found = arithmetic(traced)
        heads = [arithmetic(replace(traced, place=replace(place, head=head))) for head in range(traced.attention.heads)]
        bias = 0 if traced.attention.out.bias is None else traced.attention.out.bias
        assert near(found["out"], torch.tensor([head["share"] for head in heads]).sum(0) + bias)
        assert found["difference"] < 1e-4
        extra = 0 if found["bias"] is None else found["bias"][2]
        assert found["scores"][2] == pytest.approx(found["dot"] / found["scale"] + extra, abs=1e-4)
        scores = torch.tensor(found["scores"]).masked_fill(~torch.tensor(found["sees"]), -torch.inf)
        assert near(found["weights"], scores.softmax(0))


def test_parts_are_named_where_they_act() -> None:
    def found(parts: str, name: str) -> dict[str, object]:
        passed, place = model_pass(parts), Place(name, 3 if parts == "llama" else 1, 2, 1)
        return arithmetic(trace(passed, place, Lock()))

    llama, cross = found("llama", "decoder.0.self"), found("llama", "decoder.0.cross")
    assert llama["rotated"]
    assert not cross["rotated"]
    assert not found("paper", "decoder.0.self")["rotated"]
    assert [llama["sources"][v]["first"] for v in "qkv"] == [18, 24 + 6, 24 + 12 + 6]  # type: ignore[index]
    assert [cross["sources"][v]["first"] for v in "qkv"] == [18, 6, 12 + 6]  # type: ignore[index]
    assert found("t5", "encoder.0.self")["scale"] == 1
    assert found("t5", "encoder.0.self")["bias"]
    assert found("t5", "decoder.0.cross")["bias"] is None
    place, passed = Place("decoder.0.self", 3, 2, 1), model_pass("llama")
    told = terms(trace(passed, place, Lock()), "k", 0)["source"]
    assert "x row 30" in told
    assert "x row 33" in told


def test_the_products_of_q_and_k_are_the_score(passed: ModelPass) -> None:
    place = PLACES[2]
    traced = trace(passed, place, Lock())
    assert terms(traced, "dot", 0)["sum"] == pytest.approx(arithmetic(traced)["dot"], abs=1e-3)


@pytest.mark.parametrize(
    "place", [Place("encoder.0.self", 2, 0, 0), Place("encoder.0.self", 0, 5, 0), Place("encoder.0.self", 0, 0, 5)]
)
def test_what_is_not_there_is_refused(passed: ModelPass, place: Place) -> None:
    with pytest.raises(UserError, match="numbered from 0"):
        arithmetic(trace(passed, place, Lock()))


def test_no_such_vector_or_number(passed: ModelPass) -> None:
    traced = trace(passed, PLACES[0], Lock())
    with pytest.raises(UserError, match="ask for one of"):
        terms(traced, "z", 0)
    with pytest.raises(UserError, match="numbered from 0"):
        terms(traced, "q", 16)

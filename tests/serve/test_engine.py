"""The engine, driven step by step: equal texts, fairness, limits, and what fails alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.config import GREEDY, BeamSettings, Sampling
from regard.serve.engine import Engine
from regard.serve.work import (
    Answer,
    Busy,
    Cancelled,
    Closing,
    DeadlinePassed,
    EngineSettings,
    Generate,
    Piece,
    Result,
    Ticket,
)
from tests.serve.driving import Clock, engine, run, texts
from tests.serve.small_writers import KINDS, alone, request, writer


def ids(text: Sequence[str]) -> Generate:
    return Generate(text=" ".join(text), method=GREEDY, max_tokens=8)


@pytest.mark.parametrize("kind", KINDS)
def test_requests_served_together_are_those_served_alone(kind: str) -> None:
    rng = random.Random(7)
    works = [request(rng) for _ in range(25)]
    served, tickets = engine(kind, rows=9), list[Ticket]()
    while len(tickets) < len(works):
        for work in works[len(tickets) :][: rng.choice([0, 1, 4])]:
            tickets.append(served.submit(work, key=rng.choice("ab")))
        served.step()
    run(served)
    for work, ticket in zip(works, tickets):
        expected = alone(writer(kind), work)
        found = ticket.result(0)
        if not work.text and kind not in ("gpt", "llama"):
            assert [sample.text for sample in found.samples] == [""] * work.n
            continue
        assert [(sample.text, sample.tokens) for sample in found.samples] == expected, work
        for n, sample in enumerate(found.samples):
            pieces = [piece for piece in ticket.pieces() if piece.sample == n]
            assert "".join(piece.text for piece in pieces) == sample.text
            streamed = [token for piece in pieces for token in piece.tokens]
            assert streamed == sample.tokens
            if work.logprobs is not None:
                assert [score.id for score in sample.logprobs or ()] == sample.tokens
                assert [score for piece in pieces for score in piece.logprobs or ()] == sample.logprobs
                assert all(len(score.top) == work.logprobs for score in sample.logprobs or ())
    statistics = served.statistics()
    assert (statistics.rows, statistics.memory, statistics.queued, statistics.active) == (0, 0, 0, 0)
    assert statistics.finished == len(works)
    assert statistics.row_steps > 1.5 * statistics.steps


def test_keys_take_turns() -> None:
    served = engine(rows=1)
    order = list[str]()
    for n in range(4):
        served.submit(ids(["the"]), key="many").listen(lambda event, n=n: order.append(f"many {n}"))
    for n in range(2):
        served.submit(ids(["a"]), key="few").listen(lambda event, n=n: order.append(f"few {n}"))
    run(served)
    assert list(dict.fromkeys(order)) == ["many 0", "few 0", "many 1", "few 1", "many 2", "many 3"]


def test_long_texts_leave_half_of_the_rows_to_short_ones() -> None:
    served = engine(rows=4, long=10)
    long = [served.submit(Generate(text="the cat", max_tokens=30, minimum_tokens=29)) for _ in range(6)]
    short = [served.submit(Generate(text="a bird", max_tokens=5)) for _ in range(8)]
    most = 0
    while not all(ticket.done for ticket in short):
        served.step()
        most = max(most, served.statistics().rows)
    assert most == 4
    assert not any(ticket.done for ticket in long)
    statistics = served.statistics()
    short_steps = sum(ticket.result(0).generated_tokens for ticket in short)
    assert 2 * short_steps >= statistics.row_steps > short_steps  # long texts had at most as many
    run(served)
    assert all(len(ticket.result(0).samples[0].tokens) >= 29 for ticket in long)


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    clock = Clock()
    served = engine(clock=clock, rows=2, queue=3)
    for _ in range(3):
        served.submit(ids(["the"]))
    with pytest.raises(Busy, match="ask again in 1 s") as refused:
        served.submit(ids(["the"]))
    assert refused.value.retry_after == 1
    clock.now = 60.0
    run(served)
    for _ in range(3):
        served.submit(ids(["the"]))
    with pytest.raises(Busy) as refused:
        served.submit(Answer(inputs=1, batch=len, length=1))  # type: ignore[arg-type]
    assert refused.value.retry_after == 60 * 3 / 2
    assert served.statistics().refused == 2


@pytest.mark.parametrize("method", [GREEDY, BeamSettings(beam=2)])
def test_cancelled_and_late_requests_leave_between_two_steps(method: Any) -> None:
    clock = Clock()
    served = engine(clock=clock, rows=3)
    works = [Generate(text=text, method=method, max_tokens=16) for text in ("the cat", "a bird", "home", "old tree", "river")]
    expected = [alone(writer("gpt"), work) for work in works]
    tickets = [served.submit(work, deadline=5 if n in (1, 4) else None) for n, work in enumerate(works)]
    served.step()
    assert served.statistics().rows == 3
    tickets[0].cancel()
    clock.now = 5.0
    served.step()
    assert served.statistics().rows == 2  # the third, and the fourth, which has joined
    run(served)
    assert [texts(tickets[n]) for n in (2, 3)] == [expected[n] for n in (2, 3)]
    for n, error in ((0, Cancelled), (1, DeadlinePassed), (4, DeadlinePassed)):
        with pytest.raises(error):
            tickets[n].result(0)
    statistics = served.statistics()
    assert (statistics.cancelled, statistics.expired, statistics.finished, statistics.memory) == (1, 2, 2, 0)


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (Generate(text=" ".join(["river"] * 90)), "tokens"),
        (Generate(text="the", max_tokens=0), "max_tokens is 0"),
        (Generate(text="the", max_tokens=41), "max_tokens is 41; give 1 to 40"),
        (Generate(text="the", n=2), "decode.samples is 2"),
        (Generate(text="the", n=17), "n is 17"),
        (Generate(text="the", stop=("",)), "stop text is empty"),
        (Generate(text="the", method=BeamSettings(beam=2), stop=("a",)), "a beam search decides"),
        (Generate(text="the", method=BeamSettings(beam=17)), "beam is 17"),
        (Generate(text="the", method=BeamSettings(beam=2), n=3), "decode.n_best is 3"),
        (Generate(text="the", method=BeamSettings(beam=2), logprobs=1), "logprobs above 0"),
        (Generate(text="the", settings={"cache": "int8"}), "decode.cache is not for a request"),
        (Generate(text="the", settings={"no_repeat_ngram": "x"}), "no_repeat_ngram"),
        (Generate(text="the", allowed=lambda tokens: 1 // 0), "the rule for the next token failed"),
        (Generate(text="the", picture=3), "reads a text"),
    ],
)
def test_a_bad_request_fails_alone(work: Generate, says: str) -> None:
    served = engine(max_tokens=40)
    good = [Generate(text=text, max_tokens=9) for text in ("the cat", "a bird")]
    tickets = [served.submit(one) for one in (good[0], work, good[1])]
    run(served)
    with pytest.raises(UserError, match=says):
        tickets[1].result(0)
    assert [texts(tickets[n]) for n in (0, 2)] == [alone(writer("gpt"), one) for one in good]
    assert served.statistics().failed == 1


def test_a_prompt_that_breaks_the_model_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    served, predictor = engine(), writer("gpt")
    works = [Generate(text=text, max_tokens=9) for text in ("the cat", "river walk", "a bird")]
    first, second, third = (set(predictor.encode(work.text)[:-1]) for work in works)
    bad, start = min(second - first - third), predictor.model.start

    def broken(ids_BL: torch.Tensor, lengths_B: torch.Tensor) -> Any:
        if (ids_BL == bad).any():
            raise RuntimeError("a kernel failed")
        return start(ids_BL, lengths_B)

    monkeypatch.setattr(predictor.model, "start", broken)
    tickets = [served.submit(work) for work in works]
    run(served)
    with pytest.raises(UserError, match="the model failed on this request: RuntimeError: a kernel failed"):
        tickets[1].result(0)
    assert [texts(tickets[n]) for n in (0, 2)] == [alone(predictor, works[n]) for n in (0, 2)]


def test_a_newer_model_takes_what_comes_and_what_began_ends_on_the_old_one() -> None:
    served, newer = engine(rows=2), writer("gpt", seed=2)
    works = [Generate(text=text, max_tokens=9) for text in ("the cat", "a bird", "home", "old tree")]
    tickets = [served.submit(work) for work in works[:3]]
    served.step()
    served.replace(newer)
    tickets.append(served.submit(works[3]))
    run(served)
    models = [writer("gpt"), writer("gpt"), newer, newer]
    assert [texts(ticket) for ticket in tickets] == [alone(model, work) for model, work in zip(models, works)]
    assert served.leaving == []


def test_closing_finishes_what_was_accepted_or_gives_it_up() -> None:
    for drain in (True, False):
        served = engine(rows=1)
        tickets = [served.submit(ids(["the", "cat"])) for _ in range(3)]
        served.step()
        served.close(drain=drain)
        with pytest.raises(Closing):
            served.submit(ids(["a"]))
        if drain:
            assert all(ticket.result(0).samples for ticket in tickets)
            continue
        for ticket in tickets:
            with pytest.raises(Closing, match="shut down"):
                ticket.result(0)


def test_the_thread_serves_many_threads_and_ends() -> None:
    served = Engine(writer("gpt"), EngineSettings(rows=4))
    works = [
        Generate(text=text, method=Sampling(), seed=n, max_tokens=9) for n, text in enumerate(("the", "a cat", "home", "it") * 3)
    ]
    tickets = [served.submit(work) for work in works]
    heard = list[Any]()
    tickets[0].listen(heard.append)
    assert [texts_of(ticket) for ticket in tickets] == [alone(writer("gpt"), work) for work in works]
    served.close(drain=True)
    assert served.thread is not None
    assert not served.thread.is_alive()
    assert isinstance(heard[-1], Result)
    assert all(isinstance(event, Piece) for event in heard[:-1])


def texts_of(ticket: Ticket) -> list[tuple[str, list[int]]]:
    return [(sample.text, sample.tokens) for sample in ticket.result(120).samples]

"""The engine, driven step by step: equal texts, fairness, limits, and what fails alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.config import GREEDY, BeamSettings, DecodeConfig, Sampling
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
from tests.serve.small_writers import KINDS, alone, request, writer


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def engine(kind: str = "gpt", clock: Any = None, **settings: Any) -> Engine:
    return Engine(writer(kind), EngineSettings(**settings), clock=clock or Clock(), start=False)


def run(served: Engine) -> None:
    while served.step():
        pass


def texts(ticket: Ticket) -> list[tuple[str, list[int]]]:
    return [(sample.text, sample.tokens) for sample in ticket.result(0).samples]


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
    assert served.statistics().steps <= 5 * 8 / 2
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


def test_scores_that_are_not_numbers_fail_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    served, predictor = engine("transformer"), writer("transformer")
    step = predictor.model.step

    def broken(ids_SW: torch.Tensor, past: Any) -> torch.Tensor:
        logits_SWV = step(ids_SW, past)
        logits_SWV[past.memory.words_S[: len(ids_SW)] == 4] = torch.nan
        return logits_SWV

    works = [Generate(text=text, max_tokens=9) for text in ("the cat sees", "river", "a bird and then it sleeps")]
    expected = [alone(predictor, work) for work in works]
    lengths = [len(ids) for ids in predictor.sources([work.text for work in works])]
    monkeypatch.setattr(predictor.model, "step", broken)
    works[1] = Generate(text=next(word for word in ("home", "river", "tree", "bird", "old", "walk") if words(word) == 4))
    assert 4 not in (lengths[0], lengths[2])
    tickets = [served.submit(work) for work in works]
    run(served)
    with pytest.raises(UserError, match="are not numbers"):
        tickets[1].result(0)
    assert [texts(tickets[n]) for n in (0, 2)] == [expected[n] for n in (0, 2)]


def words(text: str) -> int:
    return len(writer("transformer").sources([text])[0])


def test_memory_is_counted_before_a_text_joins() -> None:
    short, long = Generate(text="the", max_tokens=4), Generate(text="the cat " * 6, max_tokens=16)
    probe = engine()
    probe.submit(short)
    probe.step()
    least = probe.statistics().memory
    run(probe)
    served = engine(memory=4 * least)
    tickets = [served.submit(work) for work in (short, short, long, short)]
    served.step()
    assert served.statistics().rows == 2  # the long one waits for an empty batch, and the last does not overtake it
    most = 0
    while served.step():
        most = max(most, served.statistics().memory)
    assert least < most <= 4 * least
    assert [texts(ticket) for ticket in tickets] == [alone(writer("gpt"), work) for work in (short, short, long, short)]
    refused = engine(memory=least // 2).submit(long)
    small = engine(memory=least // 2)
    ticket = small.submit(long)
    run(small)
    with pytest.raises(UserError, match="ask for fewer or shorter texts"):
        ticket.result(0)
    assert not refused.done


def test_the_counted_memory_holds_the_buffers() -> None:
    served = engine("transformer")
    for method in (GREEDY, BeamSettings(beam=3)):
        for text in ("the cat", "a bird and then it sleeps under an old tree"):
            served.submit(Generate(text=text, method=method, max_tokens=12))
    while served.step():
        generator = served.served.generator
        assert generator is not None
        for batch in generator.batches.values():
            state: Any = batch.running.state
            if state is not None:
                kept = [part for cache in state.caches for part in cache.kept]
                kept += [part for layer in state.memory.kept for part in layer] + [state.ancestry.ancestors_SWN]
                assert sum(part.nbytes for part in kept) <= batch.reserved.bytes


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


def test_inputs_of_similar_length_share_a_pass_and_a_bad_one_fails_alone() -> None:
    passes = list[list[int]]()

    def square(predictor: Any, numbers: Sequence[int]) -> list[int]:
        passes.append(list(numbers))
        if 13 in numbers:
            raise UserError("13 has no square today; give another number.")
        return [number * number for number in numbers]

    served = engine(batch_length=40)
    numbers = [(3, 5), (4, 6), (5, 40), (13, 5), (6, 5), (7, 5), (8, 5), (9, 5), (10, 9)]
    tickets = [served.submit(Answer(inputs=number, batch=square, length=length)) for number, length in numbers]
    run(served)
    assert passes[0] == [3, 4, 13, 6, 7, 8]  # 6 of at most 6: together at most 40
    assert passes[1:] == [[3], [4], [13], [6], [7], [8], [5], [9, 10]]
    for (number, _), ticket in zip(numbers, tickets):
        if number == 13:
            with pytest.raises(UserError, match="13 has no square"):
                ticket.result(0)
        else:
            assert ticket.result(0).value == number * number


def test_a_pass_that_loses_results_is_an_error() -> None:
    served = engine()
    ticket = served.submit(Answer(inputs=1, batch=lambda predictor, numbers: [], length=1))
    run(served)
    with pytest.raises(UserError, match="1 inputs were given, and 0 results came back"):
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


@pytest.mark.parametrize("config", [{"cache": "int8"}, {"compile": True}, {"prompt_lookup": 2}])
def test_a_run_whose_texts_must_be_alone_is_refused(config: dict[str, Any]) -> None:
    from regard.commands.loaded import with_decode

    predictor = with_decode(writer("gpt"), DecodeConfig(search="greedy", **config))
    with pytest.raises(UserError, match=next(iter(config))):
        Engine(predictor, start=False)

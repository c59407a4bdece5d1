"""Batches of one model: memory by counting, and what fails in the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.config import GREEDY, BeamSettings, DecodeConfig, Sampling
from regard.serve.engine import Engine
from regard.serve.work import Generate
from tests.serve.driving import engine, run, texts
from tests.serve.small_writers import alone, writer


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


@pytest.mark.parametrize("method", [GREEDY, Sampling(top_p=0.9), BeamSettings(beam=2)])
def test_scores_that_are_not_numbers_fail_one_request(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served, predictor = engine("transformer"), writer("transformer")
    step = predictor.model.step

    def broken(ids_SW: torch.Tensor, past: Any) -> torch.Tensor:
        logits_SWV = step(ids_SW, past)
        logits_SWV[past.memory.words_S[: len(ids_SW)] == 4] = torch.nan
        return logits_SWV

    works = [Generate(text=text, method=method, max_tokens=9) for text in ("the cat sees", "river", "a bird and then it sleeps")]
    expected = [alone(predictor, work) for work in works]
    lengths = [len(ids) for ids in predictor.sources([work.text for work in works])]
    monkeypatch.setattr(predictor.model, "step", broken)
    four = next(word for word in ("home", "river", "tree", "bird", "old", "walk") if words(word) == 4)
    works[1] = Generate(text=four, method=method)
    assert 4 not in (lengths[0], lengths[2])
    tickets = [served.submit(work) for work in works]
    run(served)
    with pytest.raises(UserError, match="are not numbers"):
        tickets[1].result(0)
    assert [texts(tickets[n]) for n in (0, 2)] == [expected[n] for n in (0, 2)]


def words(text: str) -> int:
    return len(writer("transformer").sources([text])[0])


@pytest.mark.parametrize("config", [{"cache": "int8"}, {"compile": True}, {"prompt_lookup": 2}])
def test_a_run_whose_texts_must_be_alone_is_refused(config: dict[str, Any]) -> None:
    from regard.commands.loaded import with_decode

    predictor = with_decode(writer("gpt"), DecodeConfig(search="greedy", **config))
    with pytest.raises(UserError, match=next(iter(config))):
        Engine(predictor, start=False)

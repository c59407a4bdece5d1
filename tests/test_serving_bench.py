"""The benchmark of the engine: its clients do all work, and it finds a text that differs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import serving_engine
from regard.serve.work import Generate
from tests.serve.small_writers import WORDS, writer


@pytest.mark.parametrize("kind", ["gpt", "transformer"])
def test_all_requests_are_served_and_a_difference_is_counted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_engine, "MIXED", 12)
    texts = [" ".join(WORDS[n : n + 3]) for n in range(6)]
    tickets = serving_engine.served(writer(kind), [Generate(text=text, max_tokens=5) for text in texts], clients=2)
    assert all(ticket.result(0).samples for ticket in tickets)
    assert len(tickets) == len(texts)
    assert serving_engine.differing(writer(kind), texts) == 0
    alone = serving_engine.alone

    def other(predictor: Any, work: Generate) -> list[str]:
        return ["?"] if work.n == 2 else alone(predictor, work)

    monkeypatch.setattr(serving_engine, "alone", other)
    assert serving_engine.differing(writer(kind), texts) == sum(work.n == 2 for work in serving_engine.mixed(texts)) > 0

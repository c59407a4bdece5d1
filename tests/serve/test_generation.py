"""One request: its pieces, its log-probabilities, and where its text ends."""

from __future__ import annotations

from typing import Any

import pytest

from regard.decode.config import GREEDY, BeamSettings, Sampling
from regard.serve.work import Generate, Result
from tests.serve.driving import engine, run
from tests.serve.small_writers import tokenizer, writer


def generated(kind: str = "gpt", **given: Any) -> tuple[Result, list[Any]]:
    served = engine(kind)
    ticket = served.submit(Generate(text="the cat", max_tokens=10, **given))
    run(served)
    return ticket.result(0), list(ticket.pieces())


@pytest.mark.parametrize("kind", ["gpt", "transformer"])
def test_log_probabilities_are_those_of_the_predictor(kind: str) -> None:
    result, _ = generated(kind, method=GREEDY, logprobs=3)
    (sample,) = result.samples
    scores = sample.logprobs or []
    best = (writer("gpt").write(["the cat"]) if kind == "gpt" else writer(kind).translate(["the cat"]))[0][0]
    assert [score.id for score in scores] == best.ids[: len(scores)]
    if kind == "gpt":
        assert [score.logprob for score in scores] == pytest.approx([token.logprob for token in best.tokens][: len(scores)])
        assert [score.token for score in scores] == [token.token for token in best.tokens][: len(scores)]
    for score in scores:
        assert score.top[0][2] == max(top[2] for top in score.top)
        written = next(top for top in score.top if top[0] not in tokenizer().specials)  # which are never written
        assert (score.id, score.token, pytest.approx(score.logprob, abs=1e-5)) == written  # greedy takes the likeliest
    assert result.generated_tokens == len(sample.tokens) + (sample.finish == "stop")


def test_texts_of_a_beam_come_at_once_and_samples_piece_by_piece() -> None:
    beams, pieces = generated(method=BeamSettings(beam=3), n=3, logprobs=0)
    assert [(piece.sample, piece.text, piece.tokens) for piece in pieces] == [
        (n, sample.text, sample.tokens) for n, sample in enumerate(beams.samples)
    ]
    assert [sample.score for sample in beams.samples] == sorted((sample.score for sample in beams.samples), reverse=True)
    assert all(len(sample.logprobs or ()) == len(sample.tokens) for sample in beams.samples)
    samples, pieces = generated(method=Sampling(), n=3, seed=4)
    assert len(samples.samples) == len({sample.text for sample in samples.samples}) == 3
    assert len(pieces) > 6
    assert {piece.sample for piece in pieces} == {0, 1, 2}


def test_a_rule_for_the_next_token_is_asked_with_the_tokens_so_far() -> None:
    asked = list[list[int]]()

    def allowed(tokens: Any) -> list[int]:
        asked.append(list(tokens))
        return [20 + len(tokens)]

    result, _ = generated(method=Sampling(temperature=2.0), allowed=allowed)
    assert result.samples[0].tokens == list(range(20, 30))
    assert asked == [list(range(20, 20 + n)) for n in range(10)]
    assert result.samples[0].finish == "length"


def test_a_stop_ends_the_text_before_it() -> None:
    whole, _ = generated(method=GREEDY)
    text = whole.samples[0].text
    stop = text[len(text) // 2 : len(text) // 2 + 2]
    result, pieces = generated(method=GREEDY, stop=(stop,))
    assert result.samples[0].text == text[: text.index(stop)] == "".join(piece.text for piece in pieces)
    assert (result.samples[0].finish, result.samples[0].stopped) == ("stop", True)

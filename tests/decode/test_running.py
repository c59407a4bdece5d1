"""Continuous batching: what comes out when sentences join and leave is what each writes alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.decode.config import GREEDY, BeamSettings, Sampling
from regard.decode.request import Hypothesis, SearchRequest
from regard.decode.running import RunningBatch, Sentence
from regard.decode.search import search
from tests.decode.models import language_model, last, padded, pair_model, prompts, sources
from tests.families import dialogue_models, recurrent_models

EOS = 2
Make = Callable[[random.Random], SearchRequest]


def continuing(model: Any) -> Make:
    def make(rng: random.Random) -> SearchRequest:
        texts = prompts(rng.randint(1, 2), rng.randrange(1000), longest=12)
        return SearchRequest(
            encoded=model.start(*padded(texts)),
            sos=last(texts),
            limits=[rng.randint(1, 12) for _ in texts],
            prompts=texts,
            **options(rng, len(texts)),
        )

    return make


def from_sources(model: Any, words: int = 23) -> Make:
    def make(rng: random.Random) -> SearchRequest:
        texts = [[token % words for token in text] for text in prompts(rng.randint(1, 2), rng.randrange(1000), longest=9)]
        encoded = model.start(*sources(texts))
        return SearchRequest(encoded=encoded, sos=1, limits=[rng.randint(1, 12) for _ in texts], **options(rng, len(texts)))

    return make


def options(rng: random.Random, rows: int) -> dict[str, Any]:
    """One of a few settings, so that some requests share a search."""
    samples = rng.choice([1, 1, 2])
    seeds = [rng.randrange(1 << 40) for _ in range(rows * samples)]
    methods: list[dict[str, Any]] = [
        {"method": GREEDY},
        {"method": Sampling(temperature=0.8), "seeds": seeds},
        {"method": Sampling(temperature=1.2, top_k=9, top_p=0.9), "seeds": seeds},
        {"method": Sampling(temperature=1.0, repetition_penalty=1.3), "seeds": seeds},
        {"method": BeamSettings(beam=3, n_best=2)},
        {"method": BeamSettings(beam=3, early_stopping="full", length_formula="power", length_penalty=1.0)},
    ]
    constraints: list[dict[str, Any]] = [
        {},
        {},
        {"minimum_length": 2, "banned": (1, 3)},
        {"no_repeat_ngram": 2, "banned_sequences": [(4, 5), (6, 7, 8)]},
        {"forced": [[5, 6][: rng.randint(1, 2)] for _ in range(rows)], "banned_first": (4,), "forced_end": True},
    ]
    return {"eos": EOS, **rng.choice(methods), **rng.choice(constraints)}


def alone(request: SearchRequest) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence."""
    found = search(request)
    return [[one] for row in found for one in row] if request.copies > 1 else found


def run_mixed(make: Make, requests: int, seed: int) -> tuple[int, int]:
    """Let requests join at random steps, and compare; return the most sentences at a time, and how many searches."""
    rng = random.Random(seed)
    waiting = [make(rng) for _ in range(requests)]
    expected = [alone(request) for request in waiting]
    batches: dict[int, RunningBatch] = {}
    found: dict[Sentence, list[Hypothesis]] = {}
    asked = [[Sentence() for _ in request.text_limits] for request in waiting]
    streamed: dict[Sentence, list[int]] = {sentence: [] for sentences in asked for sentence in sentences}
    most = searches = at = 0
    while at < requests or batches:
        for _ in range(rng.choice([0, 0, 1, 2])):
            if at < requests:
                request = waiting[at]
                lanes = request.method.beam if isinstance(request.method, BeamSettings) else 1
                batches.setdefault(lanes, RunningBatch()).join(request, asked[at])
                at += 1
        for lanes, batch in list(batches.items()):
            most, searches = max(most, len(batch.sentences)), max(searches, len(batch.groups))
            steps = batch.step()
            for step in steps:
                if step.token is not None:
                    streamed[step.sentence].append(step.token)
            found |= batch.leave(step.sentence for step in steps if step.done)
            if not batch.sentences:
                assert batch.state is None
                del batches[lanes]
    for request, sentences, expectation in zip(waiting, asked, expected):
        for sentence, best in zip(sentences, expectation):
            assert [h.ids for h in found[sentence]] == [h.ids for h in best]
            assert [h.finished for h in found[sentence]] == [h.finished for h in best]
            torch.testing.assert_close([h.score for h in found[sentence]], [h.score for h in best], rtol=1e-5, atol=1e-5)
            if isinstance(request.method, Sampling):
                assert streamed[sentence] == sentence.tokens == best[0].ids
    return most, searches


@pytest.mark.parametrize(
    "kind", ["plain", "grouped, rotary", "sinusoidal, post-norm", "distances", "window", "window, distances", "blocks"]
)
def test_language_models(kind: str) -> None:
    most, searches = run_mixed(continuing(language_model(kind)), 24, seed=3)
    assert most > 4
    assert searches > 2


@pytest.mark.parametrize("mixer", ["linear-relu", "favor", "conv"])
def test_states_of_constant_size(mixer: str) -> None:
    run_mixed(continuing(language_model(mixer=mixer)), 16, seed=4)


@pytest.mark.parametrize("kind", ["transformer", "t5", "bart", "window, grouped"])
def test_encoder_decoders(kind: str) -> None:
    assert run_mixed(from_sources(pair_model(kind)), 24, seed=5)[0] > 4


@pytest.mark.parametrize(
    "choice",
    [
        {"attention": "none"},
        {"attention": "bahdanau"},
        {"attention": "luong", "input_feeding": True},
        {"attention": "luong", "visibility": "window(2)"},
    ],
)
def test_recurrent_encoder_decoders(choice: dict[str, Any]) -> None:
    run_mixed(from_sources(recurrent_models.built(**choice).double().eval(), words=11), 16, seed=6)


def test_dialogues_of_several_turns() -> None:
    model = dialogue_models.built().double()

    def make(rng: random.Random) -> SearchRequest:
        dialogues = [rng.choice(dialogue_models.SOURCES) for _ in range(rng.randint(1, 2))]
        encoded = model.start(*dialogue_models.laid(dialogues))
        own = {**options(rng, len(dialogues)), "banned_sequences": ()}
        return SearchRequest(encoded=encoded, sos=1, limits=[rng.randint(1, 9) for _ in dialogues], **own)

    run_mixed(make, 16, seed=9)


def test_a_sentence_whose_scores_are_not_numbers_leaves_the_others_as_they_are() -> None:
    model = language_model()
    texts = prompts(3, seed=11, shortest=3)
    common: dict[str, Any] = {"eos": EOS, "limits": [9]}
    requests = [SearchRequest(encoded=model.start(*padded([text])), sos=last([text]), **common) for text in texts]
    expected = [alone(request)[0][0].ids for request in requests]
    requests[1].encoded.prompts[0][0].fill_(torch.nan)  # type: ignore[attr-defined]
    batch, sentences = RunningBatch(), [Sentence() for _ in texts]
    for request, sentence in zip(requests[:2], sentences):
        batch.join(request, [sentence])
    steps = batch.step()
    assert [step.broken for step in steps] == [False, True]
    batch.leave([sentences[1]])
    batch.join(requests[2], [sentences[2]])  # into the row that is free now, and in slots that held NaN
    found: dict[Sentence, list[Hypothesis]] = {}
    while batch.sentences:
        steps = batch.step()
        assert not any(step.broken for step in steps)
        found |= batch.leave([step.sentence for step in steps if step.done])
    assert [found[sentences[n]][0].ids for n in (0, 2)] == [expected[0], expected[2]]


def test_a_rule_for_the_next_token_holds_for_its_own_sentence_and_may_fail() -> None:
    model = language_model()
    texts = prompts(3, seed=12)
    request = SearchRequest(encoded=model.start(*padded(texts)), sos=last(texts), eos=EOS, limits=[6] * 3)
    expected = [best.ids for (best,) in search(request)]
    batch = RunningBatch()
    rules: list[Any] = [None, lambda tokens: [10 + len(tokens)] if len(tokens) < 3 else [EOS], lambda tokens: [][0]]
    sentences = [Sentence(allowed=rule, top=2) for rule in rules]
    batch.join(request, sentences)
    found: dict[Sentence, list[Hypothesis]] = {}
    while batch.sentences:
        steps = batch.step()
        assert all(len(step.top) == 2 for step in steps)
        failed = [step.sentence for step in steps if step.error]
        assert failed in ([], [sentences[2]])
        found |= batch.leave([*failed, *(step.sentence for step in steps if step.done)])
    assert found[sentences[0]][0].ids == expected[0]
    assert (found[sentences[1]][0].ids, found[sentences[1]][0].finished) == ([10, 11, 12], True)


def test_sentences_that_are_given_up_return_what_they_have_and_change_no_other() -> None:
    model = pair_model()
    texts = prompts(4, seed=13)
    for method in (GREEDY, BeamSettings(beam=2)):
        request = SearchRequest(encoded=model.start(*sources(texts)), sos=1, eos=EOS, limits=[12] * 4, method=method)
        expected, sentences = search(request), [Sentence() for _ in texts]
        batch = RunningBatch()
        batch.join(request, sentences)
        batch.step()
        gone = batch.leave(sentences[:1])
        assert len(gone[sentences[0]][0].ids) <= 1
        found: dict[Sentence, list[Hypothesis]] = {}
        while batch.sentences:
            found |= batch.leave([step.sentence for step in batch.step() if step.done])
        assert [found[one][0].ids for one in sentences[1:]] == [best[0].ids for best in expected[1:]]


def test_float32_gives_the_same_tokens() -> None:
    run_mixed(continuing(language_model().float()), 24, seed=7)
    run_mixed(from_sources(pair_model().float()), 24, seed=8)

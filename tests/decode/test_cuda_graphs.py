"""Recorded searches against plain ones: the same results, from steps that no Python runs, in sessions that serve many batches."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.algorithm import BufferSizes, CapturedGraphs, sessions_on
from regard.decode.beam import BeamSearch
from regard.decode.config import GREEDY, BeamSettings, Sampling
from regard.decode.request import Hypothesis, SearchRequest
from regard.decode.sampling import SamplingSearch
from regard.decode.search import advance_until_done, repeat
from regard.families.transformer import Transformer
from regard.model.probe import probe
from tests.decode import toy
from tests.decode.searches import beam_search, greedy, sample
from tests.decode.tape import Tape, TapeRecorder
from tests.decode.toy import VOCABULARY, TableState, lively, table

SOS, EOS = 1, 2
Found = list[list[Hypothesis]]


MODEL = lively()
PRECISE = lively().double()
SAMPLED = -1  # in place of a beam: two samples of each sentence
EVERYTHING = Sampling(temperature=1.3, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.1)


def batch(seed: int, sentences: int, longest: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    source = torch.randint(4, VOCABULARY, (sentences, longest), generator=draw)
    return source, torch.randint(1, longest + 1, (sentences,), generator=draw)


def translate(
    seed: int,
    limits: list[int],
    *,
    longest: int = 9,
    beam: int = 3,
    sessions: CapturedGraphs | None = None,
    model: Transformer = MODEL,
) -> Found:
    reading = model.start(*batch(seed, len(limits), longest))
    words = dict(sos=SOS, eos=EOS, limits=limits, banned=(0, SOS), sessions=sessions, minimum_length=1)
    if beam == SAMPLED:
        texts = sample(reading, method=EVERYTHING, seeds=range(2 * len(limits)), banned_sequences=[(5, 6), (7,)], **words)
        return [texts[row : row + 2] for row in range(0, len(texts), 2)]
    if beam == 0:
        return [[found] for found in greedy(reading, **words)]
    return beam_search(reading, beam=beam, alpha=0.6, n_best=min(beam, 2), **words)


def alike(found: Found, expected: Found) -> None:
    """The same but for rounding, since kernels of other sizes add in another order."""
    assert [[(one.ids, one.finished) for one in some] for some in found] == [
        [(one.ids, one.finished) for one in some] for some in expected
    ]
    for some, others in zip(found, expected):
        for one, other in zip(some, others):
            assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    batches=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=3),
    longest=st.integers(1, 20),
    beam=st.integers(SAMPLED, 4),
)
def test_recorded_searches_find_what_plain_ones_find(seed: int, batches: list[list[int]], longest: int, beam: int) -> None:
    """Ragged limits, so sentences leave at different times; several batches, so sessions are used again by others.

    In double precision: in single precision forty steps of so lively a model make 2e-4 of the last bit."""
    sessions = CapturedGraphs(TapeRecorder())
    for number, limits in enumerate(batches):
        options = dict(longest=longest, beam=beam, model=PRECISE)
        alike(translate(seed + number, limits, sessions=sessions, **options), translate(seed + number, limits, **options))


@pytest.mark.parametrize("kind", [BeamSearch, SamplingSearch])
@pytest.mark.parametrize("limits", [[40, 1, 30], [9, 9, 3, 33, 20, 2, 1], [12]])
def test_looking_seldom_finds_what_looking_always_finds(kind: type[BeamSearch | SamplingSearch], limits: list[int]) -> None:
    """On a GPU without sessions: any number of sentences, which leave in halves."""
    method = BeamSettings(beam=3) if kind is BeamSearch else GREEDY
    found = []
    for patient in (False, True):
        encoded = MODEL.start(*batch(4, len(limits), 9))
        request = SearchRequest(encoded=encoded, sos=SOS, eos=EOS, limits=limits, method=method, banned=(0, SOS))
        search = kind(request, BufferSizes(len(limits), max(limits), fixed=patient))
        search.begin(request)
        with torch.no_grad():
            found.append(advance_until_done(search, limits, partial(repeat, search.advance), patient=patient))
    alike(*found)


@pytest.mark.parametrize("beam", [SAMPLED, 0, 3])
def test_windows_too(beam: int) -> None:
    model = lively("window(3)")
    options = dict(beam=beam, model=model)
    alike(translate(0, [40, 3, 25], sessions=CapturedGraphs(TapeRecorder()), **options), translate(0, [40, 3, 25], **options))


@pytest.mark.parametrize("beam", [SAMPLED, 0, 3])
def test_a_batch_of_the_same_size_records_nothing_anew(beam: int) -> None:
    recorder = TapeRecorder()
    sessions = CapturedGraphs(recorder)
    limits = [40, 40, 33]
    first = translate(1, limits, beam=beam, sessions=sessions)
    recorded, replayed = recorder.recorded, recorder.replayed
    assert replayed > 3 * recorded > 0
    other = translate(2, [39, 35, 38, 40], longest=12, beam=beam, sessions=sessions)
    assert len(sessions.idle) == 1
    alike(other, translate(2, [39, 35, 38, 40], longest=12, beam=beam))
    recorded = recorder.recorded
    assert translate(1, limits, beam=beam, sessions=sessions) == first
    assert recorder.recorded == recorded
    assert recorder.replayed > replayed


def test_few_sessions_are_kept_and_the_latest_used_of_them() -> None:
    sessions = CapturedGraphs(TapeRecorder(), most=2)
    for seed, sentences in enumerate([1, 2, 1, 4]):
        translate(seed, [3] * sentences, sessions=sessions)
    assert [key[-1].sentences for key in sessions.idle] == [1, 4]


BANS: dict[str, Any] = dict(banned=(0,), banned_sequences=((5, 6), (7, 8, 9)), minimum_length=2)
SEARCHES: dict[str, tuple[type[BeamSearch | SamplingSearch], dict[str, Any]]] = {
    "beam": (BeamSearch, dict(method=BeamSettings(beam=3), **BANS)),
    "greedy": (SamplingSearch, dict(minimum_length=2)),
    "sample": (SamplingSearch, dict(method=EVERYTHING, **BANS)),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_advancing_asks_the_device_nothing_and_leaves_buffers_where_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = SEARCHES[name]
    forced = None if name == "greedy" else [[5], [6, 7], [], [8]]
    words = dict(sos=SOS, eos=EOS, **options)
    request = SearchRequest(encoded=MODEL.start(*batch(0, 4, 9)), limits=[40, 20, 7, 1], forced=forced, **words)
    search = kind(request, BufferSizes(4, 40, prompt=16, forced=name != "greedy", fixed=True))
    search.begin(request)

    def places() -> list[int]:
        state, progress = search.state, search.progress
        memory = [part for layer in state.memory.layers for part in layer.buffers]
        slots = [cache.kv_2SHNK for cache in state.caches]
        ancestry = [state.ancestry.ancestors_SWN, state.ancestry.position_S, state.ancestry.slots_W]
        beam = isinstance(search, BeamSearch)
        board = [*search.allocated_lanes, *search.allocated_tree] if beam else [*search.allocated]
        flags = [progress.flags_S2, progress.length_S, progress.steps_S]
        return [part.data_ptr() for part in (*memory, *slots, *ancestry, *board, *flags)]

    before = places()
    with monkeypatch.context() as patched, torch.no_grad():
        for method in ("item", "tolist", "__bool__", "__int__", "__float__", "nonzero", "numpy", "cpu"):
            patched.setattr(Tensor, method, lambda *_, method=method: pytest.fail(f"{method} waits for the device"))
        for _ in range(5):
            search.state.grow(8)
            with Tape():
                for _ in range(8):
                    search.advance()
    assert places() == before
    search.begin(SearchRequest(encoded=MODEL.start(*batch(1, 3, 5)), limits=[5, 5, 5], **words))
    assert places() == before


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), limits=st.lists(st.integers(1, 8), min_size=2, max_size=4), beam=st.integers(SAMPLED, 4))
def test_a_sentence_that_is_done_does_not_change_any_more(seed: int, limits: list[int], beam: int) -> None:
    """Not even where the model has nothing to say, or nonsense, about what would come after its end."""
    logits_NV = table(seed, 5)
    logits_NV[::4] = -torch.inf
    reading = TableState(logits_NV, [(seed + 11 * row) % 97 for row in range(len(limits))])
    method = Sampling() if beam == SAMPLED else BeamSettings(beam=beam, n_best=beam) if beam else GREEDY
    seeds = range(seed, seed + len(limits)) if beam == SAMPLED else ()
    request = SearchRequest(encoded=reading, sos=toy.SOS, eos=toy.EOS, limits=limits, method=method, seeds=seeds)
    search = (BeamSearch if beam > 0 else SamplingSearch)(request, BufferSizes(len(limits), max(limits), fixed=True))
    search.begin(request)
    found: dict[int, list[Hypothesis]] = {}
    for _ in range(max(limits)):
        search.state.grow(1)
        search.advance()
        done, broken = search.progress.read_flags()
        assert not any(broken)
        for row in [row for row in range(len(limits)) if done[row]]:
            now = search.hypotheses(torch.tensor([row]))[0]
            assert found.setdefault(row, now) == now
            reading.spoilt_S[row] = True  # from now on its scores are no numbers
    assert len(found) == len(limits)


def test_a_step_recorded_for_few_sentences_is_not_replayed_for_many() -> None:
    sessions = CapturedGraphs(TapeRecorder())
    for limits in ([40, 2, 2, 2], [40, 40, 40, 40]):
        alike(translate(5, limits, beam=0, sessions=sessions), translate(5, limits, beam=0))
    assert len(sessions.idle) == 1


def test_a_broken_model_is_told_and_its_session_forgotten() -> None:
    model = lively()
    sessions = CapturedGraphs(TapeRecorder())
    translate(0, [20, 20], sessions=sessions, model=model)
    healthy = model.target.tokens.weight.detach().clone()
    with torch.no_grad():
        model.target.tokens.weight[SOS] = torch.nan
    with pytest.raises(UserError, match="not numbers"):
        translate(0, [20, 20], sessions=sessions, model=model)
    assert not sessions.idle
    with torch.no_grad():
        model.target.tokens.weight.copy_(healthy)
    alike(translate(0, [20, 20], sessions=sessions, model=model), translate(0, [20, 20], model=model))


def test_under_a_probe_every_step_really_runs() -> None:
    recorder = TapeRecorder()
    sessions = CapturedGraphs(recorder)
    plain = translate(0, [20, 20], sessions=sessions)
    recorded = recorder.recorded + recorder.replayed
    with probe(MODEL, gates={"decoder.0.cross": torch.zeros(2)}) as seen:
        gated = translate(0, [20, 20], sessions=sessions)
    assert recorder.recorded + recorder.replayed == recorded
    assert seen["decoder.1.self"].weights().shape[1] == 2
    torch.testing.assert_close(seen["decoder.1.self"].weights().sum(-1), torch.ones(1, 2, 3))
    assert gated != plain
    assert translate(0, [20, 20], sessions=sessions) == plain


def test_other_weights_are_another_session() -> None:
    """Moved weights lie elsewhere; a recorded step would go on reading the old ones."""
    model = lively()
    sessions = CapturedGraphs(TapeRecorder())
    translate(0, [20], sessions=sessions, model=model)
    model.double().float()
    translate(0, [20], sessions=sessions, model=model)
    assert len(sessions.idle) == 2


def test_a_cpu_has_no_sessions() -> None:
    assert sessions_on(torch.device("cpu")) is None

"""Searches on a GPU, recorded as CUDA graphs and not, against the same searches on a CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.candidates import topk_by_key, topk_by_sorting
from regard.decode.config import Sampling
from regard.decode.request import Hypothesis
from regard.decode.sampling import draw, splitmix, token_weights, uniform
from regard.families.transformer import Transformer
from regard.model.probe import probe
from tests.decode.searches import beam_search, greedy, sample
from tests.decode.test_sampling import logits
from tests.decode.toy import VOCABULARY, lively
from tests.model.state.test_decoder import Alone, prompts

pytestmark = pytest.mark.gpu
SOS, EOS = 1, 2
BATCHES = [  # source lengths, limits: sentences leave at different times; sizes that share a session, and others
    ([9, 3, 7], [40, 17, 33]),
    ([12, 1, 5, 8], [38, 40, 2, 5]),
    ([9, 3, 7], [40, 17, 33]),
    ([20] * 9, [3 * n + 1 for n in range(9)]),
    ([4], [60]),
    ([5], [60]),
]


@pytest.fixture(scope="module")
def model() -> Transformer:
    return lively()


def batch(number: int) -> tuple[Tensor, Tensor, list[int]]:
    lengths, limits = BATCHES[number]
    draw = torch.Generator().manual_seed(number % 2)
    return torch.randint(4, VOCABULARY, (len(lengths), max(lengths)), generator=draw), torch.tensor(lengths), limits


def translate(model: Transformer, number: int, beam: int, sessions: CapturedGraphs | None = None) -> list[list[Hypothesis]]:
    source, lengths, limits = batch(number)
    device = next(model.parameters()).device
    reading = model.start(source.to(device), lengths.to(device))
    words = dict(sos=SOS, eos=EOS, limits=limits, minimum_length=1, banned=(0, SOS), sessions=sessions)
    if beam == 0:
        return [[found] for found in greedy(reading, **words)]
    return beam_search(reading, beam=beam, alpha=0.6, n_best=min(beam, 2), **words)


def alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [(one.ids, one.finished) for one in some] == [(one.ids, one.finished) for one in others]
        for one, other in zip(some, others):
            assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-3)


@pytest.mark.parametrize("beam", [0, 1, 4])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_gpu_finds_what_a_cpu_finds(model: Transformer, beam: int, recorded: bool) -> None:
    on_gpu = copy.deepcopy(model).cuda()
    sessions = sessions_on(torch.device("cuda")) if recorded else None
    for number in range(len(BATCHES)):
        alike(translate(on_gpu, number, beam, sessions), translate(model, number, beam))


@pytest.mark.parametrize("beam", [0, 4])
def test_a_session_serves_again_without_another_capture(model: Transformer, beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu, sessions = copy.deepcopy(model).cuda(), sessions_on(torch.device("cuda"))
    assert sessions is not None
    first = [translate(on_gpu, number, beam, sessions) for number in range(len(BATCHES))]
    monkeypatch.setattr(sessions.recorder, "record", lambda step: pytest.fail("captured again"))
    assert [translate(on_gpu, number, beam, sessions) for number in range(len(BATCHES))] == first


def test_bfloat16_recorded_is_bfloat16_run(model: Transformer) -> None:
    half = copy.deepcopy(model).cuda().bfloat16()
    sessions = sessions_on(torch.device("cuda"))
    for number in (0, 1, 0):
        found, plain = translate(half, number, 4, sessions), translate(half, number, 4)
        assert [[one.ids for one in some] for some in found] == [[one.ids for one in some] for some in plain]


def test_autocast_recorded_is_autocast_run(model: Transformer) -> None:
    on_gpu, sessions = copy.deepcopy(model).cuda(), sessions_on(torch.device("cuda"))
    for number in (0, 1, 0):
        with torch.autocast("cuda", torch.bfloat16):
            found, plain = translate(on_gpu, number, 4, sessions), translate(on_gpu, number, 4)
        assert [[one.ids for one in some] for some in found] == [[one.ids for one in some] for some in plain]


def test_gates_act_although_steps_were_recorded(model: Transformer) -> None:
    on_gpu, sessions = copy.deepcopy(model).cuda(), sessions_on(torch.device("cuda"))
    gates = {"decoder.0.cross": torch.zeros(2)}
    translate(on_gpu, 0, 4, sessions)
    with probe(model, gates), probe(on_gpu, gates):
        alike(translate(on_gpu, 0, 4, sessions), translate(model, 0, 4))


@pytest.mark.parametrize("recorded", [False, True])
def test_prompts_are_continued_as_on_a_cpu(recorded: bool) -> None:
    model = Alone().eval()
    on_gpu = copy.deepcopy(model).cuda()
    sessions = sessions_on(torch.device("cuda")) if recorded else None
    for seed, (lengths, limits) in enumerate(
        [([60, 3, 30], [5, 50, 7]), ([1, 2, 50], [64, 3, 2]), ([1], [9]), ([60, 9, 3], [5, 44, 7])]
    ):
        prompt_BL, lengths_B = prompts(lengths, seed)
        found = []
        for one, device in ((model, "cpu"), (on_gpu, "cuda")):
            ids, many = prompt_BL.to(device), lengths_B.to(device)
            last_B = ids[torch.arange(len(limits), device=device), many - 1]
            mine = sessions if device == "cuda" else None
            found.append(greedy(one.start(ids, many), sos=last_B, eos=3, limits=limits, sessions=mine))
        assert [hypothesis.ids for hypothesis in found[0]] == [hypothesis.ids for hypothesis in found[1]]


@pytest.mark.parametrize("size", [50, 5_000, 50_257])
@pytest.mark.parametrize("rows", [1, 64])
def test_the_first_largest_on_a_gpu(size: int, rows: int) -> None:
    values = -torch.randint(size // 3, (rows, size), generator=torch.Generator().manual_seed(0)).float()
    expected = topk_by_sorting(values, 9)
    assert torch.equal(topk_by_key(values.cuda(), 9).cpu(), expected)
    assert torch.equal(values.cuda().argmax(1).cpu(), expected[:, 0])


CHOICES = [
    Sampling(),
    Sampling(temperature=0.7, top_k=10),
    Sampling(temperature=1.3, top_k=20, top_p=0.9, min_p=0.01, repetition_penalty=1.2),
]


def test_draws_are_those_of_a_cpu() -> None:
    seeds, steps = torch.arange(-500, 500)[:, None] << 40, torch.arange(300)
    assert torch.equal(splitmix(seeds.cuda(), steps.cuda()).cpu(), splitmix(seeds, steps))
    assert torch.equal(uniform(seeds.cuda(), steps.cuda()).cpu(), uniform(seeds, steps))


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("size", [50, 50_257])
def test_the_same_scores_draw_the_same_tokens_as_on_a_cpu(choice: Sampling, size: int) -> None:
    scores, drawn = logits(0, size, 2.0, 0), uniform(torch.arange(4)[:, None], torch.tensor([0]))
    weight = token_weights(scores, choice, fixed=False)
    on_gpu = token_weights(scores.cuda(), choice, fixed=True)
    torch.testing.assert_close(on_gpu.cpu().double(), weight.double(), rtol=1e-5, atol=2**40 * 1e-6)
    assert torch.equal(draw(weight.cuda(), drawn.cuda()).cpu(), draw(weight, drawn))


def sampled(model: Transformer, number: int, choice: Sampling, sessions: CapturedGraphs | None = None) -> list[Hypothesis]:
    source, lengths, limits = batch(number)
    device = next(model.parameters()).device
    rows, forced = len(limits), [[5, 6], *[[]] * (len(limits) - 1)]
    words = dict(
        sos=SOS, eos=EOS, limits=limits, minimum_length=1, banned=(0, SOS), banned_sequences=[(7, 7), (8, 9, 10)], forced=forced
    )
    reading = model.start(source.to(device), lengths.to(device))
    return sample(reading, method=choice, seeds=range(2 * rows), sessions=sessions, **words)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_recorded_samples_are_the_plain_ones(model: Transformer, choice: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    """In double precision, so that rounding does not move a draw across an edge."""
    on_cpu = copy.deepcopy(model).double()
    on_gpu, sessions = copy.deepcopy(on_cpu).cuda(), sessions_on(torch.device("cuda"))
    assert sessions is not None
    for number in range(len(BATCHES)):
        found = [one.ids for one in sampled(on_gpu, number, choice, sessions)]
        assert found == [one.ids for one in sampled(on_gpu, number, choice)]
        assert found == [one.ids for one in sampled(on_cpu, number, choice)]
    monkeypatch.setattr(sessions.recorder, "record", lambda step: pytest.fail("captured again"))
    assert [one.ids for one in sampled(on_gpu, len(BATCHES) - 1, choice, sessions)] == found


def test_a_listener_hears_what_is_found_and_stops_it(model: Transformer) -> None:
    on_gpu, sessions = copy.deepcopy(model).cuda(), sessions_on(torch.device("cuda"))
    source, lengths, limits = batch(0)
    words = dict(sos=SOS, eos=EOS, limits=limits, minimum_length=12, sessions=sessions)
    for _ in range(3):
        heard: dict[int, list[int]] = {row: [] for row in range(len(limits))}

        def listen(row: int, tokens: list[int], heard: dict[int, list[int]] = heard) -> bool:
            heard[row] += tokens
            return row == 1

        found = greedy(on_gpu.start(source.cuda(), lengths.cuda()), listener=listen, **words)
        assert [one.ids for one in found] == list(heard.values())
        assert (len(found[1].ids), found[1].finished) == (8, False)

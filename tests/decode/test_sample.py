"""Samples against the exact distribution, against plain loops, and against themselves in other batches."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.algorithm import CapturedGraphs
from regard.decode.config import Sampling
from regard.decode.request import Hypothesis
from regard.families.gpt import GPT, GPTConfig
from tests.decode.searches import greedy, sample
from tests.decode.statistics import chi_square
from tests.decode.tape import TapeRecorder
from tests.decode.test_sampling import hugging_face
from tests.decode.toy import EOS, SOS, Oracle, TableState, after, table

PLAIN = Sampling()
SEEDS = st.integers(0, 10_000)
CHOICES = [
    PLAIN,
    Sampling(temperature=0.6),
    Sampling(temperature=1.7),
    Sampling(top_k=4),
    Sampling(top_p=0.7),
    Sampling(min_p=0.2),
    Sampling(repetition_penalty=1.8),
    Sampling(temperature=1.4, top_k=9, top_p=0.9, min_p=0.02, repetition_penalty=1.2),
]


def run(logits_NV: Tensor, starts: Sequence[int], limits: Sequence[int], seeds: Sequence[int], **others: Any) -> list[Hypothesis]:
    options = dict(sos=SOS, eos=EOS, limits=limits, seeds=seeds, method=PLAIN) | others
    return sample(TableState(logits_NV, starts), **options)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_the_first_token_is_distributed_as_it_should_be(choice: Sampling) -> None:
    """20,000 samples of one row; what the filters leave is asked of Hugging Face."""
    logits_NV = table(4, 12, spread=1.0)
    found = run(logits_NV, [0], [1], range(20_000), method=choice)
    tokens = torch.tensor([EOS if one.finished else one.ids[0] for one in found])
    expected = hugging_face(logits_NV[None, after(0, SOS)], torch.tensor([[SOS]]), choice).softmax(1)[0]
    assert chi_square(tokens.bincount(minlength=12), expected) > 1e-4


def test_whole_texts_are_distributed_as_the_model_says() -> None:
    """Every text of up to three tokens, so draws of different steps are independent."""
    logits_NV = table(9, 4, spread=0.7)
    oracle, probability = Oracle(logits_NV, 0), {}
    live: dict[tuple[int, ...], float] = {(): 0.0}
    for _ in range(3):
        grown = {(*ids, token): total + p for ids, total in live.items() for p, token in oracle.nexts(ids)}
        live = {ids: total for ids, total in grown.items() if ids[-1] != EOS}
        probability |= {ids: math.exp(total) for ids, total in grown.items() if ids[-1] == EOS}
    probability |= {ids: math.exp(total) for ids, total in live.items()}
    numbers = {ids: number for number, ids in enumerate(probability)}
    found = run(logits_NV, [0], [3], range(30_000, 50_000))
    texts = torch.tensor([numbers[(*one.ids, EOS) if one.finished else tuple(one.ids)] for one in found])
    assert chi_square(texts.bincount(minlength=len(numbers)), torch.tensor(list(probability.values()))) > 1e-4


def test_log_probabilities_are_the_models_own() -> None:
    logits_NV = table(5, 9)
    starts = list(range(20))
    warm = Sampling(temperature=2.0, top_k=5, repetition_penalty=1.5)
    for start, one in zip(starts, run(logits_NV, starts, [8] * 20, starts, method=warm, banned=(SOS,))):
        tokens, oracle = [*one.ids, EOS] if one.finished else one.ids, Oracle(logits_NV, start)
        own = [{t: p for p, t in oracle.nexts(tokens[:i])}[token] for i, token in enumerate(tokens)]
        assert one.token_logprobs == pytest.approx(own, abs=1e-6)
        assert one.score == one.logprob == pytest.approx(sum(own), abs=1e-5)


@settings(max_examples=30)
@given(seed=SEEDS, limits=st.lists(st.integers(1, 12), min_size=1, max_size=17), choice=st.sampled_from(CHOICES), data=st.data())
def test_a_text_is_its_seeds_whatever_the_batch(seed: int, limits: list[int], choice: Sampling, data: st.DataObject) -> None:
    logits_NV = table(seed, 30)
    rows = list(range(len(limits)))
    starts, seeds = [(seed + 7 * row) % 97 for row in rows], [seed + row for row in rows]
    alone = [run(logits_NV, [starts[row]], [limits[row]], [seeds[row]], method=choice)[0] for row in rows]
    order = data.draw(st.permutations(rows))
    part = order[: data.draw(st.integers(1, len(rows)))]
    for some in (rows, order, part):
        chosen = [[column[row] for row in some] for column in (starts, limits, seeds)]
        assert run(logits_NV, *chosen, method=choice) == [alone[row] for row in some]


def test_samples_of_a_row_lie_side_by_side_and_are_what_their_seeds_say() -> None:
    logits_NV = table(1, 20).index_fill(1, torch.tensor([EOS]), -1.0)
    starts, limits, seeds = [3, 4, 5], [9, 1, 6], list(range(12))
    found = run(logits_NV, starts, limits, seeds, forced=[[7], [8], []])
    apart = [column[row] for column in (starts, limits, [[7], [8], []]) for row in range(3) for _ in range(4)]
    assert found == run(logits_NV, apart[:12], apart[12:24], seeds, forced=apart[24:])
    assert len({tuple(one.ids) for one in found[:4]}) > 2


@settings(max_examples=30)
@given(seed=SEEDS, limits=st.lists(st.integers(1, 10), max_size=5), minimum=st.integers(0, 3), ties=st.booleans())
def test_without_temperature_it_is_greedy(seed: int, limits: list[int], minimum: int, ties: bool) -> None:
    logits_NV = table(seed, 6).round() if ties else table(seed, 6)
    starts = [(seed + 11 * row) % 97 for row in range(len(limits))]
    cold = run(
        logits_NV, starts, limits, [seed] * len(limits), method=Sampling(temperature=0), minimum_length=minimum, banned=(4,)
    )
    options = dict(sos=SOS, eos=EOS, limits=limits, minimum_length=minimum, banned=(4,))
    assert cold == greedy(TableState(logits_NV, starts), **options)


@settings(max_examples=30)
@given(seed=SEEDS, prompts=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=6), min_size=1, max_size=4))
def test_repetition_is_penalised_in_prompt_and_text(seed: int, prompts: list[list[int]]) -> None:
    """The most probable token after the penalty, one token and one row at a time."""
    logits_NV, choice = table(seed, 8, spread=1.0), Sampling(temperature=0, repetition_penalty=1.7)
    starts = [(seed + row) % 97 for row in range(len(prompts))]
    first = torch.tensor([prompt[-1] for prompt in prompts])
    found = run(logits_NV, starts, [6] * len(prompts), [0] * len(prompts), method=choice, prompts=prompts, sos=first)
    warm = Sampling(repetition_penalty=1.7)
    for start, prompt, one in zip(starts, prompts, found):
        key, text = after(start, prompt[-1]), list(prompt)
        for token in [*one.ids, *[EOS] * one.finished]:
            assert token == hugging_face(logits_NV[None, key], torch.tensor([text]), warm).argmax().item()
            key, text = after(key, token), [*text, token]


def test_rows_leave_as_they_end() -> None:
    never_ends = table(1, 5).index_fill(1, torch.tensor([EOS]), -50.0)
    state = TableState(never_ends, [4, 5, 6])
    sample(state, sos=SOS, eos=EOS, limits=[3, 1, 3], method=PLAIN, seeds=[1, 2, 3])
    assert state.calls == [("step", 3), ("compact", 2), ("step", 2), ("step", 2)]


def test_nothing_can_follow() -> None:
    nothing = torch.full((97, 3), -math.inf)
    assert run(nothing, [0], [2], [5]) == [Hypothesis([], 0, 0, False, [])]
    assert run(table(0, 3), [0], [2], [5], banned=(0, 1, 2)) == [Hypothesis([], 0, 0, False, [])]
    assert run(table(0, 3), [], [], []) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("choice", [PLAIN, CHOICES[-1]], ids=str)
def test_a_broken_model_is_told(bad: float, choice: Sampling) -> None:
    logits_NV = table(0, 4)
    logits_NV[:, 2] = bad
    with pytest.raises(UserError, match="not numbers"):
        run(logits_NV, [0], [3], [0], method=choice)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ({"seeds": [1]}, "1 seeds"),
        ({"seeds": [1, 2, 3]}, "3 seeds"),
        ({"prompts": [[0]]}, "1 prompts"),
        ({"prompts": [[5, 0], [5]]}, "end with"),
        ({"prompts": [[5, 0], []]}, "end with"),
        ({"forced": [[0]] * 3}, "3 forced"),
        ({"banned_sequences": [[1, 2], []]}, "no tokens"),
        ({"limits": [0, 1]}, "maximum"),
    ],
)
def test_mistakes_are_told(mistake: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        run(table(0, 6), [0, 1], **({"limits": [3, 3], "seeds": [1, 2]} | mistake))


WORDS = 60


def gpt() -> GPT:
    model = GPT(GPTConfig(width=16, heads=2, layers=2, feedforward=32, dropout=0.0, maximum_length=64), WORDS, seed=1).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6.0 if weight.dim() == 2 else 1.0)
    return model


MODEL = gpt()


def go_on(
    prompts: Sequence[Sequence[int]], seeds: Sequence[int], method: Sampling, tokens: int = 24, **others: Any
) -> list[Hypothesis]:
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts])
    ids = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt) - 1] = torch.tensor(prompt[:-1])
    first = torch.tensor([prompt[-1] for prompt in prompts])
    options = dict(sos=first, eos=EOS, limits=[tokens] * len(prompts), method=method, seeds=seeds, prompts=prompts) | others
    return sample(MODEL.start(ids, lengths), **options)


def some_prompts(count: int, longest: int = 20) -> list[list[int]]:
    draw = torch.Generator().manual_seed(count)
    lengths = torch.randint(1, longest, (count,), generator=draw).tolist()
    return [torch.randint(2, WORDS, (length,), generator=draw).tolist() for length in lengths]


@pytest.mark.parametrize("choice", [PLAIN, CHOICES[-1]], ids=str)
def test_a_gpt_says_the_same_alone_in_threes_and_in_a_shuffled_batch(choice: Sampling) -> None:
    prompts = some_prompts(17)
    options = dict(method=choice, banned_sequences=[(5, 6), (9, 9)])
    alone = [go_on([prompt], [100 + row], **options)[0].ids for row, prompt in enumerate(prompts)]
    assert len({len(ids) for ids in alone}) > 4
    for size, order in ((3, list(range(17))), (17, list(range(17))), (17, torch.randperm(17).tolist())):
        for start in range(0, 17, size):
            rows = order[start : start + size]
            found = go_on([prompts[row] for row in rows], [100 + row for row in rows], **options)
            assert [one.ids for one in found] == [alone[row] for row in rows]


@pytest.mark.parametrize("choice", [PLAIN, CHOICES[-1]], ids=str)
def test_recorded_samples_of_prompts_are_the_plain_ones_and_sessions_serve_any_seed(choice: Sampling) -> None:
    recorder = TapeRecorder()
    sessions = CapturedGraphs(recorder)
    recorded = []
    for seed in (0, 50, 0):
        prompts, seeds = some_prompts(3 + seed % 3), range(seed, seed + 2 * (3 + seed % 3))
        options = dict(method=choice, banned_sequences=[(5, 6)], forced=[[7], [], *[[8, 9]] * (1 + seed % 3)])
        found, plain = go_on(prompts, seeds, sessions=sessions, **options), go_on(prompts, seeds, **options)
        assert [(one.ids, one.finished) for one in found] == [(one.ids, one.finished) for one in plain]
        recorded.append(recorder.recorded)
    assert recorded[2] == recorded[1]  # nothing new
    assert recorder.replayed > 2 * recorder.recorded


@pytest.mark.parametrize("recorded", [False, True])
def test_many_prompts_leave_nothing_behind(recorded: bool) -> None:
    sessions = CapturedGraphs(TapeRecorder()) if recorded else None
    tensors = []
    for number in range(40):
        go_on(some_prompts(8, 10), range(8 * number, 8 * number + 8), CHOICES[-1], tokens=3, sessions=sessions)
        if number in (8, 39):
            gc.collect()
            alive = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
            tensors.append((len(alive), sum(tensor.numel() for tensor in alive)))
    assert tensors[0] == tensors[1]

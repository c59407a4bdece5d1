"""HRAN: turns are read apart, dialogues have gates of their own, a search finds the best reply, and a GPU agrees with a CPU."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.algorithm import sessions_on
from regard.families.hran import HRANConfig
from regard.model.probe import attentions, probe
from regard.text.specials import EOS, SOS
from tests.decode.searches import beam_search
from tests.families.counting import count_pair
from tests.families.dialogue_models import SOURCES, TARGET, TURN, WORDS, built, choices, laid


@choices
def test_each_dialogue_has_its_own_gates_however_many_turns_it_has(choice: dict[str, Any]) -> None:
    model, draw = built(**choice), torch.Generator().manual_seed(4)
    gates = {name: torch.rand(len(SOURCES), one.heads, generator=draw) for name, one in attentions(model).items()}
    with probe(model, gates):
        together = model(*laid(SOURCES), TARGET)
        read = model.start(*laid(SOURCES))
        state = read.make_state(len(SOURCES), 2, 4, fixed=False)
        state.load(read, [4] * len(SOURCES))
        first = state.step(TARGET[:, :1].expand(-1, 2))  # two lanes of each
    for row, source in enumerate(SOURCES):
        with probe(model, {name: gate_BH[row] for name, gate_BH in gates.items()}):
            alone = model(*laid([source]), TARGET[row : row + 1])
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(first[row], alone[0, :1].expand(2, -1), atol=1e-5, rtol=1e-4)


@choices
def test_turns_are_read_apart_and_their_order_matters(choice: dict[str, Any]) -> None:
    model = built(**choice)
    lengths = torch.tensor([6])
    h = model.read(torch.tensor([[4, 5, TURN, 6, 7, EOS]]), lengths)
    other = model.read(torch.tensor([[4, 5, TURN, 9, 8, EOS]]), lengths)
    torch.testing.assert_close(h[:, :2], other[:, :2])
    assert not h[:, [2, 5]].any()
    ways = [[4, 5, TURN, 6, 7, EOS], [6, 7, TURN, 4, 5, EOS], [4, TURN, 5, 6, 7, EOS]]
    first, *rest = (model(torch.tensor([way]), lengths, TARGET[:1]) for way in ways)
    assert all(not torch.allclose(first, each, atol=1e-4) for each in rest)


@choices
def test_a_beam_that_is_wide_enough_finds_the_best_reply(choice: dict[str, Any]) -> None:
    """Every reply of three words, scored one by one, is the other way to find it."""
    model = built(seed=5, **choice)
    sources, allowed = SOURCES[:2], [*range(3, WORDS)]
    replies = [[*words, EOS] for length in range(3) for words in product(allowed, repeat=length)]
    state = model.start(*laid(sources))
    found = beam_search(state, sos=SOS, eos=EOS, limits=[3, 3], beam=90, alpha=0.0, n_best=5, banned=(0, SOS))
    for row, best in zip(sources, found):
        scored = {}
        for length in range(1, 4):
            same = [reply for reply in replies if len(reply) == length]
            given = torch.tensor([[SOS, *reply[:-1]] for reply in same])
            logits = model(*laid([row] * len(same)), given).detach()
            taken = logits.log_softmax(-1).gather(2, torch.tensor(same)[..., None]).sum((1, 2))
            scored |= {tuple(reply[:-1]): float(score) for reply, score in zip(same, taken)}
        finished = next(each for each in best if each.finished)
        assert tuple(finished.ids) == max(scored, key=lambda reply: scored[reply])
        assert finished.logprob == pytest.approx(max(scored.values()), abs=1e-4)


@choices
def test_parts_have_the_parameters_of_the_model(choice: dict[str, Any]) -> None:
    model = built(**choice)
    counted = count_pair(model.config, WORDS, WORDS, 20, 10)
    assert counted.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="heads=4 is for"):
        HRANConfig(heads=4)
    with pytest.raises(UserError, match="layers=0 must be at least 1"):
        HRANConfig(layers=0)


@pytest.mark.gpu
@choices
def test_a_gpu_computes_and_finds_what_a_cpu_does(choice: dict[str, Any]) -> None:
    model, (source, lengths) = built(seed=5, **choice), laid(SOURCES)
    other = copy.deepcopy(model).cuda()
    with torch.backends.cudnn.flags(allow_tf32=False):
        on_gpu = other(source.cuda(), lengths.cuda(), TARGET.cuda())
        torch.testing.assert_close(on_gpu.cpu(), model(source, lengths, TARGET), atol=1e-4, rtol=1e-3)
        found = []
        for each, sessions in ((model, None), (other, None), (other, sessions_on(torch.device("cuda")))):
            device = next(each.parameters()).device
            for _ in range(2):  # the second time, a recording is replayed
                state = each.start(source.to(device), lengths.to(device))
                best = beam_search(state, sos=SOS, eos=EOS, limits=[6] * 3, beam=4, alpha=0.6, banned=(0, SOS), sessions=sessions)
                found.append([[hypothesis.ids for hypothesis in row] for row in best])
    assert all(each == found[0] for each in found)
    with torch.autocast("cuda", torch.bfloat16):
        half = other.train()(source.cuda(), lengths.cuda(), TARGET.cuda())
    half.float().square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in other.parameters())

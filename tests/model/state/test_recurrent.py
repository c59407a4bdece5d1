"""The decoding state of recurrent decoders: searches over it against trying everything, and steps that can be recorded."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.families.recurrent import Recurrent
from regard.text.specials import PAD
from tests.decode.searches import beam_search, greedy
from tests.decode.tape import TapeRecorder
from tests.decode.toy import divisor
from tests.families.recurrent_models import CHOICES, EOS, SOS, WORDS, built, inputs, named


def everything(model: Recurrent, source: Tensor, limit: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every output of three words that ends within the limit, best first."""
    words = [w for w in range(WORDS) if w > EOS][:3]
    found = []
    for length in range(limit):
        for ids in product(words, repeat=length):
            target = torch.tensor([[SOS, *ids]])
            logprob = model(source, torch.tensor([source.shape[1]]), target)[0].double().log_softmax(-1)
            total = sum(logprob[t, w].item() for t, w in enumerate([*ids, EOS]))
            found.append((total / divisor(length + 1, alpha), ids))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("choice", [CHOICES[0], CHOICES[1], CHOICES[3]], ids=named)
@torch.no_grad()
def test_a_wide_beam_finds_the_best_of_all_outputs(choice):
    model, limit = built(seed=4, **choice), 4
    banned = [PAD, SOS, *[w for w in range(WORDS) if w > EOS][3:]]
    source, lengths, _ = inputs()
    for row, length in zip(source, lengths.tolist()):
        reading = model.start(row[None, :length], torch.tensor([length]))
        (found,) = beam_search(reading, sos=SOS, eos=EOS, beam=3**limit, alpha=0.6, limits=[limit], n_best=5, banned=banned)
        expected = everything(model, row[None, :length], limit, alpha=0.6)
        assert [tuple(h.ids) for h in found] == [ids for _, ids in expected[:5]]
        for hypothesis, (score, _) in zip(found, expected):
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


@torch.no_grad()
def test_sentences_are_searched_alike_alone_and_in_a_batch():
    model = built(seed=4, attention="bahdanau", cell="gru")
    source, lengths, _ = inputs(batch=5)
    together = greedy(model.start(source, lengths), sos=SOS, eos=EOS, limits=[6] * 5, banned=[PAD, SOS])
    for row, length, found in zip(source, lengths.tolist(), together):
        reading = model.start(row[None, :length], torch.tensor([length]))
        (alone,) = greedy(reading, sos=SOS, eos=EOS, limits=[6], banned=[PAD, SOS])
        assert alone.ids == found.ids
        assert alone.logprob == pytest.approx(found.logprob, abs=1e-5)


@pytest.mark.parametrize(
    "choice", [*CHOICES, dict(input_feeding=True, visibility="window(2)", scheduled_sampling=0.5)], ids=named
)
def test_a_training_step_and_a_decoding_step_can_be_recorded(choice):
    """Nothing is asked of the host in the middle; the tape refuses what a capture refuses, and cannot rewind a CPU's own GRU."""
    model, given = built(**choice | dict(cell="lstm")).train(), inputs()
    TapeRecorder().record(lambda: F.cross_entropy(model(*given).flatten(0, 1), given[2].flatten()).backward())
    reading = model.eval().start(*given[:2])
    state = reading.make_state(3, 2, 4, fixed=True)
    state.load(reading, [4] * 3)

    def step() -> None:
        state.step(given[2][:, :1].expand(-1, 2))
        state.select(torch.zeros(3, 2, dtype=torch.long))

    TapeRecorder().record(step)

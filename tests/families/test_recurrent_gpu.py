"""Recurrent encoder-decoders on a GPU: its kernels against a CPU's; searches and training steps recorded, and run plainly."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.algorithm import sessions_on
from regard.model.probe import probe
from regard.training.compile import StepGraphs
from tests.decode.searches import beam_search
from tests.families.recurrent_models import CHOICES, EOS, SOS, WORDS, built, inputs, named

pytestmark = pytest.mark.gpu
MORE = [*CHOICES, dict(cell="lstm", input_feeding=True, visibility="window(2)", layers=2)]


@dataclass(frozen=True)
class Batch:
    source: Tensor
    lengths: Tensor
    target: Tensor


def gradients(model, given: tuple[Tensor, ...]) -> list[Tensor]:
    logits = model(*given)
    return [logits, *torch.autograd.grad(F.cross_entropy(logits.flatten(0, 1), given[2].flatten()), list(model.parameters()))]


@pytest.mark.parametrize("choice", MORE, ids=named)
@pytest.mark.parametrize("training", [False, True])
def test_a_gpu_computes_what_a_cpu_does(choice, training):
    """Also the gradients of a model that only answers, which importance by gradient asks for."""
    model = built(**choice).train(training)
    on_cpu = gradients(model, inputs())
    with torch.backends.cudnn.flags(allow_tf32=False):  # else its recurrent kernels round to ten bits
        on_gpu = gradients(copy.deepcopy(model).cuda(), tuple(part.cuda() for part in inputs()))
    for a, b in zip(on_gpu, on_cpu):
        torch.testing.assert_close(a.cpu(), b, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("choice", MORE, ids=named)
def test_half_precision_is_near_whole_on_a_gpu(choice):
    model, given = built(**choice).cuda().train(), tuple(part.cuda() for part in inputs())
    with torch.autocast("cuda", torch.bfloat16):
        half = model.hidden(*given)
    assert half.dtype == torch.bfloat16
    half.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(half.float(), model.hidden(*given), atol=0.05, rtol=0.1)


@pytest.mark.parametrize("choice", MORE, ids=named)
def test_recorded_searches_find_what_a_cpu_finds(choice):
    model = built(seed=4, **choice)
    on_gpu, sessions = copy.deepcopy(model).cuda(), sessions_on(torch.device("cuda"))
    words = dict(sos=SOS, eos=EOS, beam=3, alpha=0.6, n_best=2, banned=(0, SOS))
    for batch in (3, 5, 3):
        source, lengths, _ = inputs(batch=batch)
        limits = [12 + 5 * n for n in range(batch)]
        expected = beam_search(model.start(source, lengths), limits=limits, **words)
        found = beam_search(on_gpu.start(source.cuda(), lengths.cuda()), limits=limits, sessions=sessions, **words)
        for some, others in zip(found, expected, strict=True):
            assert [one.ids for one in some] == [one.ids for one in others]


@pytest.mark.parametrize("choice", MORE, ids=named)
def test_a_training_step_is_recorded(choice):
    model = built(**choice).cuda().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True)
    recordings, losses = StepGraphs(torch.device("cuda")), torch.zeros(8, device="cuda")
    plain, theirs = copy.deepcopy(model), torch.zeros(8, device="cuda")
    other = torch.optim.Adam(plain.parameters(), lr=1e-3, fused=True, capturable=True)
    latest = torch.zeros((), device="cuda")

    def step(model, optimizer, given: Batch) -> None:
        loss = F.cross_entropy(model(given.source, given.lengths, given.target).flatten(0, 1), given.target.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        latest.copy_(loss.detach())

    for n in range(8):
        given = Batch(*(part.cuda() for part in inputs()))
        recordings.learn(given, lambda batch: step(model, optimizer, batch))
        losses[n] = latest
        step(plain, other, given)
        theirs[n] = latest
    assert recordings.captured
    torch.testing.assert_close(losses, theirs, atol=1e-3, rtol=1e-3)


def test_a_probe_sees_on_a_gpu_what_it_sees_on_a_cpu():
    model = built(attention="bahdanau", cell="gru")
    seen = []
    for device in ("cpu", "cuda"):
        with torch.no_grad(), probe(model.to(device)) as found:
            model(*(part.to(device) for part in inputs()))
        seen.append(found["decoder.0.cross"].weights().cpu())
    torch.testing.assert_close(*seen, atol=1e-4, rtol=1e-3)
    assert seen[0].shape[-1] <= WORDS

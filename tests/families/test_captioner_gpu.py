"""Captioners on a GPU: its kernels against a CPU's; searches recorded and run plainly; training steps recorded."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
import torch

from regard.data.batching.captions import EncodedCaptions, make_batch
from regard.data.batching.pairs import Ragged
from regard.decode.algorithm import sessions_on
from regard.objectives.captioning import CaptioningConfig, CaptioningLoss
from regard.training.compile import StepGraphs
from tests.decode.searches import beam_search
from tests.families.test_captioner import built, images

pytestmark = pytest.mark.gpu
MADE = list(product(["cnn", "patches"], ["lstm", "transformer"]))
made = pytest.mark.parametrize(("encoder", "decoder"), MADE)


def batch():
    data = EncodedCaptions(images(2).numpy(), np.array([0, 1]), Ragged([[4, 5, 6], [7, 8]]))
    return make_batch(data, np.array([0, 1]))


@made
@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_a_gpu_computes_what_a_cpu_does(encoder, decoder, coverage):
    model = built(encoder, decoder, layers=2).train()
    loss, found = CaptioningLoss(CaptioningConfig(coverage=coverage)), []
    with torch.backends.cudnn.flags(allow_tf32=False):  # else its convolutions round to ten bits
        for device in ("cpu", "cuda"):
            one = copy.deepcopy(model).to(device)
            total = loss(one, batch().to(torch.device(device))).total
            found.append([total, *torch.autograd.grad(total, list(one.parameters()))])
    for a, b in zip(*found):
        torch.testing.assert_close(b.cpu(), a, atol=1e-3, rtol=1e-3)


@made
def test_half_precision_is_near_whole(encoder, decoder):
    model, given = built(encoder, decoder).cuda().train(), batch().to(torch.device("cuda")).inputs
    with torch.autocast("cuda", torch.bfloat16):
        half = model.hidden(*given)
    half.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(half.float(), model.hidden(*given), atol=0.1, rtol=0.1)


@made
def test_recorded_searches_find_what_a_cpu_finds(encoder, decoder):
    model = built(encoder, decoder)
    on_gpu, sessions = copy.deepcopy(model).cuda(), sessions_on(torch.device("cuda"))
    words = dict(sos=1, eos=2, beam=3, alpha=0.6, n_best=2, banned=(0, 1))
    with torch.backends.cudnn.flags(allow_tf32=False):
        for count in (3, 5, 3):
            pixels, limits = images(count, seed=count), [8 + 3 * n for n in range(count)]
            expected = beam_search(model.start(pixels), limits=limits, **words)
            found = beam_search(on_gpu.start(pixels.cuda()), limits=limits, sessions=sessions, **words)
            for some, others in zip(found, expected, strict=True):
                assert [one.ids for one in some] == [one.ids for one in others]


@made
@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_recorded_steps_learn_what_plain_ones_do(encoder, decoder, coverage):
    device, loss = torch.device("cuda"), CaptioningLoss(CaptioningConfig(coverage=coverage))
    results = []
    for recorded in (False, True):
        model = built(encoder, decoder).cuda().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

        def learn(given, model=model, optimizer=optimizer):
            loss(model, given).total.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        recordings = StepGraphs(device)
        for _ in range(8):
            given = batch().to(device)
            if recorded:
                recordings.learn(given, learn)
            else:
                learn(given)
        results.append([p.detach().clone() for p in model.parameters()])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)

"""The captioner's loss against torch's own cross-entropy, and doubly stochastic attention against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.data.batching.captions import EncodedCaptions, ImageBatch, make_batch
from regard.data.batching.pairs import Ragged
from regard.families.captioner import Captioner, CaptionerConfig
from regard.model.probe import probe
from regard.objectives.captioning import CaptioningConfig, CaptioningLoss
from tests.decode.tape import TapeRecorder

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
DATA = EncodedCaptions(IMAGES, np.array([0, 1]), Ragged([[4, 5, 6], [7]]))


def model(decoder: str = "lstm") -> Captioner:
    blocks = {} if decoder == "lstm" else dict(heads=2, feedforward=16)
    config = CaptionerConfig(decoder=decoder, width=8, layers=2, image_size=8, patch=4, dropout=0.0, mixer="additive", **blocks)
    return Captioner(config, 12, seed=2)


def batch() -> ImageBatch:
    return make_batch(DATA, np.array([0, 1]))


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_words_are_scored_as_ever(decoder: str) -> None:
    captioner, given = model(decoder).eval(), batch()
    loss = CaptioningLoss(CaptioningConfig(smoothing=0.1, coverage=3.0))(captioner, given)
    logits, targets = captioner(*given.inputs).flatten(0, 1), given.target_out_BL.flatten()
    words = targets != 0
    for found, smoothing in ((loss.total, 0.1), (loss.parts["nll"], 0.0)):
        expected = F.cross_entropy(logits[words], targets[words], reduction="sum", label_smoothing=smoothing)
        torch.testing.assert_close(found, expected)
    assert loss.count == 6


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_coverage_is_equation_14_and_is_learned_from(decoder: str) -> None:
    captioner, given = model(decoder).train(), batch()
    plain = CaptioningLoss(CaptioningConfig())(captioner, given).total
    loss = CaptioningLoss(CaptioningConfig(coverage=2.5))(captioner, given)
    with torch.no_grad(), probe(captioner) as seen:
        captioner(*given.inputs)
    cross = [seen[name].weights() for name in seen if name.endswith("cross")]
    assert len(cross) == (1 if decoder == "lstm" else 2)
    expected = 0.0
    for row, words in ((0, 4), (1, 2)):  # <eos> counted, padding not
        for cell in range(4):
            looked = sum(float(w[row, :, word, cell].mean()) for w in cross for word in range(words)) / len(cross)
            expected += (1 - looked) ** 2
    torch.testing.assert_close(loss.total - plain, torch.tensor(2.5 * expected), atol=1e-4, rtol=1e-4)
    (loss.total - plain).backward()
    gradients = {name: p.grad for name, p in captioner.named_parameters() if p.grad is not None}
    assert any("cross" in name or "aligner" in name for name, grad in gradients.items() if grad.abs().sum() > 1e-6)
    assert not captioner.writer.head.project.weight.grad.isnan().any()


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_a_step_asks_the_host_for_nothing(decoder: str, coverage: float) -> None:
    captioner, loss, given = model(decoder).train(), CaptioningLoss(CaptioningConfig(coverage=coverage)), batch()

    def step() -> None:
        loss(captioner, given).total.backward()

    TapeRecorder().record(step)


def test_settings() -> None:
    with pytest.raises(UserError, match=r"objective\.coverage=-1"):
        CaptioningConfig(coverage=-1)
    with pytest.raises(UserError, match=r"objective\.smoothing=1"):
        CaptioningConfig(smoothing=1.0)

"""Denoising is the loss of sequence to sequence on pairs of noised passages; its settings are refused where they mean nothing."""

from __future__ import annotations

import pytest
import torch

from regard.core.config import build
from regard.core.errors import UserError
from regard.data.batching.denoising import NoisedPassages
from regard.families.transformer import Transformer, TransformerConfig
from regard.objectives.denoising import DenoisingConfig, denoising_loss
from tests.data.batching.test_denoising import source


def batches() -> NoisedPassages:
    return source([list(range(4, 40)), list(range(10, 30))], "infilling")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_targets(smoothing: float) -> None:
    model = Transformer(TransformerConfig(width=8, heads=2, layers=1, feedforward=8), 1100, 1100, seed=1).eval()
    data = batches()
    batch = data.batch(data.plan(0)[0], 0)
    loss = denoising_loss(DenoisingConfig(smoothing=smoothing))(model, batch)
    chosen = model(*batch.inputs).log_softmax(-1).gather(-1, batch.target_out_BL[..., None])[..., 0]
    expected = -chosen[batch.target_out_BL != 0].sum()
    torch.testing.assert_close(loss.parts["nll"], expected, rtol=1e-5, atol=1e-4)
    assert loss.count == batch.tokens
    assert bool(smoothing) == (loss.total.item() != pytest.approx(expected.item(), rel=1e-6))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"noise_rate": 0.0}, r"objective.noise_rate=0.0 must be between 0 and 1"),
        ({"noise_rate": 1.0}, r"objective.noise_rate=1.0"),
        ({"noise_rate": float("nan")}, r"objective.noise_rate=nan"),
        ({"mean_span": 0.5}, r"objective.mean_span=0.5 must be at least 1"),
        ({"mean_span": float("inf")}, r"objective.mean_span=inf"),
        ({"smoothing": 1.0}, r"objective.smoothing=1.0"),
        ({"noise": "spam_corruption"}, r"did you mean 'span_corruption'"),
        ({"noise": 3}, r"objective.noise=3 must be text"),
        ({"mask_random": 0.1}, r"objective.mask_random=0.1 puts words in place of masks, and objective.noise=span_corruption"),
        ({"mask_random": 1.0, "noise": "infilling"}, r"objective.mask_random=1.0"),
        ({"mask_rate": 0.1}, r"objective.mask_rate is not a setting"),
    ],
)
def test_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        build(DenoisingConfig, settings, "objective")

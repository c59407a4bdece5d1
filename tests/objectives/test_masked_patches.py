"""The loss of masked patches by hand; tests/interop/huggingface/test_vit_mae.py compares it with transformers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.core.errors import UserError
from regard.objectives.masked_patches import MaskedPatchesConfig, MaskedPatchesLoss, fixed_noise, normalised, shown


class Guess(nn.Module):
    """Says zero of every number."""

    def targets(self, image_BYXC):
        return image_BYXC.float().flatten(1, 2)

    def forward(self, image_BYXC, shown_BS):
        self.shown = shown_BS
        return torch.zeros_like(self.targets(image_BYXC))


def batch(images: int = 5):
    g = torch.Generator().manual_seed(0)
    return SimpleNamespace(images=lambda: torch.rand(images, 4, 4, 3, generator=torch.Generator().manual_seed(1)), g=g)


def test_only_hidden_patches_count() -> None:
    model, loss = Guess().eval(), MaskedPatchesLoss(MaskedPatchesConfig(normalised=False))
    found = loss(model, batch())
    squares = batch().images().flatten(1, 2).square().mean(-1)
    expected = 0.0
    for row, kept in zip(squares, model.shown.tolist()):
        expected += sum(float(value) for n, value in enumerate(row) if n not in kept) / (16 - len(kept))
    assert len(model.shown[0]) == 4
    assert found.count == 5
    assert float(found.total) == pytest.approx(expected, rel=1e-5)


def test_masks_are_drawn_by_the_seed_in_training_and_fixed_in_validation() -> None:
    model, loss = Guess(), MaskedPatchesLoss(MaskedPatchesConfig())
    seen = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        loss(model.train(), batch())
        seen.append(model.shown)
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    torch.manual_seed(7)
    loss(model.eval(), batch())
    first, _ = model.shown, torch.rand(3)
    loss(model, batch())
    assert torch.equal(model.shown, first)
    assert len({tuple(row) for row in first.tolist()}) > 1


@given(st.integers(2, 40), st.floats(0.01, 0.99))
def test_some_cells_are_shown_and_some_hidden(cells: int, rate: float) -> None:
    found = shown(fixed_noise(3, cells), rate)
    assert 1 <= found.shape[1] < cells
    assert all(len(set(row)) == len(row) for row in found.tolist())
    assert abs(found.shape[1] - cells * (1 - rate)) < 1 or found.shape[1] in (1, cells - 1)


def test_a_normalised_patch_has_mean_zero_and_variance_one() -> None:
    found = normalised(torch.rand(2, 3, 50) * 7 + 3)
    torch.testing.assert_close(found.mean(-1), torch.zeros(2, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.var(-1), torch.ones(2, 3), atol=1e-4, rtol=0)
    assert normalised(torch.ones(1, 1, 5)).isfinite().all()


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0])
def test_rates_that_hide_nothing_or_all_are_refused(rate: float) -> None:
    with pytest.raises(UserError, match=r"objective\.mask_rate"):
        MaskedPatchesConfig(mask_rate=rate)

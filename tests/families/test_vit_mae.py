"""The masked autoencoder: its encoder is a ViT that sees what is shown, its decoder restores the rest; settings.

tests/interop/huggingface/test_vit_mae.py compares both, and the loss, with transformers.
"""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.families.vit import ViT
from regard.families.vit_mae import MaskedAutoencoder, ViTMAEConfig

SMALL = dict(width=16, heads=2, feedforward=24, layers=2, image_size=12, patch=4)
SMALL |= dict(decoder_width=8, decoder_layers=1, decoder_heads=2, decoder_feedforward=12)
SHOWN = torch.tensor([[0, 4, 7], [8, 2, 3]])


def built(**choices) -> MaskedAutoencoder:
    return MaskedAutoencoder(ViTMAEConfig(**(SMALL | choices)), seed=3).eval()


def images() -> torch.Tensor:
    return torch.randint(0, 256, (2, 12, 12, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_its_encoder_is_a_vit_by_name_and_by_value() -> None:
    model = built()
    vit = ViT(model.config.body_settings, 5, seed=9).eval()
    found = vit.load_state_dict(model.state_dict(), strict=False)
    assert {name.partition(".")[0] for name in found.missing_keys} == {"classes"}
    assert {name.partition(".")[0] for name in found.unexpected_keys} == {"decoder"}
    assert torch.equal(vit.hidden(images()), model.hidden(images()))


def test_what_is_hidden_changes_nothing_and_what_is_shown_changes_all() -> None:
    model, before = built(), images()
    hidden, seen = before.clone(), before.clone()
    hidden[0, 8:, :4] = 0  # cell 6 of the first image
    seen[0, :4, :4] = 0  # cell 0, which is shown
    restored = model(before, SHOWN)
    assert restored.shape == (2, 9, 48)
    assert torch.equal(model(hidden, SHOWN), restored)
    assert (model(seen, SHOWN)[0] - restored[0]).abs().amax(-1).min() > 0
    assert torch.equal(model(seen, SHOWN)[1], restored[1])


def test_the_order_of_what_is_shown_means_nothing() -> None:
    model = built(position="rotary", heads=4)
    torch.testing.assert_close(model(images(), SHOWN.flip(1)), model(images(), SHOWN))


def test_targets_are_the_numbers_of_patches() -> None:
    model = built(pixel_mean=(0.2, 0.3, 0.4))
    targets = model.targets(images())
    torch.testing.assert_close(model.embed.cells.image(targets, 3), images().float(), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (dict(tokens="convolutions", patch=16), "cannot be restored"),
        (dict(patch=12), "the whole image"),
        (dict(decoder_width=10), "multiple of 4"),
        (dict(decoder_heads=3), "does not divide"),
        (dict(decoder_layers=0), "model.decoder_layers"),
    ],
)
def test_settings_that_cannot_be_are_refused(choices: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        ViTMAEConfig(**(SMALL | choices))

"""Visual question answering: each question about its own image, words that attend to cells, settings that are refused."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.vqa import VQA, VQAConfig
from regard.model.probe import probe


def built(**keys) -> VQA:
    config = VQAConfig(**(dict(width=16, heads=2, layers=2, feedforward=24, image_size=16, patch=4, dropout=0.0) | keys))
    return VQA(config, 20, heads=Heads(words=False, classes=5)).eval()


IDS, LENGTHS = torch.randint(4, 20, (3, 6), generator=torch.Generator().manual_seed(1)), torch.tensor([6, 2, 4])
IMAGES = torch.randint(256, (2, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("encoder", ["cnn", "patches"])
def test_each_question_is_about_the_image_that_it_names(encoder: str) -> None:
    model, owner = built(encoder=encoder), torch.tensor([1, 0, 1])
    found = model(IDS, LENGTHS, IMAGES, owner)
    assert found.shape == (3, 5)
    torch.testing.assert_close(model(IDS, LENGTHS, IMAGES[owner]), found, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(model(IDS, LENGTHS, IMAGES, 1 - owner), found, atol=1e-4)


def test_weights_of_words_over_cells_are_the_mean_of_layers_and_heads() -> None:
    model = built()
    with probe(model) as seen:
        model(IDS, LENGTHS, IMAGES, torch.tensor([1, 0, 1]))
    expected = sum(seen[f"decoder.{n}.cross"].weights().mean(1) for n in range(2)) / 2
    torch.testing.assert_close(model.image_weights(seen), expected)
    torch.testing.assert_close(expected.sum(-1), torch.ones(3, 6))
    assert set(seen) == set(model.config.attentions)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"image_size": 15}, "model.image_size=15 is not a multiple"),
        ({"patch": 12, "image_size": 48}, "model.patch=12 cannot be halved"),
        ({"patch": 1}, "at least 2 pixels"),
        ({"encoder_layers": 2}, "for model.encoder=patches"),
        ({"visibility": "window(2)"}, "for model.encoder=patches"),
        ({"mixer": "favor"}, "does not score single cells"),
        ({"position": "rotary"}, "not for images"),
        ({"width": 18}, "multiple of 4"),
    ],
)
def test_settings_that_cannot_be_are_refused(keys, said: str) -> None:
    with pytest.raises(UserError, match=said):
        built(**keys)

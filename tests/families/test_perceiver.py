"""The Perceiver: linear cost counted, released sizes, settings that would do nothing, and every kind of input in training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.perceiver import Perceiver, PerceiverConfig
from regard.model.probe import probe
from tests.families.counting import count

CLASSES = Heads(words=False, classes=4)
SMALL = dict(width=16, latents=4, layers=1, heads=2)


def small(**keys) -> PerceiverConfig:
    return PerceiverConfig(**{**SMALL, **keys})


def test_operations_grow_linearly_with_the_input() -> None:
    config = PerceiverConfig(reads="text", width=64, latents=16, layers=2, heads=4, maximum_length=8192)
    flops = [count(config, 262, length, heads=Heads(words=False, classes=2)).flops for length in (1024, 2048, 4096)]
    assert flops[2] - flops[1] == 2 * (flops[1] - flops[0])


def test_all_latents_and_queries_are_seen_by_a_probe() -> None:
    model = Perceiver(small(image_size=8, bands=2, blocks=2), 1, heads=CLASSES)
    with probe(model) as seen:
        model(torch.zeros(1, 8, 8, 3, dtype=torch.uint8))
    assert set(seen) == set(model.config.attentions)


def test_a_series_learns_what_comes() -> None:
    """Sums of two waves: with eight times to come, the error falls far below that of the mean."""
    torch.manual_seed(0)
    config = PerceiverConfig(
        reads="series", width=32, latents=8, layers=1, heads=2, bands=8, maximum_length=24, horizon=8, numbers=2, deviation=0.1
    )
    model = Perceiver(config, 1, seed=1)
    learner = torch.optim.Adam(model.parameters(), 5e-3)
    phase = 6.28 * torch.rand(64, 1, 2)
    waves = torch.sin(0.5 * torch.arange(32.0)[None, :, None] + phase)
    for _ in range(100):
        loss = F.mse_loss(model(waves[:, :24]), waves[:, 24:])
        learner.zero_grad()
        loss.backward()
        learner.step()
    assert loss < 0.2 * waves[:, 24:].var()


def test_masked_tokens_are_answered_at_their_own_place() -> None:
    """A copy is learned: every position says the token that stands there."""
    torch.manual_seed(0)
    config = PerceiverConfig(
        reads="text",
        positions="learned",
        width=32,
        latents=8,
        layers=1,
        heads=2,
        input_width=32,
        maximum_length=6,
        deviation=0.1,
    )
    model = Perceiver(config, 9, seed=1)
    learner, ids, lengths = torch.optim.Adam(model.parameters(), 5e-3), torch.randint(4, 9, (32, 6)), torch.full((32,), 6)
    for _ in range(100):
        loss = F.cross_entropy(model(ids, lengths).flatten(0, 1), ids.flatten())
        learner.zero_grad()
        loss.backward()
        learner.step()
    assert (model(ids, lengths).argmax(-1) == ids).float().mean() > 0.9


def test_an_answer_is_traced_to_the_image() -> None:
    config = small(reads="both", image_size=8, bands=2, input_width=12, maximum_length=9, blocks=2, readings=2)
    model, ids, lengths = Perceiver(config, 20, heads=CLASSES).eval(), torch.randint(4, 20, (3, 5)), torch.tensor([5, 2, 3])
    images = torch.randint(256, (2, 8, 8, 3), dtype=torch.uint8)
    with probe(model) as seen:
        model(ids, lengths, images, torch.tensor([0, 1, 1]))
    weights = model.image_weights(seen)
    assert weights.shape == (3, 1, 64)
    assert (weights >= 0).all()
    assert (weights.sum(-1) < 1).all()  # the rest is attention to words


def test_a_step_is_one_graph() -> None:
    torch._dynamo.reset()
    model = Perceiver(small(image_size=8, bands=2, blocks=2, shared="after_first"), 1, heads=CLASSES)
    image = torch.randint(256, (2, 8, 8, 3), dtype=torch.uint8)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="eager")(image), model(image))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"reads": "text", "stem": True}, "model.stem=True is for model.reads=image"),
        ({"reads": "text", "image_size": 16}, "model.image_size=16 is for model.reads=image"),
        ({"reads": "series", "colours": 1}, "model.colours=1 is for model.reads=image"),
        ({"horizon": 3}, "model.horizon=3 is for model.reads=series"),
        ({"numbers": 3}, "model.numbers=3 is for model.reads=series"),
        ({"reads": "series", "horizon": -1}, "model.horizon=-1"),
        ({"stem": True, "image_size": 30}, "must be a multiple of 4"),
        ({"positions": "learned", "bands": 5}, "model.bands=5 is for model.positions=fourier"),
        ({"decoder_heads": 3}, "model.decoder_heads=3 does not divide a width of 16"),
        ({"decoder_qk_width": -4}, "model.decoder_qk_width"),
        ({"cross_heads": 2}, "model.cross_heads=2 does not divide a width of 261"),
        ({"deviation": 1.0}, "model.deviation=1.0"),
        ({"pixel_mean": (0.1, 0.2)}, "model.pixel_mean has 2 numbers"),
    ],
)
def test_settings_that_cannot_be_or_do_nothing_are_refused(keys, said: str) -> None:
    with pytest.raises(UserError, match=said):
        small(**keys)

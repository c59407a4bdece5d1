"""The Image Transformer beside GPT, which it is where positions are those of a sequence; neighbours, classes and settings."""

import re

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.config import Sampling
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families.gpt import GPT, GPTConfig
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.model.sparse import dispatch

SMALL = dict(width=24, heads=2, layers=2, feedforward=32, dropout=0.0)


def config(**choices) -> ImageTransformerConfig:
    return ImageTransformerConfig(**(SMALL | dict(image_size=4, pixels="grey", levels=9) | choices))


def test_without_a_grid_it_is_a_gpt():
    ours = ImageTransformer(config(grid=False, position="learned", activation="gelu_tanh"), 3).eval()
    gpt = GPT(GPTConfig(**SMALL, maximum_length=16, tie="none"), 10).eval()
    weights = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    weights["head.project.weight"] = torch.cat([weights["head.project.weight"], torch.zeros(1, 24)])
    gpt.load_state_dict(weights)
    ids = ours.order.ids(torch.randint(9, (3, 15)))
    torch.testing.assert_close(ours(ids), gpt(ids)[..., :9])


@torch.no_grad()
def test_a_neighbourhood_hides_what_lies_outside_of_it():
    """In rows of 8 tokens the last pixel sees its own 2 x 4 block and one row and two columns around it, and nothing else."""
    model = ImageTransformer(config(image_size=8, layers=1, visibility="image-local-2d(8, 2, 4, 1, 2)"), 3).eval()
    level = torch.randint(9, (1, 63))
    ids = model.order.ids(level)
    last = model(ids)[0, -1]
    for at in range(64):
        other = ids.clone()
        other[0, at] = (ids[0, at] + 1) % 9
        row, column = divmod(at, 8)
        seen = row >= 5 and column >= 2
        assert torch.equal(model(other)[0, -1], last) != seen, (row, column)


@torch.no_grad()
@pytest.mark.parametrize("visibility", ["image-local-1d(16, 16)", "image-local-2d(24, 4, 12, 4, 12)"])
def test_blocks_compute_what_the_mask_does(visibility, monkeypatch):
    """With a small image before it, which everything sees."""
    model = ImageTransformer(config(image_size=8, pixels="rgb", small=4, visibility=visibility), 3).eval()
    ids = model.order.ids(torch.randint(9, (2, 191)), None, torch.randint(9, (2, 48)))
    dense = model(ids)
    monkeypatch.setitem(dispatch.SHORTEST, "cpu", 1)
    monkeypatch.setitem(dispatch.PAIR, "cpu", {8: 0.1})
    view = model.visibility.over(ids.shape[1], ids.shape[1], device=ids.device)
    assert view.by_blocks
    torch.testing.assert_close(model(ids), dense, atol=2e-5, rtol=1e-4)


def test_a_class_and_a_small_image_change_what_is_drawn():
    model = ImageTransformer(config(classes=3, small=2), 3).eval()
    level, small = torch.randint(9, (1, 16)), torch.randint(9, (1, 4))
    first, second = (model(model.order.ids(level, torch.tensor([c]), small))[0, 4:] for c in (0, 1))
    assert not torch.allclose(first, second)
    other = model(model.order.ids(level, torch.tensor([0]), (small + 1) % 9))[0, 4:]
    assert not torch.allclose(first, other)


def test_a_logistic_head_gives_log_probabilities_and_a_coupled_one_its_numbers():
    ids = torch.randint(9, (2, 5))
    single = ImageTransformer(config(output="logistic"), 3)(ids)
    assert single.shape == (2, 5, 9)
    torch.testing.assert_close(single.exp().sum(-1), torch.ones(2, 5))
    coupled = ImageTransformer(config(pixels="rgb", output="logistic", coupled=True, mixtures=4), 3)(ids)
    assert coupled.shape == (2, 5, 40)


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (dict(levels=1), "model.levels=1"),
        (dict(levels=257), "more than the 256 levels"),
        (dict(pixels="palette", levels=40_000), "32,768"),
        (dict(pixels="palette", output="logistic"), "have none; give model.output=categorical"),
        (dict(mixtures=4), "model.mixtures=4 is for model.output=logistic"),
        (dict(coupled=True), "model.coupled=true is for"),
        (dict(coupled=True, output="logistic"), "model.coupled=true is for"),
        (dict(small=3), "one of its divisors, such as 2"),
        (dict(small=4), "model.small=4"),
        (dict(small=-1), "model.small=-1"),
        (dict(classes=-1), "model.classes=-1"),
        (dict(image_size=0), "model.image_size=0"),
        (dict(maximum_length=99), "model.maximum_length=99 is for texts"),
        (dict(grid=False, position="rotary"), "model.grid=false is for"),
        (dict(width=26, heads=2), "model.width=26 must be a multiple of 4"),
        (dict(visibility="image-local-2d(8, 2, 2, 2, 2)"), "rows of 8 tokens, and an image of 4 x 4 pixels has 4"),
        (dict(visibility="block(2) | image-local-2d(5, 2, 2, 2, 2)"), "rows of 5 tokens"),
    ],
)
def test_settings_that_do_not_fit(choices, told):
    with pytest.raises(UserError, match=re.escape(told)):
        config(**choices)


def test_the_summary_says_what_a_pixel_is():
    assert config().summary.startswith("4 x 4 pixels of 9 grey levels, width 24")
    assert config(pixels="palette").summary.startswith("4 x 4 pixels of 9 colours")
    assert config(pixels="rgb").context == 48


@torch.no_grad()
def test_means_of_logistics_are_not_rounded_to_bf16():
    """Half a level of 256 is 0.004, and bf16 knows numbers near 1 to 0.004: the head alone stays in float32."""
    model = ImageTransformer(config(output="logistic", levels=256), 3).eval()
    x = torch.randn(2, 5, 24)
    with torch.autocast("cpu", torch.bfloat16):
        numbers = model.numbers(x)
    assert numbers.dtype == torch.float32
    torch.testing.assert_close(numbers, model.head(x))


@torch.no_grad()
@pytest.mark.parametrize("mixer", [dict(), dict(mixer="linear-relu"), dict(mixer="favor", features=8), dict(mixer="conv")])
def test_every_mixer_draws_from_nothing(mixer):
    """A start token alone: before it nothing is read. What is drawn is as likely in one pass."""
    model = ImageTransformer(config(**mixer), 3).eval()
    start = model.order.ids(torch.zeros(2, 0, dtype=torch.long))
    encoded = model.start(start[:, :0], torch.tensor([0, 0]))
    request = SearchRequest(encoded=encoded, sos=start[:, 0], eos=-1, limits=[16, 16], method=Sampling(), seeds=[1, 2])
    for (found,) in search(request):
        level = torch.tensor([found.ids])
        shares = model(model.order.ids(level)[:, :-1]).log_softmax(-1)
        likely = shares.gather(-1, level[..., None]).sum()
        torch.testing.assert_close(torch.tensor(found.logprob), likely, atol=1e-3, rtol=1e-4)

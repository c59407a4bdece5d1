"""ViT against torch's own encoder layers with copied weights, its settings, probes, other sizes of images, and drop-path."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.core.errors import UserError
from regard.families.base import Heads, Sizes
from regard.families.vit import FAMILY, ViT, ViTConfig
from regard.model.probe import probe
from tests.families.counting import count

SMALL = dict(width=16, heads=2, feedforward=24, layers=2, image_size=12, patch=4)


def built(classes: int = 3, **choices) -> ViT:
    return ViT(ViTConfig(**(SMALL | choices)), classes, seed=2).eval()


def images(rows: int = 12, columns: int = 12, batch: int = 2) -> torch.Tensor:
    return torch.randint(0, 256, (batch, rows, columns, 3), generator=torch.Generator().manual_seed(rows), dtype=torch.uint8)


def plain(model: ViT, x: torch.Tensor) -> torch.Tensor:
    """The paper's equations 1 to 4, by torch's layers."""
    c = model.config
    for block in model.encoder.blocks:
        layer = nn.TransformerEncoderLayer(
            c.width, c.heads, c.feedforward, 0.0, F.gelu, c.norm_epsilon, batch_first=True, norm_first=True
        ).eval()
        own = block.self_attention
        layer.self_attn.in_proj_weight.data, layer.self_attn.in_proj_bias.data = own.project.weight.data, own.project.bias.data
        layer.self_attn.out_proj.load_state_dict(own.out.state_dict())
        layer.linear1.load_state_dict(block.feedforward.expand.state_dict())
        layer.linear2.load_state_dict(block.feedforward.contract.state_dict())
        layer.norm1.load_state_dict(block["self"].norm.state_dict())
        layer.norm2.load_state_dict(block["ffn"].norm.state_dict())
        x = layer(x)
    return F.layer_norm(x, (c.width,), model.encoder.norm.weight, model.encoder.norm.bias, c.norm_epsilon)


@pytest.mark.parametrize("pooling", ["class", "mean", "sequence"])
def test_it_is_torchs_encoder_over_patches(pooling: str) -> None:
    model = built(pooling=pooling)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3, generator=torch.Generator().manual_seed(p.numel()))
    x = plain(model, model.embed(images()).x_BMD)
    cells = x[:, 1:]
    weights = (cells @ model.pool.query_D).softmax(1)[..., None] if pooling == "sequence" else torch.tensor(1 / 9)
    vector = x[:, 0] if pooling == "class" else (weights * cells).sum(1)
    torch.testing.assert_close(model.hidden(images()), x, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model(images()), model.classes(vector), atol=1e-4, rtol=1e-4)
    assert model.outputs(images()).keys() == {"classes"}


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "none"])
def test_images_of_other_sizes_are_read(position: str) -> None:
    """Also of other shapes; without positions the order of cells means nothing."""
    model = built(position=position, pooling="mean")
    for p in model.parameters():
        nn.init.normal_(p, std=0.3, generator=torch.Generator().manual_seed(p.numel()))
    large = images(8, 20)
    assert model.hidden(large).shape == (2, 1 + 2 * 5, 16)
    upside_down = large.unflatten(1, (2, 4)).flip(1).flatten(1, 2)
    assert torch.allclose(model(large), model(upside_down), atol=1e-5) == (position == "none")


def test_a_model_without_classes_gives_vectors_alone() -> None:
    model = built(classes=0)
    assert model.outputs(images()) == {}
    assert model.hidden(images()).shape == (2, 10, 16)


def test_cells_that_are_left_out_are_not_seen() -> None:
    model, kept = built(position="rotary", heads=4), torch.tensor([[0, 4], [8, 1]])
    other = images().clone()
    other[0, 8:], other[1, :4, :4] = 0, 0
    assert torch.equal(model.hidden(images(), kept), model.hidden(other, kept))
    everything = torch.arange(9).expand(2, -1)
    torch.testing.assert_close(model.hidden(images(), everything), model.hidden(images()))


def test_a_probe_sees_every_attention_and_the_pooling() -> None:
    model = built(pooling="sequence")
    with probe(model) as seen:
        model(images())
    assert list(seen) == ["encoder.0.self", "encoder.1.self", "pooling"]
    weights = seen["encoder.1.self"].weights()
    assert weights.shape == (2, 2, 10, 10)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 10))


def test_drop_path_grows_from_the_first_layer_to_the_last() -> None:
    model = built(layers=3, drop_path=0.4)
    assert [[round(block[name].drop_path, 3) for name in ("self", "ffn")] for block in model.encoder.blocks] == [
        [0.0, 0.0],
        [0.2, 0.2],
        [0.4, 0.4],
    ]
    torch.manual_seed(0)
    model.train()
    found = torch.stack([model(images()) for _ in range(30)])
    assert found.std(0).min() > 0
    assert torch.equal(model.eval()(images()), model.eval()(images()))


def test_its_operations_are_those_of_torchs_counter() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    for choices in ({}, dict(tokens="convolutions", patch=16, token_layers=2), dict(pooling="sequence")):
        model = built(**choices)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
            model(images(batch=1))
        assert count(model.config, 0, 5, heads=Heads(words=False, classes=3)).flops == counter.get_total_flops()


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (dict(position="alibi"), "not for images"),
        (dict(position="sinusoidal-halves"), "not for images"),
        (dict(position="rotary", heads=8), "divides by 4"),
        (dict(position="rotary", rotary_scaling="linear", rotary_factor=2.0), "rotary_scaling=none"),
        (dict(position="sinusoidal", width=18), "multiple of 4"),
        (dict(class_token=False), "nothing to read"),
        (dict(antialias=True, position="none"), "model.antialias=true"),
        (dict(maximum_length=20), "model.image_size"),
        (dict(image_size=13), "does not divide into patches"),
        (dict(pixel_deviation=(0.0,)), "above 0"),
        (dict(deviation=0.0), "model.deviation"),
        (dict(dropout=1.0), "model.dropout"),
    ],
)
def test_settings_that_do_nothing_or_cannot_be_are_refused(choices: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        ViTConfig(**(SMALL | choices))


def test_the_family_builds_what_its_sizes_ask_for() -> None:
    config = ViTConfig(**SMALL)
    sizes = Sizes(vocabulary=0, heads=Heads(words=False, classes=5))
    assert FAMILY.build(config, sizes, 0)(*FAMILY.example(config, sizes, 4)).shape == (4, 5)
    assert config.summary.endswith("3 x 3 patches of 4, pooling class")
    assert config.context == 10

"""Masked autoencoders against transformers, both ways: what is restored and the loss, with the same patches shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.core.errors import UserError
from regard.families import build_model
from regard.interop.huggingface import read_public, write_public
from regard.objectives.masked_patches import MaskedPatchesConfig, MaskedPatchesLoss
from tests.families.public_folder import change_tensors, shaken
from tests.interop.huggingface.test_vit import close, drawn

transformers.utils.logging.set_verbosity_error()
SMALL: dict[str, Any] = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
SMALL |= dict(image_size=16, patch_size=4, decoder_hidden_size=16, decoder_num_hidden_layers=2, decoder_num_attention_heads=2)
SMALL |= dict(decoder_intermediate_size=20)


def peer(folder: Path, architecture: str = "ViTMAEForPreTraining", **more: Any) -> Any:
    torch.manual_seed(0)
    theirs = getattr(transformers, architecture)(transformers.ViTMAEConfig(**(SMALL | more)))
    fixed = {name: p.clone() for name, p in theirs.named_parameters() if "pos" in name}
    theirs = shaken(theirs, 0.2)
    build = transformers.models.vit_mae.modeling_vit_mae.build_2d_sinusoidal_position_embedding
    for name, p in theirs.named_parameters():
        if name in fixed:  # waves, column first, as released weights have them
            p.data = build(4, 4, p.shape[-1], cls_token=True).roll(p.shape[-1] // 2, 1)[None]
    theirs.save_pretrained(folder)
    return theirs.eval()


def opened(folder: Path) -> Any:
    public = read_public(folder)
    model = build_model(public.config, vocabulary=0)
    model.load_state_dict(public.weights)
    return model.eval()


def pixels(image: torch.Tensor) -> torch.Tensor:
    return (image / 127.5 - 1).permute(0, 3, 1, 2)


NOISE = torch.rand(2, 16, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("normalised", [True, False])
def test_the_loss_and_what_is_restored_are_theirs(normalised: bool, tmp_path: Path) -> None:
    theirs, image = peer(tmp_path, norm_pix_loss=normalised), drawn(16, 16)
    with torch.no_grad():
        expected = theirs(pixels(image), noise=NOISE)
    ours = opened(tmp_path)
    assert ours.config.family == "vit_mae"
    loss = MaskedPatchesLoss(MaskedPatchesConfig(normalised=normalised))
    found = loss.of(ours, image, NOISE, ours.targets(image))
    close(ours(image, NOISE.argsort(1)[:, :4]), expected.logits)
    close(found.total / found.count, expected.loss)


@pytest.mark.parametrize("size", [(16, 16), (24, 24), (8, 32)])
def test_the_encoder_alone_is_a_vit(size: tuple[int, int], tmp_path: Path) -> None:
    theirs, image = peer(tmp_path, "ViTMAEModel", mask_ratio=0.0), drawn(*size)
    cells = size[0] * size[1] // 16
    with torch.no_grad():  # in their order of noise, which says nothing where all is shown
        given = theirs(pixels(image), noise=torch.arange(cells).float().expand(2, -1), interpolate_pos_encoding=True)
    ours = opened(tmp_path)
    assert ours.config.family == "vit"
    close(ours.hidden(image), given.last_hidden_state)


def test_what_we_write_transformers_opens(tmp_path: Path) -> None:
    peer(tmp_path / "theirs")
    public = read_public(tmp_path / "theirs")
    weights = {name: tensor * 1.1 for name, tensor in public.weights.items()}
    assert write_public(tmp_path / "ours", public.config, 0, weights) == "ViTMAEForPreTraining"
    again, loading = transformers.ViTMAEForPreTraining.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not loading["missing_keys"] | loading["unexpected_keys"]
    image, ours = drawn(16, 16), build_model(public.config, vocabulary=0).eval()
    ours.load_state_dict(weights)
    with torch.no_grad():
        close(ours(image, NOISE.argsort(1)[:, :4]), again.eval()(pixels(image), noise=NOISE).logits)
    assert read_public(tmp_path / "ours").config == public.config


def test_a_vit_with_waves_is_written_with_its_positions(tmp_path: Path) -> None:
    """A classifier that was fine-tuned from a masked autoencoder."""
    from regard.families.vit import ViTConfig

    config = ViTConfig(width=24, heads=3, feedforward=40, layers=2, image_size=16, patch=4, position="sinusoidal")
    ours = build_model(config, vocabulary=0, seed=1).eval()
    write_public(tmp_path / "ours", config, 0, ours.state_dict())
    theirs = transformers.ViTModel.from_pretrained(tmp_path / "ours").eval()
    image = drawn(16, 16)
    with torch.no_grad():
        close(ours.hidden(image), theirs(pixels(image)).last_hidden_state)


def test_positions_that_were_trained_are_refused(tmp_path: Path) -> None:
    peer(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors["decoder.decoder_pos_embed"].add_(0.1))
    with pytest.raises(UserError, match="decoder_pos_embed is not the table of waves"):
        read_public(tmp_path)

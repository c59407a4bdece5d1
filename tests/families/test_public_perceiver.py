"""Perceivers of transformers with random weights, opened here and written from here: the same logits, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.perceiver import Perceiver, PerceiverConfig
from regard.interop.huggingface import read_public, write_public
from tests.command import regard
from tests.families.public_folder import change_config, shaken

SMALL = dict(num_latents=5, d_latents=32, num_blocks=2, num_self_attends_per_block=2, num_self_attention_heads=4)
WIDE = dict(self_attention_widening_factor=2, cross_attention_widening_factor=3)
WORDS = dict(d_model=24, num_cross_attention_heads=2, qk_channels=8, v_channels=32, max_position_embeddings=17, vocab_size=30)


def masked(**keys: Any) -> Any:
    torch.manual_seed(0)
    return shaken(transformers.PerceiverForMaskedLM(transformers.PerceiverConfig(**{**SMALL, **WIDE, **WORDS, **keys})), 0.2)


def classifier(**keys: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.PerceiverConfig(**SMALL, num_cross_attention_heads=1, num_labels=3, **keys)
    return shaken(transformers.PerceiverForImageClassificationFourier(config), 0.25)


def opened(folder: Path) -> Perceiver:
    public = read_public(folder)
    model = Perceiver(public.config, public.vocabulary, heads=public.heads)  # type: ignore[arg-type]
    model.load_state_dict(public.weights)
    return model.eval()


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(6, 30, (2, 17), generator=torch.Generator().manual_seed(1)), torch.tensor([17, 9])


@torch.no_grad()
@pytest.mark.parametrize("keys", [{}, {"use_query_residual": False, "num_blocks": 1}, {"v_channels": None, "qk_channels": 32}])
def test_masked_bytes_of_transformers_are_ours(tmp_path: Path, keys: dict[str, Any]) -> None:
    peer, (ids, lengths) = masked(**keys), padded()
    peer.save_pretrained(tmp_path)
    mask = torch.arange(17) < lengths[:, None]
    expected = peer(ids, attention_mask=mask).logits
    assert expected.std() > 0.3
    torch.testing.assert_close(opened(tmp_path)(ids, lengths), expected, atol=1e-4, rtol=0)


@torch.no_grad()
def test_our_masked_bytes_are_those_of_transformers(tmp_path: Path) -> None:
    asked = dict(decoder_heads=8, decoder_qk_width=256, decoder_value_width=24)
    config = PerceiverConfig(
        reads="text", positions="learned", input_width=24, maximum_length=17, width=32, latents=5, layers=2, blocks=3, **asked
    )
    model, (ids, lengths) = shaken(Perceiver(config, 30), 0.2), padded()
    write_public(tmp_path / "new", config, 30, model.state_dict())  # type: ignore[arg-type]
    peer = transformers.PerceiverForMaskedLM.from_pretrained(tmp_path / "new").eval()
    expected = model(ids, lengths)
    found = peer(ids, attention_mask=torch.arange(17) < lengths[:, None]).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def theirs_of(image_BYXC: torch.Tensor, config: PerceiverConfig) -> torch.Tensor:
    return config.as_numbers(image_BYXC, torch.float32).permute(0, 3, 1, 2)


@torch.no_grad()
@pytest.mark.parametrize("keys", [{}, {"use_query_residual": False}, WIDE])
def test_image_classes_of_transformers_are_ours_and_back(tmp_path: Path, keys: dict[str, Any]) -> None:
    peer = classifier(**keys)
    peer.save_pretrained(tmp_path / "theirs")
    model, image = opened(tmp_path / "theirs"), torch.randint(256, (2, 12, 16, 3), dtype=torch.uint8)
    expected = peer(pixel_values=theirs_of(image, model.config)).logits
    assert expected.std() > 0.3
    torch.testing.assert_close(model(image), expected, atol=1e-4, rtol=0)
    write_public(tmp_path / "ours", model.config, 0, model.state_dict(), labels=("a", "b", "c"))  # type: ignore[arg-type]
    again = transformers.PerceiverForImageClassificationFourier.from_pretrained(tmp_path / "ours").eval()
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert torch.equal(again(pixel_values=theirs_of(image, model.config)).logits, expected)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cross_attention_shape_for_attention": "q"}, "cross_attention_shape_for_attention"),
        ({"architectures": ["PerceiverForOpticalFlow"]}, "does not know"),
        ({"num_latents": 0}, "num_latents"),
        ({"hidden_act": "quick"}, "hidden_act"),
        ({"num_self_attends_per_block": 3}, "no tensor"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_no_perceiver_here_computes_is_refused(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    masked().save_pretrained(tmp_path)
    change_config(tmp_path, **keys)
    with pytest.raises(UserError, match=said):
        read_public(tmp_path)


def test_a_model_that_transformers_cannot_compute_is_not_written(tmp_path: Path) -> None:
    config = PerceiverConfig(reads="text", positions="learned", input_width=24, maximum_length=17, width=32, latents=5, layers=2)
    with pytest.raises(UserError, match="decoder_heads=1 cannot be written"):
        write_public(tmp_path / "new", config, 30, Perceiver(config, 30).state_dict())  # type: ignore[arg-type]


def test_a_folder_is_opened_imported_and_exported(tmp_path: Path) -> None:
    classifier().save_pretrained(tmp_path / "theirs")
    said = regard("predict", tmp_path / "theirs", "builtin:shapes/test/3")
    assert said.code == 0, said.err
    assert "LABEL_" in said.out
    assert regard("import", tmp_path / "theirs", tmp_path / "run").code == 0
    assert regard("predict", tmp_path / "run", "builtin:shapes/test/3").out == said.out
    assert regard("export", tmp_path / "run", tmp_path / "ours").code == 0
    peer = transformers.PerceiverForImageClassificationFourier.from_pretrained(tmp_path / "ours").eval()
    pixels = torch.randn(2, 3, 12, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(peer(pixel_values=pixels).logits, classifier()(pixel_values=pixels).logits)


def test_a_smaller_model_of_images_is_not_written(tmp_path: Path) -> None:
    config = PerceiverConfig(width=32, latents=5, layers=2, image_size=32)
    with pytest.raises(UserError, match=r"image_size=32 cannot be written"):
        write_public(tmp_path / "new", config, 0, Perceiver(config, 1, heads=Heads(words=False, classes=3)).state_dict())  # type: ignore[arg-type]

"""ImageGPT against transformers, both ways, with weights copied, and the colours of its palette."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from regard.core.errors import UserError
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.interop.huggingface import read_public, write_public
from tests.families.public_folder import shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL: dict[str, Any] = dict(n_embd=24, n_layer=2, n_head=3, n_positions=25, vocab_size=13)
CLUSTERS = (np.random.default_rng(0).random((12, 3)) * 2 - 1).tolist()
IDS = torch.randint(12, (2, 25), generator=torch.Generator().manual_seed(1))


def peer(folder: Path, **more: Any) -> Any:
    """Write a random model and its palette to a folder."""
    torch.manual_seed(0)
    theirs = shaken(transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig(**(SMALL | more))), 0.2)
    theirs.save_pretrained(folder)
    describe(folder)
    return theirs.eval()


def describe(folder: Path, **keys: Any) -> None:
    said = {"clusters": CLUSTERS, "size": {"height": 5, "width": 5}, "do_color_quantize": True} | keys
    (folder / "preprocessor_config.json").write_text(json.dumps(said))


def opened(folder: Path) -> ImageTransformer:
    public = read_public(folder)
    assert public.family == "image_transformer"
    model = ImageTransformer(public.config)
    model.load_state_dict(public.weights)
    return model.eval()


@pytest.mark.parametrize("more", [{}, {"n_inner": 40, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-3}])
@torch.no_grad()
def test_a_folder_of_theirs_gives_their_logits(tmp_path, more):
    theirs, ours = peer(tmp_path, **more), opened(tmp_path)
    ids = ours.order.ids(IDS)[:, :-1]
    assert ids[0, 0] == 12  # their start token is the last of the vocabulary
    torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(ours.palette_VC.numpy(), CLUSTERS, atol=1e-6)


@torch.no_grad()
def test_a_model_of_ours_gives_our_logits_there(tmp_path):
    config = ImageTransformerConfig(
        image_size=4,
        pixels="palette",
        levels=7,
        width=24,
        heads=2,
        layers=2,
        feedforward=30,
        dropout=0.0,
        grid=False,
        position="learned",
        norm="rms",
        activation="quick_gelu",
    )
    ours = shaken(ImageTransformer(config, 3), 0.2).eval()
    ours.palette_VC.copy_(torch.rand(7, 3) * 2 - 1)
    opener = write_public(tmp_path / "out", config, config.order.rows, ours.state_dict())
    assert opener == "ImageGPTForCausalImageModeling"
    theirs = transformers.ImageGPTForCausalImageModeling.from_pretrained(tmp_path / "out").eval()
    ids = ours.order.ids(IDS[:, :16] % 7)[:, :-1]
    torch.testing.assert_close(theirs(ids).logits, ours(ids), atol=1e-4, rtol=1e-4)
    described = json.loads((tmp_path / "out" / "preprocessor_config.json").read_text())
    np.testing.assert_allclose(described["clusters"], ours.palette_VC.numpy(), atol=1e-6)
    assert described["size"] == {"height": 4, "width": 4}
    back = opened(tmp_path / "out")
    torch.testing.assert_close(back(ids), ours(ids))
    assert back.config == config


@torch.no_grad()
def test_their_generation_is_our_search(tmp_path):
    """Greedy, by their cache and ours."""
    from regard.decode.config import GREEDY
    from regard.decode.request import SearchRequest
    from regard.decode.search import search

    theirs, ours = peer(tmp_path), opened(tmp_path)
    start = ours.order.ids(torch.zeros(1, 0, dtype=torch.long))
    found = theirs.generate(start, max_length=26, do_sample=False, pad_token_id=0)[0, 1:]
    encoded = ours.start(start[:, :0], torch.tensor([0]))
    ((hypothesis,),) = search(SearchRequest(encoded=encoded, sos=start[:, 0], eos=-1, limits=[25], method=GREEDY))
    assert hypothesis.ids == found.tolist()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"clusters": CLUSTERS[:5]}, "has 5 clusters, and the model writes 12 colours"),
        ({"clusters": "red"}, "12 lists of 3 numbers"),
        ({"clusters": [*CLUSTERS[:-1], [0, 0]]}, "12 lists of 3 numbers"),
        ({"clusters": [*CLUSTERS[:-1], [0, 0, 200]]}, "from -1 to 1"),
        ({"do_color_quantize": False}, "do_color_quantize=false"),
    ],
)
def test_palettes_that_are_broken(tmp_path, keys, told):
    peer(tmp_path)
    describe(tmp_path, **keys)
    with pytest.raises(UserError, match=told):
        read_public(tmp_path)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"n_positions": 24}, "n_positions=24 is no number of pixels of a square"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"activation_function": "tanh"}, "activation_function"),
    ],
)
def test_configs_that_are_not_ours(tmp_path, more, told):
    peer(tmp_path, **more)
    with pytest.raises(UserError, match=told):
        read_public(tmp_path)


def test_a_folder_without_colours(tmp_path):
    peer(tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match=r"There is no .*preprocessor_config\.json, which has the colours"):
        read_public(tmp_path)


@pytest.mark.parametrize(
    "choices", [{"classes": 2}, {"position": "sinusoidal"}, {"grid": True}, {"pixels": "grey"}, {"norm": "layer"}, {"small": 2}]
)
def test_what_imagegpt_does_not_have_is_not_written(tmp_path, choices):
    base: dict[str, Any] = dict(image_size=4, pixels="palette", levels=7, width=24, heads=2, layers=1, feedforward=30)
    base |= dict(grid=False, position="learned", norm="rms", activation="quick_gelu")
    config = ImageTransformerConfig(**(base | choices))
    model = ImageTransformer(config)
    weights = {"palette_VC": torch.zeros(7, 3)} | model.state_dict()
    with pytest.raises(UserError, match=f"model.{next(iter(choices))}="):
        write_public(tmp_path / "out", config, config.order.rows, weights)
    assert not (tmp_path / "out").exists()

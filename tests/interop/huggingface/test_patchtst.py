"""PatchTST against transformers, both ways, with weights copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.patchtst import PatchTSTConfig
from regard.interop.huggingface import read_public, write_public
from regard.tasks.registry import open_run
from tests.command import regard
from tests.families.public_folder import shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL: dict[str, Any] = dict(d_model=24, num_hidden_layers=2, num_attention_heads=3, ffn_dim=40, num_input_channels=3)
SMALL |= dict(context_length=33, prediction_length=5, patch_length=6, patch_stride=4)
KINDS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "as in the paper": dict(pooling_type=None, positional_encoding_type="random", pre_norm=False),
    "layer norms, relu": dict(norm_type="layernorm", activation_function="relu", pooling_type=None),
    "not scaled": dict(scaling=None, path_dropout=0.1, positional_dropout=0.1, ff_dropout=0.2),
}
PAST = 3 + 2 * torch.randn(2, 33, 3, generator=torch.Generator().manual_seed(0))


def peer(folder: Path, **keys: Any) -> Any:
    torch.manual_seed(0)
    theirs = shaken(transformers.PatchTSTForPrediction(transformers.PatchTSTConfig(**(SMALL | keys))), 0.2)
    for name, buffer in theirs.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    theirs.save_pretrained(folder)
    return theirs.eval()


def said(theirs: Any) -> torch.Tensor:
    with torch.no_grad():
        return theirs(past_values=PAST).prediction_outputs


def opened(folder: Path) -> Any:
    public = read_public(folder)
    assert public.vocabulary == 3
    model = build_model(public.config, vocabulary=0, heads=public.heads)
    model.load_state_dict(public.weights)
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_both_forecast_the_same_and_back_again(kind, tmp_path):
    theirs = peer(tmp_path / "theirs", **KINDS[kind])
    ours = opened(tmp_path / "theirs")
    torch.testing.assert_close(ours(PAST), said(theirs), atol=1e-4, rtol=1e-4)
    name = write_public(tmp_path / "ours", ours.config, 3, ours.state_dict())
    assert name == "PatchTSTForPrediction"
    back, info = transformers.PatchTSTForPrediction.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not [*info["missing_keys"], *info["unexpected_keys"]]
    torch.testing.assert_close(said(back.eval()), said(theirs), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(opened(tmp_path / "ours")(PAST), ours(PAST))


@pytest.mark.parametrize(
    "changed", [dict(scaling="mean"), dict(pooling_type="max"), dict(use_cls_token=True), dict(loss="nll"), dict(bias=False)]
)
def test_what_is_computed_otherwise_is_refused(changed, tmp_path):
    peer(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(UserError, match=next(iter(changed))):
        read_public(tmp_path)


def test_the_authors_version_cannot_be_written(tmp_path):
    config = PatchTSTConfig(lookback=33, horizon=5, width=8, heads=2, layers=1, feedforward=8)
    model = build_model(config, vocabulary=0, heads=Heads(words=False, channels=3))
    with pytest.raises(UserError, match="cannot be written as patchtst"):
        write_public(tmp_path / "ours", config, 3, model.state_dict())


def test_training_begins_with_a_public_folder(tmp_path):
    peer(tmp_path / "theirs")
    data = ["data.train=builtin:series/seasons", "data.limit=200", f"task.init_from={tmp_path / 'theirs'}"]
    (tmp_path / "r.toml").write_text('[task]\nname = "forecasting"\n[train]\nsteps = 1\nlearning_rate = 1e-12\n')
    result = regard("train", tmp_path / "r.toml", *data, "--out", tmp_path / "run", "--device", "cpu")
    assert result.code == 0, result.err
    model, start = open_run(tmp_path / "run", "cpu").model, opened(tmp_path / "theirs")
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(model.parameters(), start.parameters()))

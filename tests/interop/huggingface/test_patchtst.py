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


def table(path: Path, rows: int = 60, names: str = "a,b,c") -> Path:
    values = torch.randn(rows, names.count(",") + 1, generator=torch.Generator().manual_seed(2)).cumsum(0)
    lines = [f"{n}," + ",".join(f"{x:.6f}" for x in row) for n, row in enumerate(values.tolist())]
    path.write_text("\n".join([f"hour,{names}", *lines]) + "\n")
    return path


def test_commands_take_a_public_folder_and_give_one(tmp_path):
    theirs = peer(tmp_path / "theirs")
    csv = table(tmp_path / "load.csv")
    values = torch.tensor([[float(cell) for cell in line.split(",")[1:]] for line in csv.read_text().splitlines()[1:]])
    with torch.no_grad():
        expected = theirs(past_values=values[None, -33:]).prediction_outputs[0]
    settings = ("data.time=none", "data.columns=a,b,c")
    found = regard("predict", tmp_path / "theirs", csv, *settings, "--device", "cpu")
    assert found.code == 0, found.err
    rows = [line.split(",") for line in found.out.splitlines()]
    assert rows[0] == ["step", "a", "b", "c"]
    torch.testing.assert_close(torch.tensor([[float(x) for x in row[1:]] for row in rows[1:]]), expected, atol=1e-4, rtol=1e-4)
    imported = regard("import", tmp_path / "theirs", tmp_path / "run", "--check")
    assert imported.code == 0, imported.err
    assert regard("predict", tmp_path / "run", csv, *settings, "--device", "cpu").out == found.out
    scored = regard("evaluate", tmp_path / "run", f"data.test={csv}", *settings, "--json", "--device", "cpu")
    with torch.no_grad():
        windows = values.unfold(0, 38, 1).mT
        error = theirs(past_values=windows[:, :33]).prediction_outputs - windows[:, 33:]
    assert json.loads(scored.out)["mse"] == pytest.approx(error.square().mean().item(), rel=1e-4)
    assert json.loads(scored.out)["windows"] == 60 - 38 + 1
    exported = regard("export", tmp_path / "run", tmp_path / "ours")
    assert exported.code == 0, exported.err
    back = transformers.PatchTSTForPrediction.from_pretrained(tmp_path / "ours").eval()
    torch.testing.assert_close(said(back), said(theirs), atol=1e-5, rtol=1e-5)


def test_a_trained_run_is_written_with_its_scale(tmp_path):
    recipe = '[task]\nname = "forecasting"\n[model]\nfamily = "patchtst"\nresidual_scores = false\npadded = false\n'
    (tmp_path / "r.toml").write_text(recipe + "lookback = 24\nhorizon = 4\nwidth = 8\nheads = 2\nlayers = 1\n")
    data = ("data.train=builtin:series/seasons", "data.limit=300", "train.steps=1", "train.warmup=0")
    assert regard("train", tmp_path / "r.toml", *data, "--out", tmp_path / "run", "--device", "cpu").code == 0
    told = regard("export", tmp_path / "run", tmp_path / "ours")
    assert told.code == 0, told.err
    assert (tmp_path / "ours" / "scaling.json").read_bytes() == (tmp_path / "run" / "scaling.json").read_bytes()
    assert transformers.PatchTSTConfig.from_pretrained(tmp_path / "ours").num_input_channels == 3
    asked = ("builtin:series/seasons", "data.limit=300", "--device", "cpu")
    same = [regard("predict", tmp_path / name, *asked) for name in ("run", "ours")]
    assert same[0].out == same[1].out != "", same[1].err


@pytest.mark.parametrize(
    ("given", "names", "rows", "told"),
    [
        (
            ["data.time=none"],
            "a,b,c",
            60,
            "has 4 columns of numbers to forecast and 0 that are known in advance",
        ),
        (["data.time=none", "data.columns=a,b"], "a,b,c", 60, "has 2 columns of numbers"),
        (["data.time=none", "data.columns=a,b,c"], "a,b,c", 20, "has 20 rows of values, and this run reads model.lookback=33"),
        (["data.time=none", "data.columns=a,b,c", "data.known=hour"], "a,b,c", 60, "this model needs 3 and 0"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_one_sentence(given, names, rows, told, tmp_path):
    peer(tmp_path / "theirs")
    found = regard("predict", tmp_path / "theirs", table(tmp_path / "load.csv", rows, names), *given, "--device", "cpu")
    assert found.code == 2
    assert told in found.err
    assert "Traceback" not in found.err


def test_without_data_there_is_nothing_to_continue_or_to_score(tmp_path):
    peer(tmp_path / "theirs")
    assert "came without data" in regard("predict", tmp_path / "theirs", "--device", "cpu").err
    regard("import", tmp_path / "theirs", tmp_path / "run")
    scored = regard("evaluate", tmp_path / "run", "--device", "cpu")
    assert (scored.code, scored.err.count("\n")) == (2, 1)
    assert "give a table as data.test=FILE" in scored.err


def test_training_begins_with_a_public_folder(tmp_path):
    peer(tmp_path / "theirs")
    data = ["data.train=builtin:series/seasons", "data.limit=200", f"task.init_from={tmp_path / 'theirs'}"]
    (tmp_path / "r.toml").write_text('[task]\nname = "forecasting"\n[train]\nsteps = 1\nlearning_rate = 1e-12\n')
    result = regard("train", tmp_path / "r.toml", *data, "--out", tmp_path / "run", "--device", "cpu")
    assert result.code == 0, result.err
    model, start = open_run(tmp_path / "run", "cpu").model, opened(tmp_path / "theirs")
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(model.parameters(), start.parameters()))

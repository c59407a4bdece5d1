"""TimeSeriesTransformer against transformers, both ways, with weights copied: while training, and along the path of means."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.time_series_transformer import TimeSeriesTransformerConfig
from regard.interop.huggingface import read_public, write_public
from regard.model.series.distributions import DISTRIBUTIONS
from tests.command import regard
from tests.families.public_folder import shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL: dict[str, Any] = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=20, decoder_ffn_dim=20)
SMALL |= dict(context_length=9, prediction_length=4, num_time_features=2, lags_sequence=[1, 2, 5], num_parallel_samples=1)
STATIC = dict(num_static_categorical_features=2, cardinality=[5, 3], embedding_dimension=[3, 2], num_static_real_features=1)
KINDS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "static, normal, std": STATIC | dict(distribution_output="normal", scaling="std", num_dynamic_real_features=1),
    "three channels, deeper decoder": dict(input_size=3, decoder_layers=3, lags_sequence=[1, 4]),
    "counts": dict(distribution_output="negative_binomial"),
    "not scaled": STATIC | dict(scaling=None, activation_function="relu"),
}


def peer(folder: Path, **keys: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.TimeSeriesTransformerConfig(**(SMALL | keys))
    theirs = shaken(transformers.TimeSeriesTransformerForPrediction(config), 0.2)
    with torch.no_grad():  # positions are not learned
        for stack in (theirs.model.encoder, theirs.model.decoder):
            stack.embed_positions.weight.copy_(stack.embed_positions.create_weight())
    theirs.save_pretrained(folder)
    return theirs.eval()


def window(c: Any) -> dict[str, Tensor]:
    """What transformers takes; values are counts, so that every distribution allows them."""
    draw, past = torch.Generator().manual_seed(1), c.context_length + max(c.lags_sequence)
    many = (c.input_size,) if c.input_size > 1 else ()
    known = c.num_time_features + c.num_dynamic_real_features
    found = {
        "past_values": torch.randint(0, 9, (2, past, *many), generator=draw).float(),
        "past_time_features": torch.randn(2, past, known, generator=draw),
        "future_values": torch.randint(0, 9, (2, c.prediction_length, *many), generator=draw).float(),
        "future_time_features": torch.randn(2, c.prediction_length, known, generator=draw),
    }
    found["past_observed_mask"] = torch.ones_like(found["past_values"])
    if c.num_static_categorical_features:
        categories = [torch.randint(0, n, (2, 1), generator=draw) for n in c.cardinality]
        found["static_categorical_features"] = torch.cat(categories, 1)
        found["static_real_features"] = torch.randn(2, c.num_static_real_features, generator=draw)
    return found


def given(asked: dict[str, Tensor], channels: int) -> tuple[list[Tensor | None], Tensor]:
    """The same as we take it, and the future."""
    past, future = (asked[f"{name}_values"].view(2, -1, channels) for name in ("past", "future"))
    known = torch.cat([asked["past_time_features"], asked["future_time_features"]], 1)
    static = None
    if "static_real_features" in asked:
        static = torch.cat([asked["static_categorical_features"].float(), asked["static_real_features"]], 1)
    return [past, known, static], future


def opened(folder: Path, **changes: Any) -> Any:
    public = read_public(folder)
    model = build_model(replace(public.config, **changes), vocabulary=0, heads=public.heads)
    model.load_state_dict(public.weights)
    return model.eval()


def of_theirs(theirs: Any, asked: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Their loss, and the parameters of their distribution in its own units."""
    out = theirs(**asked)
    shape = (2, theirs.config.prediction_length, theirs.config.input_size)
    return out.loss, [part.view(shape) for part in out.params]


def means_of_theirs(theirs: Any, asked: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """What they generate where every draw is the mean of its distribution."""
    of_output = theirs.output_distribution

    def drawn(*parts: Any, **named: Any) -> Any:
        found = of_output(*parts, **named)
        monkeypatch.setattr(found, "sample", lambda: found.mean)
        return found

    monkeypatch.setattr(theirs, "output_distribution", drawn)
    rest = {name: part for name, part in asked.items() if name != "future_values"}
    return theirs.generate(**rest).sequences.view(2, theirs.config.prediction_length, -1)


@pytest.mark.parametrize("kind", KINDS)
def test_both_compute_the_same_and_back_again(kind, tmp_path, monkeypatch):
    theirs = peer(tmp_path / "theirs", **KINDS[kind])
    asked, ours = window(theirs.config), opened(tmp_path / "theirs", samples=0)
    inputs, future = given(asked, theirs.config.input_size)
    kind_of = DISTRIBUTIONS[ours.config.distribution]
    with torch.no_grad():
        loss, raw = of_theirs(theirs, asked)
        params = ours(*inputs, future)
    torch.testing.assert_close(kind_of.nll(params, future).sum(-1).mean(), loss, atol=1e-4, rtol=1e-4)
    at_last = params[..., 0]
    if ours.config.distribution != "normal":  # the first parameter, degrees of freedom or successes, is not scaled
        torch.testing.assert_close(at_last, raw[0], atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        found = kind_of.mean(ours(*inputs))
        torch.testing.assert_close(found, means_of_theirs(theirs, asked, monkeypatch), atol=1e-4, rtol=1e-4)
    same = opened(tmp_path / "theirs")
    name = write_public(tmp_path / "ours", same.config, theirs.config.input_size, same.state_dict())
    assert name == "TimeSeriesTransformerForPrediction"
    back, info = transformers.TimeSeriesTransformerForPrediction.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not [*info["missing_keys"], *info["unexpected_keys"]]
    with torch.no_grad():
        torch.testing.assert_close(back.eval()(**asked).loss, loss, atol=1e-4, rtol=1e-4)


def test_gradients_are_the_same(tmp_path):
    theirs = peer(tmp_path, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    theirs.train()
    theirs.model.encoder.layerdrop = theirs.model.decoder.layerdrop = 0.0
    ours = opened(tmp_path).train()
    inputs, future = given(asked := window(theirs.config), 1)
    theirs(**asked).loss.backward()
    DISTRIBUTIONS["student_t"].nll(ours(*inputs, future), future).mean().backward()
    for mine, other in (
        (ours.read.project, theirs.model.encoder.value_embedding.value_projection),
        (ours.head[2], theirs.parameter_projection.proj[2]),
        (ours.decoder.blocks[1].feedforward.expand, theirs.model.decoder.layers[1].fc1),
    ):
        torch.testing.assert_close(mine.weight.grad, other.weight.grad, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (dict(scaling="median"), "scaling="),
        (dict(distribution_output="laplace"), "distribution_output="),
        (dict(decoder_ffn_dim=99), "differ"),
        (dict(lags_sequence=[0, 1]), "lags_sequence"),
        (dict(num_static_categorical_features=2), "cardinality"),
        (dict(loss="mse"), "loss"),
    ],
)
def test_what_is_computed_otherwise_is_refused(changed, told, tmp_path):
    peer(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(UserError, match=told):
        read_public(tmp_path)


def test_a_model_of_one_number_cannot_be_written(tmp_path):
    config = TimeSeriesTransformerConfig(lookback=12, horizon=3, width=8, heads=2, lags=(1, 2))
    model = build_model(config, vocabulary=0, heads=Heads(words=False, channels=1))
    with pytest.raises(UserError, match="forecasts one: set"):
        write_public(tmp_path / "ours", config, 1, model.state_dict())


def test_commands_take_a_public_folder_and_give_a_trained_run(tmp_path):
    peer(tmp_path / "theirs")
    rows = torch.randn(40, 3, generator=torch.Generator().manual_seed(2)).tolist()
    lines = [",".join(["" if n >= 36 and m == 0 else f"{x:.5f}" for m, x in enumerate(row)]) for n, row in enumerate(rows)]
    (tmp_path / "load.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    settings = ("data.time=none", "data.columns=a", "data.known=b,c", "--device", "cpu")
    found = regard("predict", tmp_path / "theirs", tmp_path / "load.csv", *settings)
    assert found.out.startswith("step,a,a 0.1,a 0.9\n"), found.err
    imported = regard("import", tmp_path / "theirs", tmp_path / "run", "--check")
    assert imported.code == 0, imported.err
    assert regard("predict", tmp_path / "run", tmp_path / "load.csv", *settings).out == found.out
    recipe = '[task]\nname = "forecasting"\n[model]\nfamily = "time_series_transformer"\nlags = [1, 2]\nsamples = 3\n'
    (tmp_path / "r.toml").write_text(recipe + 'lookback = 12\nhorizon = 3\nwidth = 8\nlayers = 1\n[objective]\nloss = "normal"\n')
    train = ("data.train=builtin:series/events", "data.known=event", "data.limit=300", "train.steps=1", "train.warmup=0")
    trained = regard("train", tmp_path / "r.toml", *train, "--out", tmp_path / "own", "--device", "cpu")
    assert trained.code == 0, trained.err
    exported = regard("export", tmp_path / "own", tmp_path / "ours")
    assert exported.code == 0, exported.err
    back = transformers.TimeSeriesTransformerForPrediction.from_pretrained(tmp_path / "ours").eval()
    assert (back.config.input_size, back.config.num_time_features, back.config.distribution_output) == (3, 1, "normal")
    asked, ours = window(back.config), opened(tmp_path / "ours")
    inputs, future = given(asked, 3)
    with torch.no_grad():
        params = ours(*inputs, future)
        torch.testing.assert_close(DISTRIBUTIONS["normal"].nll(params, future).sum(-1).mean(), back(**asked).loss)


def test_a_folder_with_static_features_asks_for_python(tmp_path):
    peer(tmp_path, **STATIC)
    found = regard("predict", tmp_path, "builtin:series/events", "--device", "cpu")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "reads what is static in a series" in found.err

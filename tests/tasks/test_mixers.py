"""Runs whose mixer is not softmax: trained, resumed, averaged, started from and asked, through the same commands as any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.commands.explain import explain_tree
from regard.core.errors import UserError
from regard.model.mixers.feature_maps import directions, is_drawn
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.runs.recipe import load_recipe
from regard.tasks.language_model.prepare import prepare
from regard.tasks.registry import open_run
from regard.training.checkpoint import Store
from tests.tasks.tiny_text import quiet, stories, train, trained, write_stories

FAVOR = ("model.mixer=favor", "model.features=12", "model.redraw_every=2")
SHORT = ("data.valid=", "data.test=", "data.window=12", "data.stride=0")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stories(tmp_path_factory.mktemp("data") / "stories.jsonl", stories(80))


def saved(folder: Path, kind: str = "step") -> dict[str, Tensor]:
    found = Store(folder / "checkpoints").newest(kind)
    assert found is not None
    return found.tensors("model")


def test_a_run_that_draws_anew_goes_on_as_if_never_stopped(data: Path, tmp_path: Path) -> None:
    settings = (*FAVOR, "train.checkpoint_every=3", "train.average=2", "train.keep=9", "train.steps=7")
    train(tmp_path / "run", data, *settings)
    whole, mean = saved(tmp_path / "run"), saved(tmp_path / "run", "average")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        if path.name != "step-00000003":
            shutil.rmtree(path)
    train(tmp_path / "run", data, *settings)
    again = saved(tmp_path / "run")
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    name = "decoder.blocks.0.self.layer.mixer.features.directions_FK"
    seed = load_recipe(str(tmp_path / "run" / "recipe.toml")).train.seed
    drawn = torch.from_numpy(directions(12, 8, seed, "decoder.0.self", 3)).float()  # step 7 is the first of the fourth draw
    assert torch.equal(whole[name], drawn)
    assert torch.equal(mean[name], drawn)  # not a mean of two draws
    assert torch.equal(open_run(tmp_path / "run", "cpu").model.state_dict()[name], drawn)


@pytest.mark.parametrize("mixer", ["favor", "linear-relu", "conv"])
def test_a_run_writes_scores_and_explains_itself(mixer: str, data: Path, tmp_path: Path) -> None:
    """Windows hold several documents each, which have to be kept apart."""
    train(tmp_path / "run", data, f"model.mixer={mixer}", "data.window=12")
    writer = open_run(tmp_path / "run", "cpu")
    written: list[str] = []
    writer.predict(["the cat"], None, False, written.append)
    assert "".join(written).strip()
    explained = explain_tree(str(tmp_path / "run"), [])
    assert f"mixer {mixer}" in explained
    assert "whatever the length" in explained
    assert "KV cache" not in explained


def test_weights_of_a_softmax_go_on_under_features(data: Path, tmp_path: Path) -> None:
    recipe = load_recipe_to_train("gpt", [f"task.init_from={trained()}", f"data.train={data}", *SHORT, *FAVOR])
    mine, theirs = prepare(recipe, None, quiet).model().state_dict(), start_of(str(trained())).weights
    assert {name for name in mine if not is_drawn(name)} == set(theirs)
    assert all(torch.equal(mine[name], tensor) for name, tensor in theirs.items())


def test_features_of_a_start_are_kept_where_there_are_as_many(data: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", data, *FAVOR)
    name, start = "decoder.blocks.0.self.layer.mixer.features.directions_FK", f"task.init_from={tmp_path / 'run'}"
    settings = [start, f"data.train={data}", *SHORT]
    kept = prepare(load_recipe_to_train("gpt", settings), None, quiet).model().state_dict()[name]
    assert torch.equal(kept, saved(tmp_path / "run")[name])
    more = prepare(load_recipe_to_train("gpt", [*settings, "model.features=20"]), None, quiet).model().state_dict()[name]
    assert more.shape == (20, 8)


def test_a_convolution_cannot_begin_with_an_attention(data: Path) -> None:
    recipe = load_recipe_to_train("gpt", [f"task.init_from={trained()}", f"data.train={data}", *SHORT, "model.mixer=conv"])
    with pytest.raises(UserError, match=r"project.bias is .* there and .* here"):
        prepare(recipe, None, quiet).model()

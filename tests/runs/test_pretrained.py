"""Training on from a checkpoint: a run or a public folder gives weights, settings and vocabulary, and nothing else is taken."""

from __future__ import annotations

import shutil
import signal
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.interop.huggingface import write_public
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.load import window_of
from regard.runs.pretrained import start_of
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.language_model.prepare import prepare
from regard.tasks.registry import open_run
from regard.text.tokenizer import train_tokenizer
from regard.training.progress import Interrupt
from tests.tasks.tiny_text import last_weights, quiet, stories, train, train_as, trained, write_stories

RECIPE = """
[task]
name = "language_model"
init_from = "{start}"
[data]
train = ["{data}"]
[train]
steps = {steps}
tokens_per_batch = 256
warmup = 1
learning_rate = 3e-3
validate_every = 4
checkpoint_every = 4
[decode]
search = "sample"
maximum_length = 4
"""
SMALL: dict[str, Any] = dict(width=16, heads=2, layers=2, feedforward=32, maximum_length=24, dropout=0.1)
PADDED = 300  # rows of the public model's table, more than its tokenizer has pieces


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def public_folder(folder: Path) -> tuple[Path, GPT]:
    """As transformers would have written it."""
    model = GPT(GPTConfig(**SMALL), PADDED, seed=8)
    tokenizer = train_tokenizer("byte-bpe", stories(100), 290)
    roles, json = {"eos": "<eos>", "bos": "<sos>"}, tokenizer.raw.to_str()
    write_public(folder, model.config, PADDED, model.state_dict(), tokenizer_json=json, roles=roles)
    return folder, model


def new_text(folder: Path) -> Path:
    """What no start has seen: other animals."""
    texts = [text.replace("cat", "zebra").replace("the", "a") for text in stories(80, seed=4)]
    return write_stories(folder / "new.jsonl", texts)


def recipe_file(folder: Path, start: Path, steps: int = 8) -> str:
    path = folder / "further.toml"
    path.write_text(RECIPE.format(start=start, data=new_text(folder), steps=steps))
    return str(path)


def recipe_from(folder: Path, start: Path, *settings: str) -> Recipe:
    return load_recipe_to_train(recipe_file(folder, start), settings)


def weights(recipe: Recipe) -> dict[str, Tensor]:
    return prepare(recipe, None, quiet).model().state_dict()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# what is taken --------------------------------------------------------------------------------------------------------
def test_a_run_gives_its_weights_settings_and_vocabulary(tmp_path: Path) -> None:
    recipe = recipe_from(tmp_path, trained(), "data.window=12")
    before = load_recipe(str(trained() / "recipe.toml"))
    assert (recipe.model, recipe.text) == (before.model, before.text)
    assert (recipe.train.steps, window_of(recipe)) == (8, 12)  # of training and data it takes nothing
    start = start_of(str(trained()))
    texts = prepare(recipe, None, quiet)
    assert texts.tokenizer.fingerprint() == start.tokenizer.fingerprint()
    assert equal(texts.model().state_dict(), open_run(trained(), "cpu").model.state_dict())


def test_a_public_folder_gives_them_too(tmp_path: Path) -> None:
    folder, model = public_folder(tmp_path / "public")
    recipe = recipe_from(tmp_path, folder)
    assert {key: getattr(recipe.model, key) for key in SMALL} == SMALL
    assert (recipe.text.tokenizer, recipe.text.size) == ("public", PADDED)
    assert window_of(recipe) == 24
    found = prepare(recipe, None, quiet).model()
    ids_BL = torch.randint(PADDED, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(found.eval()(ids_BL), model.eval()(ids_BL), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["run", "public"])
def test_training_on_lowers_the_loss_from_where_it_was(kind: str, tmp_path: Path) -> None:
    start = trained() if kind == "run" else public_folder(tmp_path / "public")[0]
    recipe = recipe_from(tmp_path, start, "model.dropout=0")
    texts = prepare(recipe, None, quiet)
    before = texts.validator(texts.objective())(texts.model().eval()).metrics["nll"]
    outcome = train_as(recipe, tmp_path / "run")
    assert outcome.progress.best is not None
    assert outcome.progress.best < before - 0.1
    assert f"began with the weights of `{start}`" in (tmp_path / "run" / "README.md").read_text()
    found = open_run(tmp_path / "run", "cpu")
    (texts_of_one,) = found.write(["the cat"])  # type: ignore[attr-defined]
    assert all(i < 290 for i in texts_of_one[0].ids)  # and never a row that no piece has


def test_a_start_can_be_started_from_again(tmp_path: Path) -> None:
    folder, _ = public_folder(tmp_path / "public")
    train_as(recipe_from(tmp_path, folder), tmp_path / "one")
    again = recipe_from(tmp_path, tmp_path / "one")
    assert (again.text.tokenizer, again.text.size) == ("public", PADDED)
    assert equal(weights(again), open_run(tmp_path / "one", "cpu").model.state_dict())


def test_a_run_that_was_trained_on_meanwhile_is_read_again(tmp_path: Path) -> None:
    data = write_stories(tmp_path / "all.jsonl", stories(60))
    train(tmp_path / "run", data)
    first = weights(recipe_from(tmp_path, tmp_path / "run"))
    train(tmp_path / "run", data, "train.steps=12")
    second = weights(recipe_from(tmp_path, tmp_path / "run"))
    assert equal(second, open_run(tmp_path / "run", "cpu").model.state_dict())
    assert not equal(first, second)


# what may be set ------------------------------------------------------------------------------------------------------
def test_dropout_and_what_is_seen_may_be_set_anew(tmp_path: Path) -> None:
    settings = ["model.dropout=0.5", "model.attention_dropout=0.2", "model.visibility=window(4)"]
    recipe = recipe_from(tmp_path, trained(), *settings)
    assert (recipe.model.dropout, recipe.model.attention_dropout, recipe.model.visibility) == (0.5, 0.2, "window(4)")
    assert equal(weights(recipe), open_run(trained(), "cpu").model.state_dict())


@pytest.mark.parametrize(
    "setting",
    [
        *(
            "text.tokenizer=character",
            "text.size=500",
            "text.lowercase=true",
            "model.width=32",
            "model.layers=3",
            "model.heads=4",
        ),
        *("model.maximum_length=8", "model.norm_placement=post", "model.activation=relu", "model.position=sinusoidal"),
    ],
)
def test_what_would_make_other_weights_is_refused_by_name(setting: str, tmp_path: Path) -> None:
    """Heads and activations too: the shapes would fit, and the numbers mean something else."""
    key, _, value = setting.partition("=")
    with pytest.raises(
        UserError, match=rf"^{key}={value} cannot be set with task\.init_from=.*, which has .*; leave it out"
    ) as refusal:
        recipe_from(tmp_path, trained(), setting)
    assert "\n" not in str(refusal.value)


def test_what_is_set_as_it_is_anyway_is_no_conflict(tmp_path: Path) -> None:
    """Typed on the command line, or by a recipe that was written down in full."""
    recipe = recipe_from(
        tmp_path, trained(), "text.size=290", "model.width=16", "model.norm_epsilon=1e-5", "text.lowercase=false"
    )
    (tmp_path / "full.toml").write_text(recipe.to_toml())
    assert load_recipe_to_train(str(tmp_path / "full.toml"), []) == recipe


def test_without_a_start_it_is_load_recipe() -> None:
    assert load_recipe_to_train("gpt", ["model.width=96"]) == load_recipe("gpt", ["model.width=96"])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"width": 8}, r"is \(16,\) there and \(8,\) here"),
        ({"maximum_length": 8}, r"positions.* is \(16, 16\) there and \(8, 16\) here"),
        ({"layers": 3}, r"decoder\.blocks\.2\..* is only here"),
        ({"layers": 1}, r"decoder\.blocks\.1\..* is only there"),
        ({"position": "sinusoidal"}, r"positions.* is only there"),
    ],
)
def test_weights_that_do_not_fit_are_refused_in_one_sentence(other: dict[str, Any], told: str) -> None:
    """By whoever fills a model, whatever its recipe said."""
    start = start_of(str(trained()))
    config = replace(GPTConfig(**start.settings["model"]), **other)
    with pytest.raises(UserError, match=told) as refusal:
        start.fill(GPT(config, start.vocabulary))
    assert "\n" not in str(refusal.value)
    assert "model.*" in str(refusal.value)


def test_a_new_head_is_left_as_it_was_drawn() -> None:
    class Classifier(GPT):
        def __init__(self) -> None:
            super().__init__(GPTConfig(**start.settings["model"]), start.vocabulary)
            self.verdict = torch.nn.Linear(16, 2)

    start = start_of(str(trained()))
    model = Classifier()
    drawn = model.verdict.weight.clone()
    start.fill(model)
    assert torch.equal(model.verdict.weight, drawn)
    assert torch.equal(model.embed.tokens.weight, start.weights["embed.tokens.weight"])


def test_what_is_neither_run_nor_public_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty"):
        recipe_from(tmp_path, tmp_path / "empty")
    with pytest.raises(UserError, match="There is no folder"):
        recipe_from(tmp_path, tmp_path / "nowhere")


# continued ------------------------------------------------------------------------------------------------------------
def test_a_run_goes_on_when_its_start_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same command, and to the same weights."""
    folder, _ = public_folder(tmp_path / "public")
    name = recipe_file(tmp_path, folder)
    train_as(load_recipe_to_train(name, ["model.dropout=0.3"], tmp_path / "whole"), tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
        first = load_recipe_to_train(name, ["model.dropout=0.3"], tmp_path / "parts")
        assert train_as(first, tmp_path / "parts").progress.step == 1
    shutil.rmtree(folder)
    second = load_recipe_to_train(name, ["model.dropout=0.3"], tmp_path / "parts")
    assert asdict(second) == asdict(first)
    assert train_as(second, tmp_path / "parts").progress.step == 8
    assert last_weights(tmp_path / "parts") == last_weights(tmp_path / "whole")
    with pytest.raises(UserError, match="There is no folder"):
        load_recipe_to_train(name, ["model.dropout=0.3"], tmp_path / "another")

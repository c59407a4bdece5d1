"""Weights become the parameters of a model that was built without memory for them."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest
import torch

from regard.core import files
from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.families.base import Sizes
from regard.runs import recipe as recipes
from regard.runs.folder import Run
from regard.runs.load import assign, empty_parameters
from regard.tasks.registry import open_run
from tests.command import refused, regard, trained

SIZES = Sizes(vocabulary=50, target_vocabulary=50)


def small(name: str) -> object:
    kind, known = FAMILIES[name].config, {"width": 32}
    if FAMILIES[name].has("blocks"):
        known |= {"heads": 2, "feedforward": 32, "layers": 1}
    return kind(**{key: value for key, value in known.items() if key in kind.__dataclass_fields__})


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_assigned_is_what_was_drawn(name: str) -> None:
    """Every parameter, every buffer that is computed, and every tie."""
    config, build = small(name), FAMILIES[name].build
    expected = build(config, SIZES, 1)
    with empty_parameters():
        found = build(config, SIZES, 1)
    assert all(parameter.is_meta for parameter in found.parameters())
    assert not any(buffer.is_meta for buffer in found.buffers())
    assign(found, expected.state_dict())
    assert [path for path, _ in found.named_parameters()] == [path for path, _ in expected.named_parameters()]
    ours, theirs = dict(found.named_buffers()), dict(expected.named_buffers())
    assert ours.keys() == theirs.keys()
    for path, tensor in (*expected.named_parameters(), *expected.named_buffers()):
        assert torch.equal(dict(found.named_parameters()).get(path, ours.get(path)), tensor), path


def test_an_empty_model_takes_no_memory() -> None:
    with empty_parameters():
        layer = torch.nn.Linear(1_000_000, 1_000_000)
    assert layer.weight.is_meta
    assert not torch.nn.Linear(2, 2).weight.is_meta


def test_a_recipe_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run, read, real = trained(), list[Path](), files.read_text
    monkeypatch.setattr(recipes, "read_text", lambda path, *more, **named: read.append(path) or real(path, *more, **named))
    open_run(run, "cpu", ["decode.beam=2"])
    assert [path.name for path in read] == ["recipe.toml"]


def test_a_recipe_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    run = Run(Path(copytree(trained(), tmp_path / "run")))
    before = run.recipe
    run.write("recipe.toml", before.to_toml().replace(f"seed = {before.train.seed}", "seed = 77"))
    assert run.recipe.train.seed == 77


def test_a_run_of_an_older_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    run = Path(copytree(trained(), tmp_path / "old"))
    path = run / "recipe.toml"
    path.write_text(path.read_text().replace('name = "translation"', 'name = "translate"', 1))
    with pytest.raises(UserError, match=r"older version of Regard.*task.name=translate"):
        open_run(run, "cpu")
    refused(regard("predict", run, "the cat"), "older version of Regard", "Train it again")

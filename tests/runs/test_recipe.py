"""Recipes say what they are, refuse what they do not know, and come back from a run folder as they went in."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.runs.cost import model_tree
from regard.runs.recipe import Recipe, build_recipe, builtin_names, load_recipe, parse_recipe

SMALL = """
[data]
train = ["builtin:english-french/train"]
valid = ["builtin:english-french/valid"]
[train]
steps = 10
"""
ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "src" / "regard" / "runs" / "recipes"


def recipe_from(*arguments):
    return build_recipe(parse_recipe(*arguments))


def field_types() -> list[tuple[str, str, Any]]:
    recipe = recipe_from(SMALL, "small.toml")
    sections = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    return [(section, key, hint) for section, value in sections.items() for key, hint in get_type_hints(type(value)).items()]


FIELDS = field_types()


def wrong_for(hint: Any) -> tuple[str, str | None]:
    """A TOML value and a typed text that this type must refuse; text takes any typed text, and so do lists of it."""
    if hint is str:
        return "3", None
    if get_origin(hint) is tuple:
        return "3", None
    return {bool: ('"maybe"', "maybe"), int: ("1.5", "1.5"), float: ('"fast"', "fast")}.get(hint, ('"no such"', "no such"))


# --------------------------------------------------------------------------------------------------------- those that come along


def test_there_are_recipes() -> None:
    assert builtin_names() == sorted(path.stem for path in RECIPES.glob("*.toml"))
    assert "translate" in builtin_names()


@pytest.mark.parametrize("name", builtin_names())
def test_a_builtin_recipe_says_what_it_is(name: str) -> None:
    recipe = load_recipe(name)
    about = recipe.recipe
    assert about.name == name
    assert about.title
    assert about.paper
    assert about.hardware
    assert about.score
    assert about.rows
    assert about.minutes > 0
    regard, verb, named, *assignments = shlex.split(about.command)
    assert (regard, verb, named) == ("regard", "train", name)
    assert load_recipe(name, assignments).train == recipe.train


@pytest.mark.parametrize("name", builtin_names())
def test_a_builtin_recipe_comes_back_from_its_resolved_form(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe_from(recipe.to_toml(), "run/recipe.toml") == recipe
    assert recipe_from(recipe.to_toml(), "run/recipe.toml").differences(recipe) == []


# ----------------------------------------------------------------------------------------------------------------- wrong types


def test_enough_settings_are_tried() -> None:
    assert len(FIELDS) >= 60
    assert {section for section, _, _ in FIELDS} == {field.name for field in dataclasses.fields(Recipe)}


@pytest.mark.parametrize(("section", "key", "hint"), FIELDS, ids=[f"{section}.{key}" for section, key, _ in FIELDS])
def test_a_wrong_type_is_told_by_its_key(section: str, key: str, hint: Any) -> None:
    plain, typed = wrong_for(hint)
    table = {"data": 'train = ["a"]\nvalid = ["b"]\n', "train": "steps = 10\n"}
    table[section] = "".join(line + "\n" for line in table.get(section, "").splitlines() if not line.startswith(f"{key} "))
    table[section] += f"{key} = {plain}\n"
    text = "\n".join(f"[{name}]\n{lines}" for name, lines in table.items())
    with pytest.raises(UserError, match=rf"^{section}\.{key}="):
        recipe_from(text, "wrong.toml")
    if typed is not None:
        with pytest.raises(UserError, match=rf"^{section}\.{key}={typed}"):
            recipe_from(SMALL, "small.toml", [f"{section}.{key}={typed}"])


@pytest.mark.parametrize("value", ["3", "[]", '["transformer"]', "{a = 1}", "true", '"bert"', "1979-05-27"])
@pytest.mark.parametrize("key", ["model.family", "objective.name", "task.name"])
def test_names_that_choose_a_part_may_be_anything(key: str, value: str) -> None:
    section, name = key.split(".")
    with pytest.raises(UserError, match=key.replace(".", r"\.")):
        recipe_from(f"{SMALL}[{section}]\n{name} = {value}\n", "wrong.toml")


# --------------------------------------------------------------------------------------------------------------- other mistakes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[trian]\nsteps = 1", "wrong.toml: there is no section [trian]"),
        ("[trian]\nsteps = 1", "did you mean 'train'?"),
        ("train = 3", "train must be a section, [train], not a value."),
        ("steps = 3", "there is no section [steps]"),
        ("[[train]]\nsteps = 3", "train must be a section"),
        (f"{SMALL}deep.steps = 3", "train.deep is not a setting"),
        ("", "train.steps=0 must be at least 1"),
        ("[train", "wrong.toml is not valid TOML"),
        ("[train]\nsteps = 1\nsteps = 2", "wrong.toml is not valid TOML"),
        (f"[train]\nsteps = {'9' * 5000}", "wrong.toml is not valid TOML"),
        (f"[train]\nsteps = {'[' * 3000}", "wrong.toml is not valid TOML"),
        ("\ufeff[train]\nsteps = 1", "wrong.toml is not valid TOML"),
    ],
)
def test_a_wrong_file_is_told(text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        recipe_from(text, "wrong.toml")
    assert told in str(caught.value)


@given(st.text(max_size=40) | st.text("[]={}\"'.\n abct#0159-_", max_size=30))
@settings(max_examples=150)
def test_no_text_ends_in_a_traceback(text: str) -> None:
    with pytest.raises(UserError):  # none of these names its data, so none can be a whole recipe
        recipe_from(text, "wrong.toml")


@pytest.mark.parametrize(
    ("assignments", "told"),
    [
        (["text.joint=false"], "it needs text.joint=true; or set model.tie=output."),
        (["text.joint=false", "model.tie=all"], "model.tie=all"),
        (["data.train="], "data.train is empty"),
        (["data.columns=en"], "data.columns has 1 names"),
        (["train.steps=0"], "train.steps=0 must be at least 1, or give train.epochs."),
        (["train.learning_rate=nan"], "train.learning_rate=nan"),
        (["train.learning_rate=inf"], "train.learning_rate=inf"),
        (["train.clip=-1"], "train.clip=-1.0"),
        (["train.clip=nan"], "train.clip=nan"),
        (["train.beta2=1"], "train.beta2=1.0"),
        (["train.weight_decay=0.1"], "needs train.optimizer=adamw"),
        (["train.weight_decay=inf", "train.optimizer=adamw"], "train.weight_decay=inf"),
        (["train.average=9"], "set train.keep=9"),
        (["train.schedule=cosine", "train.warmup=10"], "leaves nothing of train.steps=10"),
        (["objective.smoothing=1"], "objective.smoothing=1.0"),
        (["objective.smoothing=nan"], "objective.smoothing=nan"),
        (["trian.steps=3"], "did you mean 'train'?"),
        (["train.stepps=3"], "did you mean 'train.steps'?"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_hours_are_spent(assignments: list[str], told: str) -> None:
    with pytest.raises(UserError) as caught:
        recipe_from(SMALL, "small.toml", assignments)
    assert told in str(caught.value)


def test_two_vocabularies_work_with_an_output_tie() -> None:
    for tie in ("output", "none"):
        assert not recipe_from(SMALL, "small.toml", ["text.joint=false", f"model.tie={tie}"]).text.joint


# ----------------------------------------------------------------------------------------------------- finding and telling apart


def test_a_recipe_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SMALL, "utf-8")
    assert load_recipe(str(path)).train.steps == 10
    assert load_recipe(str(path)).recipe.name == "mine"
    assert load_recipe("translate", ["train.steps=7", "train.warmup=1"]).train.steps == 7


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("translat", "did you mean 'translate'?"),
        ("", "there is no recipe ''"),
        ("frobnicate", "'regard recipes' lists them"),
        ("missing.toml", "missing.toml does not exist"),
        ("folder/missing", "does not exist"),
    ],
)
def test_a_missing_recipe_is_told(name: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(name)
    assert told in str(caught.value)


def test_files_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes("title = 'é'".encode("latin-1"))
    for path, told in ((tmp_path, "is a folder, not a recipe"), (tmp_path / "latin.toml", "is not UTF-8")):
        with pytest.raises(UserError, match=told):
            load_recipe(str(path))


def test_differences_name_what_changed_and_what_it_was() -> None:
    one = recipe_from(SMALL, "small.toml")
    other = recipe_from(SMALL, "other.toml", ["train.steps=20", "data.test=x.tsv", "recipe.title=New"])
    assert other.differences(one) == ["data.test=('x.tsv',) (was ())", "train.steps=20 (was 10)"]
    assert one.differences(one) == []


@given(st.text(st.characters(codec="utf-8")), st.floats(1e-12, 1e3), st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=30)
def test_overridden_recipes_come_back_from_their_resolved_form(title: str, rate: float, seed: int) -> None:
    recipe = recipe_from(SMALL, "small.toml", [f"recipe.title={title}", f"train.learning_rate={rate}", f"train.seed={seed}"])
    assert recipe_from(recipe.to_toml(), "elsewhere.toml") == recipe
    assert (recipe.recipe.title, recipe.train.learning_rate, recipe.train.seed) == (title.strip(), rate, seed)


def test_own_training_data_are_not_validated_on_the_built_in_text():
    assert load_recipe("gpt", ["data.train=mine.txt"]).data.valid == ()
    assert load_recipe("gpt", ["data.train=mine.txt", "data.test=builtin:python-reference/test"]).data.test
    assert load_recipe("gpt", ["data.train=builtin:python-reference/valid"]).data.test
    with pytest.raises(UserError, match=r"data\.valid"):
        load_recipe("translate", ["data.train=a.en,a.de"])


def test_another_search_leaves_the_settings_of_the_first_behind():
    assert load_recipe("gpt").decode.temperature != 1
    assert load_recipe("gpt", ["decode.search=greedy"]).decode.temperature == 1
    with pytest.raises(UserError, match=r"decode\.top_k is 3"):
        load_recipe("gpt", ["decode.search=greedy", "decode.top_k=3"])


@pytest.mark.parametrize("name", builtin_names())
def test_a_recipe_states_as_many_parameters_as_its_model_has(name: str) -> None:
    recipe = load_recipe(name)
    unknown = recipe.task.init_from or hasattr(recipe.objective, "teacher")
    assert recipe.recipe.parameters == (None if unknown else model_tree(recipe).parameters)


@pytest.mark.parametrize("name", builtin_names())
def test_what_a_recipe_says_about_itself_stands_alone(name: str) -> None:
    """It is printed in a table, without the comments of its file."""
    about = load_recipe(name, ["objective.teacher=any", "objective.inherit=false"] if name == "distil" else []).recipe
    assert not {"above", "below"} & set(" ".join((about.title, about.hardware, about.score)).replace(",", " ").split())

"""A recipe: task, data, text, model, objective, schedule and search as data, with the paper, cost and score to expect."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from regard.config import as_typed, build, override, to_toml
from regard.data.config import DataConfig
from regard.decode.config import DecodeConfig
from regard.errors import UserError, nearest
from regard.families import FAMILIES
from regard.families.transformer import TransformerConfig
from regard.objective.translation import TranslationConfig
from regard.text.config import TextConfig
from regard.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class About:
    name: str
    title: str = ""
    paper: str = ""
    rows: tuple[str, ...] = ()  # of the lectures
    command: str = ""
    minutes: float = 0.0
    hardware: str = ""
    score: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    name: Literal["translate"] = "translate"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    recipe: About
    task: TaskConfig
    data: DataConfig
    text: TextConfig
    model: TransformerConfig
    objective: TranslationConfig
    train: TrainConfig
    decode: DecodeConfig

    def to_toml(self) -> str:
        return to_toml({field.name: getattr(self, field.name) for field in fields(self)})

    def differences(self, other: Recipe) -> list[str]:
        """`section.key=ours (was theirs)` for every setting that differs, what a recipe says about itself aside."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{section}.{key}={as_typed(value)} (was {as_typed(theirs[section][key])})"
            for section, table in mine.items()
            for key, value in table.items()
            if section != "recipe" and theirs[section][key] != value
        ]


SECTIONS = [field.name for field in fields(Recipe)]
OBJECTIVES = {"translation": TranslationConfig}


def load_recipe(name: str, assignments: Sequence[str] = ()) -> Recipe:
    """A built-in recipe by name, or a TOML file by path, with `section.key=value` settings on top."""
    path = Path(name)
    if path.suffix == ".toml" or path.parent != Path():
        return read_recipe(path, assignments)
    names = builtin_names()
    if name not in names:
        raise UserError(f"there is no recipe {name!r}{nearest(name, names)} Or give the path of a .toml file.")
    text = resources.files("regard.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    return parse_recipe(text, f"recipe {name}", assignments)


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, such as the one a run keeps."""
    return parse_recipe(_read(path), str(path), assignments)


def builtin_names() -> list[str]:
    return sorted(e.name.removesuffix(".toml") for e in resources.files("regard.recipes").iterdir() if e.name.endswith(".toml"))


def parse_recipe(text: str, origin: str, assignments: Sequence[str] = ()) -> Recipe:
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits and lists a thousand deep included
        raise UserError(f"{origin} is not valid TOML: {error}. Mend that place, or copy the file again.") from None
    for section, table in tables.items():
        if section not in SECTIONS:
            raise UserError(f"{origin}: there is no section [{section}]{nearest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise UserError(f"{origin}: {section} must be a section, [{section}], not a value.")
    tables = {section: dict(tables.get(section, {})) for section in SECTIONS}
    tables["recipe"].setdefault("name", Path(origin).stem)
    override(tables, list(assignments))
    family, objective = tables["model"].get("family", "transformer"), tables["objective"].get("name", "translation")
    if str(family) not in FAMILIES:
        raise UserError(f"model.family={family} is not known{nearest(str(family), FAMILIES)}")
    if str(objective) not in OBJECTIVES:
        raise UserError(f"objective.name={objective} is not known{nearest(str(objective), OBJECTIVES)}")
    kinds: dict[str, type] = {
        "recipe": About,
        "task": TaskConfig,
        "data": DataConfig,
        "text": TextConfig,
        "model": FAMILIES[family][0],
        "objective": OBJECTIVES[objective],
        "train": TrainConfig,
        "decode": DecodeConfig,
    }
    recipe = Recipe(**{section: build(kinds[section], table, section) for section, table in tables.items()})
    if recipe.model.tie == "all" and not recipe.text.joint:
        raise UserError(
            "model.tie=all shares one embedding between both languages, so it needs text.joint=true; or set model.tie=output."
        )
    return recipe


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; give a recipe's name ('regard recipes' lists them) or a .toml file.") from None
    except OSError as error:
        what, hint = error.strerror, " A run keeps its recipe as recipe.toml." if path.is_dir() else " Check who may read it."
    except UnicodeDecodeError as error:
        what, hint = f"byte {error.start + 1} is not UTF-8", " Copy the file again, or convert it."
    raise UserError(f"{path} cannot be read as a recipe: {what}.{hint}")

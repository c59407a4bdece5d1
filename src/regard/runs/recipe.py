"""A recipe: task, data, text, model, objective, schedule and search as data, with the paper, cost and score to expect.

`check_recipe` and `check_run` refuse mistyped names and settings of a command before torch is imported, which takes seconds.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.config import build, check_names, format_value, override, to_toml
from regard.core.errors import UserError, nearest
from regard.core.files import MIB, read_text
from regard.decode.config import ONLY_FOR, DecodeConfig
from regard.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.runs.plugins import check_plugins, plugins_used
from regard.runs.task import TASKS, Task

if TYPE_CHECKING:
    from regard.families.base import Family

DEFAULT_TASK = "translation"
HUB = "hf:"  # before the name of a model on the hub, so that no mistyped folder is looked for there
RECIPE = "recipe.toml"  # of a run
UNKNOWN = "no setting"  # of another task, family or objective


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
    parameters: int | None = None  # of its model; None where that depends on what the training starts from
    plugins: tuple[str, ...] = ()  # file names; set when a recipe that uses parts of them is read


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    name: str = DEFAULT_TASK
    init_from: str = ""  # a run, a Hugging Face folder or a hub id: training begins with its weights, settings and vocabulary
    freeze: bool = False  # what came with init_from stays as it is, and only what is new learns

    def __post_init__(self) -> None:
        if self.freeze and not self.init_from:
            raise UserError("task.freeze=true keeps what came with task.init_from as it is; give that too, or leave it out.")
        if self.freeze and not TASKS[self.name].freezes:
            *others, last = (name for name, task in TASKS.items() if task.freezes)
            able = f"{', '.join(others)} and {last}"
            raise UserError(f"task.freeze=true is for tasks {able}, not for {self.name}; leave it out.")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe; the classes of `data`, `text`, `model`, `objective` and `train` are those of its task, family and objective."""

    recipe: About
    task: TaskConfig
    data: Any
    text: Any
    model: Any
    objective: Any
    train: Any
    decode: DecodeConfig

    def to_toml(self) -> str:
        return to_toml({field.name: getattr(self, field.name) for field in fields(self)})

    def differences(self, other: Recipe) -> list[str]:
        """`section.key=ours (was theirs)` for every setting that differs, what a recipe says about itself aside."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{section}.{key}={format_value(value)} (was {format_value(theirs[section].get(key, UNKNOWN))})"
            for section, table in mine.items()
            for key, value in table.items()
            if section != "recipe" and theirs[section].get(key, UNKNOWN) != value
        ]


SECTIONS = [field.name for field in fields(Recipe)]
BUILTIN = "builtin:"  # before the name of a data set that comes along
BUILTIN_RECIPES = resources.files("regard.runs").joinpath("recipes")
LARGEST = MIB  # of a recipe; they have some hundred lines
Tables = dict[str, dict[str, Any]]  # the sections of a recipe, as they are written


def load_recipe(name: str, assignments: Sequence[str] = ()) -> Recipe:
    """A built-in recipe by name, or a TOML file by path, with `section.key=value` settings on top."""
    return build_recipe(named_tables(name, assignments))


def builtin_names() -> list[str]:
    return sorted(e.name.removesuffix(".toml") for e in BUILTIN_RECIPES.iterdir() if e.name.endswith(".toml"))


def named_tables(name: str, assignments: Sequence[str] = ()) -> Tables:
    path = Path(name)
    if path.suffix == ".toml" or path.parent != Path():
        return parse_recipe(_read(path), str(path), assignments)
    names = builtin_names()
    if name not in names:
        listed = "'regard recipes' lists them; the path of a .toml file will do too."
        raise UserError(f"there is no recipe {name!r}{nearest(name, names)} {listed}")
    text = BUILTIN_RECIPES.joinpath(f"{name}.toml").read_text("utf-8")
    return parse_recipe(text, f"recipe {name}", assignments)


def read_run_toml(path: Path) -> dict[str, Any]:
    """Return a run's recipe.toml as it is written; that of a run of an older version is refused."""
    found = _loads(_read(path), str(path))
    about, task = found.get("recipe"), found.get("task")
    check_plugins(about.get("plugins") if isinstance(about, dict) else None, str(path))
    name = str(task.get("name", DEFAULT_TASK)) if isinstance(task, dict) else DEFAULT_TASK
    if name not in TASKS:
        raise UserError(
            f"{path.parent} was trained by an older version of Regard: there is no task.name={name[:40]}. "
            "Train it again with this version."
        )
    return found


def _loads(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits and lists a thousand deep included
        raise UserError(f"{origin} is not valid TOML: {error}. Correct that place, or copy the file again.") from None


def parse_recipe(text: str, origin: str, assignments: Sequence[str] = ()) -> Tables:
    return tables_of(_loads(text, origin), origin, assignments)


def tables_of(found: Mapping[str, Any], origin: str, assignments: Sequence[str] = ()) -> Tables:
    """Return the sections of a recipe with `section.key=value` settings on top; unknown sections are refused."""
    for section, table in found.items():
        if section not in SECTIONS:
            raise UserError(f"{origin}: there is no section [{section}]{nearest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise UserError(f"{origin}: {section} must be a section, [{section}], not a value.")
    tables = {section: dict(found.get(section, {})) for section in SECTIONS}
    tables["recipe"].setdefault("name", Path(origin).stem)
    override(tables, list(assignments))
    _yield_to_typed(tables, {assignment.partition("=")[0].strip() for assignment in assignments})
    check_plugins(tables["recipe"].get("plugins"), origin)
    if used := plugins_used(tables):
        tables["recipe"]["plugins"] = used
    return tables


def _yield_to_typed(tables: Tables, typed: set[str]) -> None:
    """Drop settings of the recipe that contradict typed ones.

    Other training data drops the built-in validation and test; another search drops settings of the first one; a validation
    fraction drops the recipe's validation data. Steps and epochs replace each other, and typed ones are not adjusted.
    """
    data, decode, train = tables["data"], tables["decode"], tables["train"]
    for key, other in (("steps", "epochs"), ("epochs", "steps")):
        if f"train.{key}" in typed and f"train.{other}" not in typed:
            train.pop(other, None)
    if typed & {"train.steps", "train.epochs"} and "train.minimum_steps" not in typed:
        train.pop("minimum_steps", None)
    if "train.warmup" in typed and "train.warmup_limit" not in typed:
        train["warmup_limit"] = 1.0
    if "data.train" in typed and data["train"] and not str(data["train"]).startswith(BUILTIN):
        for split in ("valid", "test"):
            if f"data.{split}" not in typed and any(str(where).startswith(BUILTIN) for where in data.get(split, ())):
                del data[split]
    if "data.valid_fraction" in typed and "data.valid" not in typed and str(data["valid_fraction"]) not in ("0", "0.0"):
        data.pop("valid", None)
    if "decode.search" in typed:
        for key, searches in ONLY_FOR.items():
            if f"decode.{key}" not in typed and decode["search"] not in searches:
                decode.pop(key, None)


def build_recipe(tables: Tables) -> Recipe:
    """Every section as its task has it, checked."""
    task = _task(tables)
    family = FAMILIES[_family(tables, task)]
    objective = _chosen(tables, "objective", "name", task.objectives, f" for task.name={task.name}")
    recipe = Recipe(
        **check_sections(tables),
        text=build(task.text, tables["text"], "text"),
        model=build(family.config, tables["model"], "model"),
        objective=build(OBJECTIVES[objective], tables["objective"], "objective"),
    )
    apart = not getattr(recipe.text, "joint", True) and recipe.text.tokenizer != "public"  # whose files may share their ids
    if family.has("seq2seq") and recipe.model.tie == "all" and apart:
        raise UserError(
            "model.tie=all shares one embedding between both languages, so it needs text.joint=true; or set model.tie=output."
        )
    for key, value in (("compile", True), ("activation_checkpointing", True), ("fsdp", True), ("optimizer", "muon")):
        fits = family.has("blocks") or family.has("word_vectors") or (key == "compile" and family.has("compiles_steps"))
        if not fits and getattr(recipe.train, key) == value:
            given = f"train.{key}={format_value(value)}"
            raise UserError(f"{given} is for models made of blocks alone, and model.family={family.name} is not; leave it out.")
    if family.has_any("seq2seq", "causal_lm", "pixel_lm", "captioning"):
        _check_writing(recipe.model, family)
    _check_lora(recipe, family)
    return recipe


def _check_writing(config: Any, family: Family) -> None:
    """Refuse a mixer with which later tokens change which earlier ones get attention, where they are written one by one."""
    if getattr(config, "mixer", "") == "probsparse":
        raise UserError(
            f"model.mixer=probsparse chooses queries by comparing all of a sequence, and model.family={family.name} writes token "
            "after token, without the later ones; choose model.mixer=softmax, or a family that reads whole sequences."
        )


def _check_lora(recipe: Recipe, family: Family) -> None:
    """Refuse adapters where there is nothing that they could adapt."""
    if not (rank := getattr(recipe.train, "lora", 0)):
        return
    if not family.has("blocks") or family.has("replaced_token"):  # which is two models
        raise UserError(
            f"train.lora={rank} is for one model made of blocks alone, and model.family={family.name} is not; leave it out."
        )
    if not recipe.task.init_from:
        raise UserError(f"train.lora={rank} adapts trained weights, which stay as they are; give task.init_from too.")
    if recipe.task.freeze:
        raise UserError(f"train.lora={rank} and task.freeze=true both say what of task.init_from learns; leave one of them out.")


def check_sections(tables: Tables) -> dict[str, Any]:
    """Check and return the sections that no checkpoint decides. They need no torch, so a mistyped key is refused at once."""
    task = _task(tables)
    kinds = {"recipe": About, "task": TaskConfig, "data": task.data, "train": task.train, "decode": DecodeConfig}
    check_names(task.text, tables["text"], "text")
    return {section: build(kind, tables[section], section) for section, kind in kinds.items()}


def _task(tables: Tables) -> Task:
    tables["task"].setdefault("name", DEFAULT_TASK)
    return TASKS[_chosen(tables, "task", "name", list(TASKS))]


def _family(tables: Tables, task: Task) -> str:
    """Return the family that a recipe names, or its task's default; one that cannot be trained for the task is refused."""
    name = str(tables["model"].setdefault("family", task.family))
    if name not in FAMILIES or not task.takes(FAMILIES[name]):
        _chosen(tables, "model", "family", task.families(), f" for task.name={task.name}")
    return name


def typed_task(assignments: Sequence[str]) -> str | None:
    """The last task.name among settings as they are typed."""
    pairs = (assignment.partition("=") for assignment in assignments)
    return next((value.strip() for key, _, value in reversed(list(pairs)) if key.strip() == "task.name"), None)


def _chosen(tables: Tables, section: str, key: str, choices: Sequence[str], where: str = "") -> str:
    """Return the kind that a section names, or the first choice; refuse an unknown one."""
    given = str(tables[section].setdefault(key, choices[0]))
    if given not in choices:
        raise UserError(f"{section}.{key}={given} is not known{where}{nearest(given, choices)}")
    return given


def _read(path: Path) -> str:
    if not os.path.lexists(path):
        raise UserError(f"{path} does not exist; give a recipe's name ('regard recipes' lists them) or a .toml file.")
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a recipe. A run keeps its recipe as recipe.toml.")
    return read_text(path, LARGEST)


def check_recipe(name: str, settings: Sequence[str]) -> None:
    """Refuse a recipe that does not exist, and settings that it does not have, as far as no model is needed to know them."""
    if "WORLD_SIZE" not in os.environ:  # of processes that train together one tells, once they have met
        check_sections(named_tables(name, settings))


def check_run(name: Path | str, settings: Sequence[str] = ()) -> None:
    """Refuse a run that does not exist, and settings that it does not have; a model on the hub is looked up later."""
    path = Path(name)
    if str(name).startswith(HUB) or "WORLD_SIZE" in os.environ:
        return
    must_exist(path)
    if (path / RECIPE).is_file() and typed_task(settings) is None:  # for another task there are other settings
        check_sections(tables_of(read_run_toml(path / RECIPE), str(path / RECIPE), settings))


def must_exist(run: Path) -> None:
    if not run.exists():
        raise UserError(f"{run} does not exist; give a run, such as 'regard train translate' makes, or hf:NAME.")

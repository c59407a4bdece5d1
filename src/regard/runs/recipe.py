"""A recipe: task, data, text, model, objective, schedule and search as data, with the paper, cost and score to expect."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from regard.core.config import as_typed, build, check_names, override, to_toml
from regard.core.errors import UserError, nearest
from regard.core.files import MIB, read_text
from regard.data.config import (
    CaptionsConfig,
    DialoguesConfig,
    LabelledConfig,
    PairsConfig,
    QuestionsConfig,
    RetrievalConfig,
    SentencesConfig,
    TaggedConfig,
    TextsConfig,
    WordsDataConfig,
)
from regard.decode.config import ONLY_FOR, DecodeConfig
from regard.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.text.config import PairTextConfig, TextConfig
from regard.training.config import TrainConfig, WordVectorTrainConfig

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


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    name: Literal[
        "translate", "reply", "retrieve", "write", "classify", "embed",
        "answer", "tag", "fill", "read", "denoise", "words", "caption",
    ] = "translate"  # fmt: skip
    init_from: str = ""  # a run, a Hugging Face folder or a hub id: training begins with its weights, settings and vocabulary
    freeze: bool = False  # what came with init_from stays as it is, and only what is new learns

    def __post_init__(self) -> None:
        if self.freeze and not self.init_from:
            raise UserError("task.freeze=true keeps what came with task.init_from as it is; give that too, or leave it out.")
        if self.freeze and self.name not in ("classify", "tag"):
            raise UserError(f"task.freeze=true is for tasks classify and tag, not for {self.name}; leave it out.")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What `data`, `text`, `model`, `objective` and `train` hold depends on the task, and is `TASKS`' to say."""

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
            f"{section}.{key}={as_typed(value)} (was {as_typed(theirs[section].get(key, UNKNOWN))})"
            for section, table in mine.items()
            for key, value in table.items()
            if section != "recipe" and theirs[section].get(key, UNKNOWN) != value
        ]


@dataclass(frozen=True)
class Sections:
    """What the sections of a task's recipe hold; of families and objectives, one of these, the first where none is named."""

    data: type
    text: type
    families: tuple[str, ...]
    objectives: tuple[str, ...]
    train: type = TrainConfig


SECTIONS = [field.name for field in fields(Recipe)]
LABELS = ("classification", "regression", "distillation")
WORDS = ("skipgram", "cbow", "glove")
TASKS = {
    "translate": Sections(PairsConfig, PairTextConfig, ("transformer", "recurrent"), ("seq2seq",)),
    "reply": Sections(DialoguesConfig, PairTextConfig, ("transformer", "recurrent", "hran"), ("seq2seq",)),
    "retrieve": Sections(RetrievalConfig, TextConfig, ("encoder", "bert", "word2vec"), ("contrastive",)),
    "write": Sections(TextsConfig, TextConfig, ("gpt",), ("causal_lm",)),
    "classify": Sections(LabelledConfig, TextConfig, ("gpt", "bert", "encoder", "han", "elmo"), LABELS),
    "embed": Sections(SentencesConfig, TextConfig, ("bert", "elmo"), ("vectors",)),
    "answer": Sections(QuestionsConfig, TextConfig, ("bert",), ("span",)),
    "tag": Sections(TaggedConfig, TextConfig, ("bert", "elmo"), ("tagging",)),
    "fill": Sections(TextsConfig, TextConfig, ("bert", "electra"), ("masked_lm", "replaced_token")),
    "read": Sections(TextsConfig, TextConfig, ("elmo",), ("bidirectional_lm",)),
    "words": Sections(WordsDataConfig, TextConfig, ("word2vec",), WORDS, WordVectorTrainConfig),
    "denoise": Sections(LabelledConfig, TextConfig, ("encoder", "bert"), ("masked_lm",)),
    "caption": Sections(CaptionsConfig, TextConfig, ("captioner",), ("captioning",)),
}


BUILTIN = "builtin:"
LARGEST = MIB  # of a recipe; they have some hundred lines
WITHOUT_BLOCKS = ("recurrent", "han", "hran", "captioner", "elmo")  # or with few of them
COMPILED_BY_WORDS = ("hran",)
Tables = dict[str, dict[str, Any]]  # the sections of a recipe, as they are written


def load_recipe(name: str, assignments: Sequence[str] = ()) -> Recipe:
    """A built-in recipe by name, or a TOML file by path, with `section.key=value` settings on top."""
    return made(named_tables(name, assignments))


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, such as the one a run keeps."""
    return made(parsed(_read(path), str(path), assignments))


def builtin_names() -> list[str]:
    return sorted(
        e.name.removesuffix(".toml") for e in resources.files("regard.runs.recipes").iterdir() if e.name.endswith(".toml")
    )


def named_tables(name: str, assignments: Sequence[str] = ()) -> Tables:
    path = Path(name)
    if path.suffix == ".toml" or path.parent != Path():
        return parsed(_read(path), str(path), assignments)
    names = builtin_names()
    if name not in names:
        listed = "'regard recipes' lists them; the path of a .toml file will do too."
        raise UserError(f"there is no recipe {name!r}{nearest(name, names)} {listed}")
    text = resources.files("regard.runs.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    return parsed(text, f"recipe {name}", assignments)


def parsed(text: str, origin: str, assignments: Sequence[str] = ()) -> Tables:
    try:
        found: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits and lists a thousand deep included
        raise UserError(f"{origin} is not valid TOML: {error}. Mend that place, or copy the file again.") from None
    for section, table in found.items():
        if section not in SECTIONS:
            raise UserError(f"{origin}: there is no section [{section}]{nearest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise UserError(f"{origin}: {section} must be a section, [{section}], not a value.")
    tables = {section: dict(found.get(section, {})) for section in SECTIONS}
    tables["recipe"].setdefault("name", Path(origin).stem)
    override(tables, list(assignments))
    _yield_to_typed(tables, {assignment.partition("=")[0].strip() for assignment in assignments})
    return tables


def _yield_to_typed(tables: Tables, typed: set[str]) -> None:
    """Who types other training data does not mean the built-in test, nor who types another search, the first one's settings;
    and who types a share to be held out does not mean the recipe's validation data.

    Steps and epochs take each other's place, and what is typed is neither shortened nor made longer.
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


def made(tables: Tables) -> Recipe:
    """Every section as its task has it, checked."""
    task = _task(tables)
    sections = TASKS[task]
    family = _chosen(tables, "model", "family", sections.families, f" for task.name={task}")
    objective = _chosen(tables, "objective", "name", sections.objectives, f" for task.name={task}")
    recipe = Recipe(
        **without_model(tables),
        text=build(sections.text, tables["text"], "text"),
        model=build(FAMILIES[family].config, tables["model"], "model"),
        objective=build(OBJECTIVES[objective], tables["objective"], "objective"),
    )
    if family in ("transformer", "recurrent", "hran") and recipe.model.tie == "all" and not recipe.text.joint:
        raise UserError(
            "model.tie=all shares one embedding between both languages, so it needs text.joint=true; or set model.tie=output."
        )
    for key, value in (("compile", True), ("activation_checkpointing", True), ("fsdp", True), ("optimizer", "muon")):
        fits = family not in WITHOUT_BLOCKS or (key == "compile" and family in COMPILED_BY_WORDS)
        if not fits and getattr(recipe.train, key) == value:
            given = f"train.{key}={as_typed(value)}"
            raise UserError(f"{given} is for models made of blocks alone, and model.family={family} is not; leave it out.")
    return recipe


def without_model(tables: Tables) -> dict[str, Any]:
    """The sections that no checkpoint has a say in, checked. They need no torch, so a mistyped key in them is told at once."""
    sections = TASKS[_task(tables)]
    kinds = {"recipe": About, "task": TaskConfig, "data": sections.data, "train": sections.train, "decode": DecodeConfig}
    check_names(sections.text, tables["text"], "text")
    return {section: build(kind, tables[section], section) for section, kind in kinds.items()}


def _task(tables: Tables) -> str:
    return _chosen(tables, "task", "name", list(TASKS))


def typed_task(assignments: Sequence[str]) -> str | None:
    """The last task.name among settings as they are typed."""
    pairs = (assignment.partition("=") for assignment in assignments)
    return next((value.strip() for key, _, value in reversed(list(pairs)) if key.strip() == "task.name"), None)


def _chosen(tables: Tables, section: str, key: str, choices: Sequence[str], where: str = "") -> str:
    """What a section says of its own kind, the first choice where it says nothing."""
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

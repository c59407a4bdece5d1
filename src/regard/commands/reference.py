"""What can be trained and set: `regard recipes`, `regard explain train.warmup`, `regard explain model`, pages in docs/reference.

Recipes are listed by what they say about themselves. Types, defaults and takers of keys are read from the dataclasses, meanings
from `runs/key_meanings.toml`. No model is built, so torch is not needed, unless a key is a setting of a model or an objective.
`python -m regard.commands.reference` writes the pages.
"""

from __future__ import annotations

import dataclasses
import sys
import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.core.config import Bounds, build, format_value
from regard.core.errors import UserError, nearest
from regard.decode.config import DecodeConfig
from regard.families import FAMILIES
from regard.objectives import OBJECTIVES
from regard.runs.recipe import SECTIONS, About, TaskConfig, builtin_names, named_tables
from regard.runs.task import TASKS

COUNTED_IN_WORDS = ("word", "spaced", "character")  # of these there may be fewer than planned; of pieces there are not


def recipe_rows() -> list[dict[str, Any]]:
    """Return a row for each built-in recipe, as JSON has it; no parameters where they depend on a checkpoint."""
    return [_row(name) for name in builtin_names()]


def recipe_table() -> str:
    """Return a table of all built-in recipes: name, title, size, time, score and command."""
    rows, lines = recipe_rows(), list[str]()
    margin = 1 + max(len(row["name"]) for row in rows)
    for row in rows:
        about = (row["title"], f"{_size(row)} · {row['minutes']:g} min on {row['hardware']} · {row['score']}", row["command"])
        lines += [f"{row['name'] if line is about[0] else '':<{margin}} {line}" for line in about] + [""]
    return "\n".join(lines).rstrip()


def _row(name: str) -> dict[str, Any]:
    tables = named_tables(name)
    about, task = build(About, tables["recipe"], "recipe"), build(TaskConfig, tables["task"], "task")
    text: Any = build(TASKS[task.name].text, tables["text"], "text")
    told = ("title", "paper", "rows", "command", "minutes", "hardware", "score", "parameters")
    about_it = {"name": about.name, "task": task.name} | {key: getattr(about, key) for key in told}
    return about_it | {"at_most": text.tokenizer in COUNTED_IN_WORDS}


def _size(row: dict[str, Any]) -> str:
    if (parameters := row["parameters"]) is None:
        return "by what it starts from"
    most = "up to " if row["at_most"] else ""
    return f"{most}{parameters / 1e6:.1f}M parameters" if parameters >= 1e5 else f"{most}{parameters / 1e3:.0f}k parameters"


PAGES = Path("docs/reference")
ABOUT = {
    "recipe": "What a recipe says about itself. These keys change no training.",
    "task": "What is learned, and from which initial weights.",
    "data": "Which data is read, and how. The keys depend on the task.",
    "text": "How text becomes tokens.",
    "model": "Architecture and sizes. The keys depend on `model.family`, and the families on the task.",
    "objective": "What is minimised. The keys depend on `objective.name`, and the objectives on the task.",
    "train": "Optimizer, schedule, batches, checkpoints.",
    "decode": "How a trained model writes text. Every key can be given to a trained run.",
}
CHOICES = {"task.name": "translation", "model.family": "the task's first family", "objective.name": "the task's first objective"}
TAKERS = {"model": "families", "objective": "objectives"}  # and tasks elsewhere
KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Variant:
    """One type and meaning of a key, and the tasks, families or objectives that have it so, by its default there."""

    kind: str
    meaning: str
    takers: dict[str, list[str]]

    def default(self) -> str:
        """Return the default, or each of them with its takers."""
        if len(self.takers) == 1:
            return next(iter(self.takers))
        return ", ".join(f"{default} ({', '.join(names)})" for default, names in self.takers.items())

    def names(self) -> list[str]:
        """Return the takers, in the order of their defaults."""
        return [name for names in self.takers.values() for name in names]


@dataclass(frozen=True)
class Key:
    """A key of a recipe in all its variants."""

    name: str
    variants: tuple[Variant, ...]
    owners: tuple[str, ...]  # every task, family or objective of the section

    def who(self, variant: Variant) -> str:
        """Return the takers of a variant for people: all, all but two, or a list."""
        names = variant.names()
        others = [name for name in self.owners if name not in names]
        if len(others) > 2 or len(others) >= len(names):
            return ", ".join(names)
        return f"all but {' and '.join(others)}" if others else "all"

    def as_dict(self) -> dict[str, Any]:
        return {"key": self.name, "variants": [dataclasses.asdict(variant) for variant in self.variants]}


def is_key(target: str) -> bool:
    """Return whether `target` names a section or a key of recipes, mistyped or not, and no file."""
    section, dot, name = target.partition(".")
    if target in SECTIONS:
        return not Path(target).exists()
    return bool(dot) and section.isidentifier() and name.isidentifier() and name != "toml" and not Path(target).exists()


def find_keys(target: str) -> list[Key]:
    """Return the key called `target`, or all keys of the section called so."""
    section, _, name = target.partition(".")
    if section not in SECTIONS:
        raise UserError(f"{target}: there is no section {section!r}{nearest(section, SECTIONS)}")
    keys = section_keys(section)
    if not name:
        return list(keys.values())
    if name not in keys:
        listed = f"'regard explain {section}' lists its keys."
        raise UserError(f"{target} is not a setting{nearest(name, keys, f'{section}.')} {listed}")
    return [keys[name]]


def section_keys(section: str) -> dict[str, Key]:
    """Return every key of a section by its name, in the order of the dataclasses."""
    meanings = _meanings()
    owners = list(_owners(section))
    found: dict[str, dict[tuple[str, str], dict[str, list[str]]]] = {}
    for taker, cls in owners:
        hints = get_type_hints(cls, include_extras=True)
        for field in dataclasses.fields(cls):
            meaning = meanings["only"].get(f"{section}.{field.name}", {}).get(taker) or meanings[section].get(field.name, "")
            kind, default = _kind(hints[field.name]), _default(field)
            if f"{section}.{field.name}" in CHOICES:  # one name each, which is not its default
                kind, default = "one of " + ", ".join(name for name, _ in owners), CHOICES[f"{section}.{field.name}"]
            defaults = found.setdefault(field.name, {}).setdefault((kind, meaning), {})
            defaults.setdefault(default, []).append(taker)
    return {
        name: Key(
            f"{section}.{name}",
            tuple(Variant(kind, meaning, takers) for (kind, meaning), takers in variants.items()),
            tuple(name for name, _ in owners),
        )
        for name, variants in found.items()
    }


def _meanings() -> dict[str, dict[str, Any]]:
    text = resources.files("regard.runs").joinpath("key_meanings.toml").read_text("utf-8")
    return {section: {} for section in (*SECTIONS, "only")} | tomllib.loads(text)


def _owners(section: str) -> Iterator[tuple[str, type]]:
    """Yield every task, family or objective with the dataclass that holds its keys of this section."""
    if section == "model":
        yield from ((name, FAMILIES[name].config) for name in FAMILIES)
    elif section == "objective":
        yield from ((name, OBJECTIVES[name]) for name in OBJECTIVES)
    elif section in ("recipe", "task", "decode"):
        cls = {"recipe": About, "task": TaskConfig, "decode": DecodeConfig}[section]
        yield from ((task, cls) for task in TASKS)
    else:
        yield from ((task, getattr(sections, section)) for task, sections in TASKS.items())


def _kind(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [f", {item}" for item in arguments[1:] if isinstance(item, Bounds)]
        return _kind(arguments[0]) + "".join(bounds)
    if origin in (Union, types.UnionType):
        return _kind(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    return f"list of {_kind(arguments[0])}s" if origin is tuple else KINDS[hint]


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default is None or field.default in ("", ()):
        return "none"
    return f"{field.default:g}" if isinstance(field.default, float) else format_value(field.default)


# --- text and pages ----------------------------------------------------------------------------------------------------------


def explain_key(target: str) -> str:
    """Return the text that `regard explain KEY` or `regard explain SECTION` prints."""
    keys = find_keys(target)
    if "." in target:
        return "\n".join(_entry(keys[0]))
    first = max(len(key.name) for key in keys) + 2
    lines = [f"[{target}] {ABOUT[target]}", ""]
    for key in keys:
        begun = wrap(key.variants[0].meaning, 100)
        lines += [f"{name:<{first}}{line}" for name, line in zip([key.name, *[""] * len(begun)], begun)]
    return "\n".join([*lines, "", f"'regard explain {keys[-1].name}' gives type, default and who takes a key."])


def _entry(key: Key) -> list[str]:
    section = key.name.partition(".")[0]
    lines = [key.name]
    for variant in key.variants:
        lines += [f"  {line}" for line in wrap(variant.meaning, 118)]
        facts = {"type": variant.kind, "default": variant.default(), TAKERS.get(section, "tasks"): key.who(variant)}
        for name, fact in facts.items():
            begun = wrap(fact, 105)
            lines += [f"    {label:<12}{line}" for label, line in zip([name, *[""] * len(begun)], begun)]
    if section not in ("recipe", "task"):
        lines += [f"  Set it as {key.name}=VALUE with any command that opens a recipe or a run."]
    return lines


def render_page(section: str) -> str:
    """Return the reference page of one section as Markdown."""
    lines = [f"# Settings: [{section}]", "", ABOUT[section], ""]
    lines += [f"| key | meaning | type | default | {TAKERS.get(section, 'tasks')} |", "|---|---|---|---|---|"]
    for key in section_keys(section).values():
        for variant in key.variants:
            cells = (f"`{key.name}`", variant.meaning, variant.kind, variant.default(), key.who(variant))
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def render_index() -> str:
    """Return the page that lists the sections and says which families and objectives each task has."""
    lines = [
        "# Settings",
        "",
        "A recipe is a TOML file with these sections. Every key can be typed as `section.key=value` behind a command; "
        "`regard explain train.warmup` explains one key, `regard explain train` lists a section. These pages are written by "
        "`python -m regard.commands.reference`.",
        "",
        "| section | holds |",
        "|---|---|",
        *(f"| [{section}]({section}.md) | {ABOUT[section]} |" for section in SECTIONS),
        "",
        "| `task.name` | `model.family` (the first is the default) | `objective.name` |",
        "|---|---|---|",
    ]
    lines += [f"| {task} | {', '.join(found.families())} | {', '.join(found.objectives)} |" for task, found in TASKS.items()]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return every page of the reference by its file name."""
    return {"README.md": render_index()} | {f"{section}.md": render_page(section) for section in SECTIONS}


def main(folder: Path = PAGES) -> None:
    """Write the pages into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

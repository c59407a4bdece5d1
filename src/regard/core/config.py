"""Strict settings: tables of plain values become frozen dataclasses, and an unknown key is an error that names the nearest key.

Every component owns its dataclass; this file only fills them, from TOML or from `section.key=value` on the command line. The
values that a number may have are part of its type, and `check_bounds` in `__post_init__` holds every instance to them:

    heads: Count = 8                                          model.heads=0 must be at least 1.
    dropout: Fraction = 0.1                                   model.dropout=1.0 must be at least 0 and less than 1.
    limit: Annotated[int, Bounds(0, zero="all")] = 0           data.limit=-1 must be 0 (all) or more.

The parts that settings name stand in a `LazyRegistry`, which imports one when it is asked for, so that a command waits only for
what it uses.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.core.errors import UserError, nearest

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The finite numbers that a setting may have, from `least` to `most`, and 0 where `zero` says what it means."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False  # `least` itself is excluded
    below: bool = False  # `most` itself is excluded
    zero: str = ""  # what 0 means, where it is special
    example: str = ""

    def __contains__(self, value: float) -> bool:
        inside = (self.least < value if self.above else self.least <= value) and (
            value < self.most if self.below else value <= self.most
        )
        return (inside and math.isfinite(value)) or (bool(self.zero) and value == 0)

    def __str__(self) -> str:
        least, most = f"{self.least:,g}", f"{self.most:,g}"
        bounded = self.most < math.inf
        if self.zero:
            said = f"0 ({self.zero}) or " + ("more" if self.least <= 1 else f"at least {least}")
            said += f" and {'less than' if self.below else 'at most'} {most}" * bounded
        elif self.least == -math.inf:
            said = "a finite number"
        elif not bounded:
            said = f"above {least}" if self.above else f"at least {least}" if self.least else "0 or more"
        elif self.above:
            said = f"between {least} and {most}" if self.below else f"above {least} and at most {most}"
        else:
            said = f"at least {least} and less than {most}" if self.below else f"from {least} to {most}"
        return said + f", such as {self.example}" * bool(self.example)


Count = Annotated[int, Bounds(1)]
Fraction = Annotated[float, Bounds(0, 1, below=True)]


def check_bounds(config: Any, prefix: str) -> None:
    """Refuse a number outside the `Bounds` of its field; `prefix` is what precedes the key when typed, such as "data."."""
    for key, allowed in _bounds(config.__class__).items():
        if (value := getattr(config, key)) not in allowed:
            raise UserError(f"{prefix}{key}={value} must be {allowed}.")


@cache
def _bounds(cls: Any) -> dict[str, Bounds]:
    """Return the bounds of each field; a subclass that declares only another default keeps those of its base."""
    hints = (hint for base in reversed(cls.__mro__) for hint in get_type_hints(base, include_extras=True).items())
    annotated = ((name, item) for name, hint in hints for item in getattr(hint, "__metadata__", ()))
    return {name: item for name, item in annotated if isinstance(item, Bounds)}


class Typed(str):
    """A value as typed on the command line: text whose type the field decides."""


def build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Fill the dataclass `cls` from `table`, the recipe's section called `where`."""
    check_names(cls, table, where)
    hints = get_type_hints(cls)
    values = {key: _value(value, hints[key], f"{where}.{key}") for key, value in table.items()}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in values:
            raise UserError(f"{where}.{field.name} is missing; set it in the recipe or as {where}.{field.name}=VALUE.")
    return cls(**values)


def check_names(cls: type, table: Mapping[str, Any], where: str) -> None:
    """Refuse a key of `table` that is no field of the dataclass `cls`."""
    names = [field.name for field in dataclasses.fields(cls)]
    for key in table:
        if key not in names:
            raise UserError(f"{where}.{key} is not a setting{nearest(key, names, f'{where}.')}")


def _value(value: Any, hint: Any, key: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(value, next(a for a in arguments if a is not type(None)), key)
    if origin is Literal:
        choices = {str(choice): choice for choice in arguments}
        if str(value) not in choices:
            raise UserError(f"{key}={value!s} is not a choice{nearest(str(value), choices)}")
        return choices[str(value)]
    if origin is tuple:
        items = [Typed(item) for item in value.split(",") if item] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise UserError(f"{key}={value!r} must be a list or a comma-separated text.")
        return tuple(_value(item, arguments[0], key) for item in items)
    return _typed(value, hint, key) if isinstance(value, Typed) else _plain(value, hint, key)


KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _typed(text: Typed, hint: type, key: str) -> Any:
    if hint is str:
        return str(text)
    try:
        if hint is bool:
            return {"true": True, "false": False}[text.lower()]
        return _whole(int(text.replace("_", "")), key) if hint is int else hint(text)
    except (ValueError, KeyError):
        raise UserError(f"{key}={text} must be {KINDS[hint]}.") from None


def _plain(value: Any, hint: type, key: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023:
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UserError(f"{key}={value!r} must be {KINDS[hint]}.")
    return _whole(value, key) if isinstance(value, int) and hint is int else value


def _whole(number: int, key: str) -> int:
    """Return `number` if it fits into 64 bits."""
    if not -(2**63) <= number < 2**63:
        raise UserError(f"{key} must be a whole number below 2**63, and this one has {len(str(abs(number)))} digits.")
    return number


def override(tables: dict[str, dict[str, Any]], assignments: list[str]) -> None:
    """Apply `section.key=value` texts to tables in place; types are checked when the dataclass is built."""
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot and name):
            raise UserError(f"{assignment!r} is not a setting; write section.key=value, such as train.steps=500.")
        if section not in tables:
            raise UserError(f"{key}: there is no section {section!r}{nearest(section, tables)}")
        if any("\ud800" <= character <= "\udfff" for character in value):  # bytes that are not UTF-8, as Python passes them on
            raise UserError(f"{key}={value!a} is not UTF-8; write it in UTF-8, and rename the file if it is one's name.")
        tables[section][name] = Typed(value.strip())


def format_value(value: Any) -> str:
    """Return a value as one would type it on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_toml(sections: Mapping[str, Any]) -> str:
    """Return dataclasses as TOML text that `build` reads back to equal values; None, which TOML cannot write, is left out."""
    parts = []
    for name, section in sections.items():
        values = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}
        lines = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character JSON allows and TOML does not
    return str(value).lower() if isinstance(value, bool) else repr(value)


def refuse_unused(config: Any, settings: type[Any], key: str, owner: str) -> None:
    """Refuse settings that belong to one choice, model.KEY=OWNER, where another is chosen and they would do nothing."""
    if (chosen := getattr(config, key)) != owner:
        for field in dataclasses.fields(settings):
            if (value := getattr(config, field.name)) != field.default:
                raise UserError(
                    f"model.{field.name}={value} is for model.{key}={owner}; with {chosen} it does nothing: leave it out."
                )


Entry = TypeVar("Entry")


class LazyRegistry(Mapping[str, Entry]):
    """A table from names to objects of modules, written `module:attribute`. Names are listed and compared without any import."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places, self._registered = dict(places), dict[str, Entry]()

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry that is imported already, such as a plugin's."""
        self._places.setdefault(name, "")
        self._registered[name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name in self._registered:
            return self._registered[name]
        module, _, attribute = self._places[name].partition(":")
        found: Entry = getattr(import_module(module), attribute)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

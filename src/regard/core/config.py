"""Strict settings: tables of plain values become frozen dataclasses, and an unknown key is an error that names the nearest key.

Every component owns its dataclass; this file only fills them, from TOML or from `section.key=value` on the command line.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.core.errors import UserError, nearest

T = TypeVar("T")


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
            raise UserError(f"{where}.{key} is not a setting{nearest(key, names)}")


def _value(value: Any, hint: Any, key: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(value, next(a for a in arguments if a is not type(None)), key)
    if origin is Literal:
        if value not in arguments:
            raise UserError(f"{key}={value!s} is not a choice{nearest(str(value), map(str, arguments))}")
        return str(value)
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
    """A count or a seed that fits the 64 bits it will be kept in."""
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
        if not _is_unicode(value):
            raise UserError(f"{key}={value!a} is not UTF-8; write it in UTF-8, and rename the file if it is one's name.")
        tables[section][name] = Typed(value.strip())


def as_typed(value: Any) -> str:
    """A value as one would type it on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_unicode(text: str) -> bool:
    """Whether every byte that was typed could be read; Python smuggles the others in as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def to_toml(sections: Mapping[str, Any]) -> str:
    """Dataclasses as TOML text that `build` reads back to equal values. TOML has no null: what is None is left out."""
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

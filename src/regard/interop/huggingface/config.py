"""`config.json` into our settings and back, by a layout's table of keys. What the table does not know is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from regard.core.errors import UserError
from regard.interop.huggingface.mapping import SETTINGS, Choice, Config, Flag, Ignored, Layout, Meaning, Number, Only, Raw

ONLY_IN_TRAINING = ("word_dropout", "output_dropout", "deviation", "drop_path")  # transformers has no keys for these


class Understood(NamedTuple):
    config: Config
    vocabulary: int
    notes: tuple[str, ...]  # sentences on what does not change a prediction but is not the same in training
    target_vocabulary: int = 0  # that is written; 0: the same


def understand(raw: Mapping[str, Any], layout: Layout, where: str) -> Understood:
    """Build our config from `config.json`; `where` names the file in errors."""
    for key, value in raw.items():
        if key not in layout.keys:
            raise UserError(
                f"{where} has {_said(key, value)}, which this version of Regard does not know; it may change the mathematics."
            )
    settings: dict[str, Any] = {}
    notes = []
    for key, meaning in layout.keys.items():
        if isinstance(meaning, Only | Ignored):
            if key in raw:
                _check_only(meaning, key, raw[key], where)
            continue
        value = _value(meaning, key, raw.get(key, meaning.default), where)
        if settings.setdefault(meaning.setting, value) != value:
            kept = settings[meaning.setting]
            notes.append(
                f"{where} has {_said(key, value)}; when Regard trains, model.{meaning.setting}={kept} stands for it too."
            )
    try:
        given = dict(layout.ours({setting: value for setting, value in settings.items() if value is not None}))
        vocabulary, target = given.pop("vocabulary", 0), given.pop("target_vocabulary", 0)
        return Understood(layout.config(**{**layout.implied(given), **given}), vocabulary, tuple(notes), target)
    except UserError as error:
        raise UserError(f"{where} asks for what no model can be: {error}") from error


def express(config: Config, vocabulary: int, layout: Layout, target_vocabulary: int = 0) -> dict[str, Any]:
    """Return the keys of `config.json` that describe this model."""
    own = {field.name: getattr(config, field.name) for field in fields(config)}
    settings = layout.theirs(own | {"vocabulary": vocabulary, "target_vocabulary": target_vocabulary or vocabulary})
    # A setting that has no key must be what is implied; one that this table was written before must be at its default.
    implied = {field.name: field.default for field in fields(config)} | dict(layout.implied(own))
    keys = {key: meaning for key, meaning in layout.keys.items() if isinstance(meaning, SETTINGS)}
    said = {meaning.setting for meaning in keys.values()} | {"vocabulary", "target_vocabulary"}
    for setting, value in settings.items():
        if setting in implied and setting not in (*said, *ONLY_IN_TRAINING, *layout.elsewhere) and value != implied[setting]:
            raise UserError(
                f"model.{setting}={value} cannot be written as {layout.model_type} of transformers, "
                f"which has only model.{setting}={implied[setting]}."
            )
    values = {key: _their_value(meaning, key, settings[meaning.setting], layout) for key, meaning in keys.items()}
    return {**layout.always, **values}


def _value(meaning: SETTINGS, key: str, value: Any, where: str) -> Any:
    if isinstance(meaning, Raw):
        return value
    if isinstance(meaning, Flag):
        if not isinstance(value, bool):
            raise UserError(f"{where} has {_said(key, value)}; true or false is expected.")
        return value
    if isinstance(meaning, Choice):
        if not isinstance(value, str) or value not in meaning.names:
            known = ", ".join(meaning.names)
            raise UserError(f"{where} has {_said(key, value)}, which this version of Regard does not compute; it knows {known}.")
        return meaning.names[value]
    if value is None and meaning.default is None:
        return None
    if meaning.whole and (type(value) is not int or value < meaning.least):
        raise UserError(f"{where} has {_said(key, value)}; a whole number of at least {meaning.least} is expected.")
    if type(value) not in (int, float):
        raise UserError(f"{where} has {_said(key, value)}; a number is expected.")
    return value if meaning.whole else float(value)


def _check_only(meaning: Meaning, key: str, value: Any, where: str) -> None:
    if isinstance(meaning, Only) and value not in meaning.values:
        raise UserError(f"{where} has {_said(key, value)}; this version of Regard computes only {_said(key, meaning.values[0])}.")


def _their_value(meaning: SETTINGS, key: str, value: Any, layout: Layout) -> Any:
    if isinstance(meaning, Flag | Raw):
        return value
    if isinstance(meaning, Number):
        if meaning.whole and value < meaning.least:
            raise UserError(
                f"This model cannot be written as {layout.model_type} of transformers: it would have {_said(key, value)}, and "
                f"{meaning.least} is the least there."
            )
        return value
    for theirs, ours in meaning.names.items():
        if ours == value:
            return theirs
    known = ", ".join(dict.fromkeys(meaning.names.values()))
    raise UserError(
        f"model.{meaning.setting}={value} cannot be written as {layout.model_type} of transformers, which has only: {known}."
    )


def _said(key: str, value: Any) -> str:
    """Return a value as text, in one line and not long."""
    name, text = key if key.isidentifier() else json.dumps(key), json.dumps(value)
    return "=".join(part if len(part) <= 60 else f"{part[:57]}..." for part in (name, text))

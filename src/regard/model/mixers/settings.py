"""Settings that belong to one mixer: a recipe key that would do nothing with another mixer is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from regard.core.errors import UserError


def refuse_unused(config: Any, settings: type[Any], mixer: str, owner: str) -> None:
    """Refuse negative values of these settings, and any value with a mixer that is not their owner."""
    for key in (field.name for field in fields(settings)):
        if (value := getattr(config, key)) < 0:
            raise UserError(f"model.{key}={value} must be 0 or more.")
        if value and mixer != owner:
            raise UserError(f"model.{key}={value} is for model.mixer={owner}; with {mixer} it does nothing: leave it out.")

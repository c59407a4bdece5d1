"""The small JSON files of public folders, read with a sentence for what may be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import UserError


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"There is no {path}; download or copy it from where the weights come from.") from None
    except (ValueError, RecursionError, OSError) as error:  # of JSON or of UTF-8
        raise UserError(f"{path} cannot be read as JSON ({error}); download or copy it again.") from error


def read_object(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__}; a JSON object is expected.")
    return found

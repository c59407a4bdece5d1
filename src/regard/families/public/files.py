"""The files of public folders, read with a sentence for what may be wrong with them; links in them do not lead elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from regard import files
from regard.errors import UserError
from regard.files import MIB, open_regular, told_size
from regard.terminal import quoted

MOST_TENSORS = 20_000  # a BERT of 48 layers has some 800
LARGEST_HEADER = 16 * MIB
LONGEST_NAME = 200  # characters


def read_json(path: Path, folder: Path) -> Any:
    if not os.path.lexists(path):
        raise UserError(f"There is no {path}; download or copy it from where the weights come from.")
    return files.read_json(path, within=folder)


def read_object(path: Path, folder: Path) -> dict[str, Any]:
    found = read_json(path, folder)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__}; a JSON object is expected.")
    return found


def check_tensor_file(path: Path, folder: Path) -> None:
    """Look at the header of a safetensors file before the library parses it: how many tensors it names, and how.

    That they lie one after the other and fill the file, the library checks.
    """
    with open_regular(path, within=folder) as file:
        size = int.from_bytes(file.read(8), "little")
        rest = os.fstat(file.fileno()).st_size - 8
        if size > rest:
            raise _damaged(path, f"its header should have {told_size(size)}, and there are {told_size(max(0, rest))}")
        if size > LARGEST_HEADER:
            raise UserError(f"{path} has a header of {told_size(size)}; up to {told_size(LARGEST_HEADER)} are read.")
        header = file.read(size)
    if header.count(b"{") > MOST_TENSORS + 2:
        raise UserError(f"{path} has more than {MOST_TENSORS:,} tensors, as no model has that can be opened here.")
    try:
        names = list(json.loads(header))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, quoted(str(error), 100)) from None
    if long := next((name for name in names if len(name) > LONGEST_NAME), ""):
        raise UserError(f"{path} has a tensor with a name of {len(long):,} characters, {quoted(long, 60)}; it is not opened.")


def _damaged(path: Path, what: str) -> UserError:
    return UserError(f"{path} cannot be read ({what}); it is damaged or cut short: download or copy it again.")

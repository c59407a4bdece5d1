"""Built-in corpora that need no network: fixed rows, shipped as rows/NAME-SPLIT.jsonl.gz and written by tools/corpora.

    english-french   dates        pairs of texts                              data/sources/parallel.py
    reports                       texts with a summary                        data/sources/text_pairs.py
    remarks  reviews  inference  similarity     texts or pairs with a label    data/sources/labelled.py
    dispatches                    words and their entity tags                  data/sources/tagged.py
    stories                       questions about a text                       data/sources/qa.py
    smalltalk                     dialogues                                    data/sources/dialogues.py

Every row is a JSON array of fields. Corpora that depend on settings or on the machine stay code: `scenes` (drawn images),
`python_reference` (the text that comes with this Python) and the tasks of `data/lra`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from regard.core.errors import UserError, nearest

ROWS = Path(__file__).parent / "rows"
SPLITS = ("train", "valid", "test")


def read_builtin(where: str, names: Collection[str], what: str, others: Iterable[str] = ()) -> list[list[Any]]:
    """Return the rows of builtin:NAME/SPLIT, NAME being one of `names`; `others` are suggested too when NAME is unknown."""
    name, _, split = where.removeprefix("builtin:").partition("/")
    if name not in names:
        raise UserError(f"There are no built-in {what} {name!r}{nearest(name, [*names, *others])}")
    if not split:
        raise UserError(f"{where} lacks a split. Type builtin:{name}/train, or /valid, or /test.")
    return builtin_rows(name, split)


def builtin_rows(name: str, split: str) -> list[list[Any]]:
    """Return all rows of one split of a corpus that is shipped, in the order of the corpus."""
    if split not in SPLITS:
        raise UserError(f"The built-in {name} has no split {split!r}{nearest(split, SPLITS)}")
    lines = gzip.decompress((ROWS / f"{name}-{split}.jsonl.gz").read_bytes()).decode().splitlines()
    return json.loads(f"[{','.join(lines)}]")

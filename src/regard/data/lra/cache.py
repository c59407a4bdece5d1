"""What was drawn once is kept in the cache folder, whole or not at all, and mapped from there the next time.

    KEY.flat      all symbols, one byte each
    KEY.npz       where each sequence ends and what it is, what was asked for, and the sha256 of the symbols; written last

The key is a hash of what was asked for. A file that is not what it says is made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from regard.core.errors import UserError
from regard.data.batching.token_cache import cache_folder
from regard.data.lra.generate import Drawn

FORMAT = 2  # raised whenever a generator draws other sequences than before
SMALL = 2**18  # symbols: so few are drawn again sooner than they are found


def kept(asked: str, make: Callable[[], Drawn], cache: Path | None = None) -> Drawn:
    """As it was kept, else made and kept."""
    folder = (cache or cache_folder()) / "arena"
    path = folder / sha256(f"{FORMAT} {asked}".encode()).hexdigest()[:32]
    if (found := _open(path, asked)) is not None:
        return found
    made = make()
    if made.flat.size <= SMALL:
        return made
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, asked, made)
    except OSError as error:
        raise UserError(
            f"what is drawn cannot be kept in {folder}: {error.strerror}. Make room there, or name another folder by the "
            "environment variable REGARD_CACHE."
        ) from None
    return made


def _open(path: Path, asked: str) -> Drawn | None:
    """None if it is not there, or not whole."""
    try:
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as about:
            lengths, labels, told, digest = about["lengths"], about["labels"], str(about["asked"]), str(about["sha256"])
        flat = np.memmap(path.with_suffix(".flat"), np.uint8, "r")
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    if told != asked or len(flat) != lengths.sum() or sha256(flat.data).hexdigest() != digest:
        return None
    return Drawn(flat, lengths, labels)


def _write(path: Path, asked: str, made: Drawn) -> None:
    """Under names of this process alone until they are whole: others may draw the same at the same time."""
    drafts = {suffix: path.with_suffix(f"{suffix}.{os.getpid()}") for suffix in (".flat", ".npz")}
    try:
        drafts[".flat"].write_bytes(made.flat.data)
        digest = sha256(made.flat.data).hexdigest()
        with drafts[".npz"].open("wb") as file:
            np.savez(file, lengths=made.lengths, labels=made.labels, asked=asked, sha256=digest)
        for suffix, draft in drafts.items():
            draft.replace(path.with_suffix(suffix))
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)

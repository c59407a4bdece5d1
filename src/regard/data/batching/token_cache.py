"""Cache of encoded text: one flat file of token ids that is mapped into memory, so that no text is too long, no run waits twice.

    KEY.ids      the numbers of all documents, each followed by the end token; uint16 where the vocabulary fits, else uint32
    KEY.starts   where each document starts, int64
    KEY.json     how many, of what, and the sha256 of the numbers; written last, so what has none is not there

The key is a hash of everything the numbers depend on: the tokenizer, what was asked for, and path, size and time of every file
(of data from the hub, the name alone). What is in this folder can be deleted at any time: it is made again.

Documents are encoded in order, by a thread for each processor, a few batches at a time. Threads, not processes: `tokenizers`
releases Python's lock while it works, so two threads are 1.98 times as fast, need no second copy of the vocabulary, and are safe
in a process that has started torch.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core.atomic import flush_file, flush_folder
from regard.core.errors import UserError
from regard.core.files import open_append
from regard.data.builtin import describe_reference
from regard.data.sources.text import Part, files, parts
from regard.text.kinds import LONGEST
from regard.text.tokenizer import Tokenizer

FORMAT = 1
SAY_EVERY = 10.0  # seconds
STARTS = np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class Tokens:
    ids: np.ndarray  # mapped, not read
    starts: np.ndarray  # of the documents; the same
    documents: int
    bytes: int  # of the text, as UTF-8
    sha256: str  # of the ids


def tokenise(
    where: tuple[str, ...],
    column: str | None,
    tokenizer: Tokenizer,
    *,
    eos: int | None,
    cache: Path | None = None,
    say: Callable[[str], None] = print,
) -> Tokens:
    """Return documents (see `sources/text.py`) as token ids: from the cache if they are there, else encoded and cached.

    A document that gives no numbers, not even an `eos`, is left out. Of several processes that want the same, one makes it.
    """
    cache = cache or cache_folder()
    about = _asked(where, column, tokenizer, eos)
    path = cache / sha256(json.dumps(about).encode()).hexdigest()[:32]
    if (found := _open(path)) is not None:
        return found
    with _writable(cache), _alone(path, say):
        if (found := _open(path)) is None:
            dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
            _write(path, encode_parts(parts(where, column), tokenizer.encode_batch, eos, dtype), dtype, about, say)
            found = _open(path)
    assert found is not None
    return found


def cache_folder() -> Path:
    """Return $REGARD_CACHE, else $XDG_CACHE_HOME/regard, else ~/.cache/regard."""
    if given := os.environ.get("REGARD_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "regard"


def _asked(where: tuple[str, ...], column: str | None, tokenizer: Tokenizer, eos: int | None) -> dict[str, Any]:
    """Return everything that the token ids depend on."""
    read = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for entry in where for path in files(entry)]
    builtin = describe_reference() if any(entry.startswith("builtin:") for entry in where) else None
    tokens = {"tokenizer": tokenizer.fingerprint(), "eos": eos}
    return {"format": FORMAT, "where": where, "column": column, "files": read, "builtin": builtin, **tokens}


def _open(path: Path) -> Tokens | None:
    """Return the cached tokens, or None if they are missing or damaged."""
    ids, starts = path.with_suffix(".ids"), path.with_suffix(".starts")
    try:
        about = json.loads(path.with_suffix(".json").read_text("utf-8"))
        dtype, tokens, documents = np.dtype(about["dtype"]), about["tokens"], about["documents"]
        if ids.stat().st_size != tokens * dtype.itemsize or starts.stat().st_size != documents * STARTS.itemsize:
            return None
        mapped = np.memmap(ids, dtype, "r"), np.memmap(starts, STARTS, "r")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Tokens(*mapped, documents, about["bytes"], about["sha256"])


def _write(path: Path, encoded: Iterator[Encoded], dtype: np.dtype, about: dict[str, Any], say: Callable[[str], None]) -> None:
    drafts = {suffix: path.with_suffix(f"{suffix}.part") for suffix in (".ids", ".starts", ".json")}
    try:
        with drafts[".ids"].open("wb") as ids_file, drafts[".starts"].open("wb") as starts_file:
            digest, tokens, documents, size, begin = sha256(), 0, 0, 0, 0
            for batch in _watched(encoded, say):
                ends = batch.ends + tokens
                starts = np.concatenate([[begin], ends])
                kept = starts[:-1][starts[:-1] < ends]
                ids_file.write(batch.ids.data)
                starts_file.write(kept.astype(STARTS).data)
                digest.update(batch.ids.data)
                begin, tokens = int(starts[-1]), tokens + len(batch.ids)
                documents, size = documents + len(kept), size + batch.bytes
        if not tokens:
            raise UserError(
                f"{', '.join(about['where'])}: the tokenizer makes no tokens of this text. Give it an end token, or text."
            )
        counted = {"tokens": tokens, "documents": documents, "bytes": size, "sha256": digest.hexdigest(), "dtype": dtype.name}
        drafts[".json"].write_text(json.dumps(counted | about, indent=1, ensure_ascii=False), "utf-8")
        for suffix, draft in drafts.items():
            flush_file(draft)
            draft.replace(path.with_suffix(suffix))
        flush_folder(path.parent)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def _watched(encoded: Iterator[Encoded], say: Callable[[str], None]) -> Iterator[Encoded]:
    """Yield the same items, and report progress from time to time."""
    began = said = time.perf_counter()
    size = tokens = 0
    for batch in encoded:
        yield batch
        size, tokens = size + batch.bytes, tokens + len(batch.ids)
        if (now := time.perf_counter()) - said >= SAY_EVERY:
            said = now
            say(f"tokenising: {size / 1e6:,.0f} MB of text, {tokens:,} tokens, {size / 1e6 / (now - began):.1f} MB a second")


@contextmanager
def _alone(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock, so that one process works at a time; the system releases the lock of a process that dies."""
    with open_append(path.with_suffix(".lock")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that is tokenising the same text")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _writable(cache: Path) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UserError(
            f"the tokens of the text cannot be kept in {cache}: {error.strerror or error}. Make room there or make it writable, "
            "or name another folder by the environment variable REGARD_CACHE."
        ) from error


Encode = Callable[[Sequence[str]], list[list[int]]]


class Encoded(NamedTuple):
    """Some parts, one after the other."""

    ids: np.ndarray
    ends: np.ndarray  # how many of the ids come up to the end of each document that ends here
    bytes: int  # of the text, as UTF-8


def encode_parts(parts: Iterator[Part], encode: Encode, eos: int | None, dtype: np.dtype) -> Iterator[Encoded]:
    """Encode documents, each followed by `eos` if there is one."""
    threads = processors()
    waiting: deque[Future[Encoded]] = deque()
    with ThreadPoolExecutor(threads, "tokenise") as pool:
        for batch in _batches(parts):
            waiting.append(pool.submit(_encode, batch, encode, eos, dtype))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _batches(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Group small documents into batches of about the size of a large part."""
    batch: list[Part] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part.text)
        if size >= LONGEST:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _encode(batch: list[Part], encode: Encode, eos: int | None, dtype: np.dtype) -> Encoded:
    end = [] if eos is None else [eos]
    rows = [ids + end if part.ends else ids for part, ids in zip(batch, encode([part.text for part in batch]))]
    reached = accumulate(map(len, rows))
    ends = np.array([n for n, part in zip(reached, batch) if part.ends], np.int64)
    ids = np.array([n for row in rows for n in row], dtype)
    return Encoded(ids, ends, sum(len(part.text.encode()) for part in batch))


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Generation of labelled sequences: numbered chunks, splits that share nothing, several processes, a cache.

A generator is asked for chunk 0, 1, 2, ... of a seed and answers each with however many sequences that chunk is good for. The
sequences of the chunks, in order, make up the split, so a smaller split is the beginning of a larger one.
Where sequences may be so short that chance draws one twice, a hash of its symbols says which split it may be in: of ten, eight
are training's. So no two splits have one in common, whatever the lengths they were asked for. No split has one twice.

Where that takes long, several processes draw: of sixteen, number 3 draws chunks 3, 19, 35, ... and writes them to a pipe. They
are started as programs, not forked: a process that has started torch or its threads must not be copied, and a script that trains
need not guard itself. A pipe holds little, so no process draws far ahead.

Splits are cached, complete or not at all, under a hash of what was asked for; a damaged file is drawn again:

    KEY.flat      all symbols, one byte each
    KEY.npz       lengths, labels, what was asked for, and the sha256 of the symbols; written last
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b, sha256
from itertools import count, cycle
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from regard.core.errors import UserError
from regard.core.rng import generator
from regard.data.batching.token_cache import cache_folder, processors

PARTS = {"train": range(8), "valid": range(8, 9), "test": range(9, 10)}  # of ten, by the hash
IN_VAIN = 50  # chunks without a single new sequence: there are hardly more


class Range(NamedTuple):
    least: int
    most: int

    @classmethod
    def read(cls, text: str) -> Range:
        """Parse `20-40`, or `20` for that length alone."""
        least, dash, most = text.partition("-")
        numbers = [int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else 0 for part in (least, most or least)]
        if not 1 <= numbers[0] <= numbers[1] or bool(dash) != bool(most):
            raise UserError(f"{text!r} is no range of lengths; write two whole numbers, the smaller first, such as 20-40.")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.least}-{self.most}"


class Request(NamedTuple):
    """The request that `builtin:NAME@KEY=VALUE/SPLIT` makes."""

    name: str
    settings: Any
    split: str
    size: int
    seed: int


class SequenceArrays(NamedTuple):
    """Sequences one after the other, and what they are."""

    flat: np.ndarray  # uint8
    lengths: np.ndarray
    labels: np.ndarray

    @classmethod
    def none(cls) -> SequenceArrays:
        return cls(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: list[SequenceArrays]) -> SequenceArrays:
        return cls(*(np.concatenate(each) for each in zip(*parts)))

    def first(self, count: int) -> SequenceArrays:
        return SequenceArrays(self.flat[: int(self.lengths[:count].sum())], self.lengths[:count], self.labels[:count])

    def kept(self, kept_N: np.ndarray) -> SequenceArrays:
        return SequenceArrays(self.flat[np.repeat(kept_N, self.lengths)], self.lengths[kept_N], self.labels[kept_N])

    def hashes(self) -> np.ndarray:
        """Return a hash of 64 bits for each sequence: too many bits for collisions among a hundred thousand."""
        ends, symbols = np.cumsum(self.lengths), self.flat.tobytes()
        begins = (ends - self.lengths).tolist()
        found = [blake2b(symbols[begin:end], digest_size=8).digest() for begin, end in zip(begins, ends.tolist())]
        return np.frombuffer(b"".join(found), ">u8").astype(np.uint64)


class Generator(NamedTuple):
    """A generator of one kind of sequences."""

    name: str
    draw: Callable[[Any, np.random.Generator], SequenceArrays]
    settings: type
    symbols: tuple[str, ...]
    labels: tuple[str, ...]
    sizes: Mapping[str, int]  # of the splits
    rate: int  # sequences a second, about
    parted: bool = True  # by a hash; else every split has a stream of chunks of its own

    def chunk(self, settings: Any, split: str, seed: int, number: int) -> SequenceArrays:
        return self.draw(settings, generator(seed, self.name if self.parted else f"{self.name}/{split}", number))


def collect_split(kind: Generator, chunks: Iterator[SequenceArrays], split: str, count: int) -> SequenceArrays:
    """Collect the first `count` different sequences of a split."""
    seen, parts, missing, in_vain = set[int](), [SequenceArrays.none()], count, 0
    for chunk in chunks:
        hashes = chunk.hashes()
        _, firsts = np.unique(hashes, return_index=True)
        fresh = np.zeros(len(hashes), bool)
        fresh[firsts] = [number not in seen for number in hashes[firsts].tolist()]
        if kind.parted:
            fresh &= np.isin(hashes % 10, PARTS[split])
        seen.update(hashes[fresh].tolist())
        part = chunk.kept(fresh).first(missing)
        parts.append(part)
        missing -= len(part.lengths)
        in_vain = 0 if len(part.lengths) else in_vain + 1
        if not missing:
            break
        if in_vain == IN_VAIN:
            raise UserError(
                f"builtin:{kind.name}/{split}: with these settings only {count - missing:,} different sequences were found, of "
                f"{count:,} wanted; ask for longer ones, or for fewer with @count={max(1, count - missing)}."
            )
    return SequenceArrays.joined(parts)


WORTH = 10.0  # seconds of drawing: to start a process takes some three
PACKAGE = Path(__file__).parents[3]


@contextmanager
def generate_chunks(entry: str, kind: Generator, asked: Request) -> Iterator[Iterator[SequenceArrays]]:
    """Yield an endless iterator of chunks in order: drawn here if that is quick, else by a process for each processor."""
    share = len(PARTS[asked.split]) / 10 if kind.parted else 1.0
    seconds = asked.size / share / kind.rate
    if seconds < WORTH or processors() == 1:
        yield (kind.chunk(asked.settings, asked.split, asked.seed, number) for number in count())
        return
    among = min(processors(), 1 + int(seconds / 2))
    started = [_start(entry, number, among) for number in range(among)]
    try:
        yield _received(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _start(entry: str, number: int, among: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", f"from {__name__} import main; main()", entry, str(number), str(among)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path})


def _received(started: list[subprocess.Popen[bytes]]) -> Iterator[SequenceArrays]:
    for process in cycle(started):
        assert process.stdout is not None
        if (chunk := read_chunk(process.stdout)) is None:
            raise UserError(
                f"a process that was drawing sequences ended with status {process.wait()}, with what it said above; is memory "
                "left? Ask for fewer with @count=N, or draw with fewer processors (taskset)."
            )
        yield chunk


def to_bytes(chunk: SequenceArrays) -> bytes:
    """Serialize a chunk: the numbers of symbols and sequences, then the arrays."""
    sizes = np.array([len(chunk.flat), len(chunk.lengths)])
    return b"".join(part.astype(kind).tobytes() for part, kind in zip((sizes, *chunk), "qBqq"))


def read_chunk(pipe: IO[bytes]) -> SequenceArrays | None:
    """Read a chunk from a pipe; None if the pipe has ended."""
    if len(head := pipe.read(16)) < 16:
        return None
    symbols, sequences = np.frombuffer(head, "q").tolist()
    if len(content := pipe.read(symbols + 16 * sequences)) < symbols + 16 * sequences:
        return None
    lengths, labels = np.frombuffer(content, "q", 2 * sequences, symbols).reshape(2, -1)
    return SequenceArrays(np.frombuffer(content, np.uint8, symbols), lengths, labels)


def main() -> None:
    """Draw this process's chunks and write them to stdout until the pipe is closed."""
    from regard.data.lra import SETS, parse_request

    entry, first, among = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    asked = parse_request(entry)
    try:
        for number in count(first, among):
            chunk = SETS[asked.name].chunk(asked.settings, asked.split, asked.seed, number)
            sys.stdout.buffer.write(to_bytes(chunk))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # the reader has closed the pipe, and nothing is left to tidy up


FORMAT = 2  # raised whenever a generator draws other sequences than before
SMALL = 2**18  # symbols: so few are drawn again sooner than they are found


def load_or_generate(asked: str, make: Callable[[], SequenceArrays], cache: Path | None = None) -> SequenceArrays:
    """Return the cached sequences, or generate and cache them."""
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


def _open(path: Path, asked: str) -> SequenceArrays | None:
    """Return the cached sequences, or None if they are missing or damaged."""
    try:
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as about:
            lengths, labels, request, digest = about["lengths"], about["labels"], str(about["asked"]), str(about["sha256"])
        flat = np.memmap(path.with_suffix(".flat"), np.uint8, "r")
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    if request != asked or len(flat) != lengths.sum() or sha256(flat.data).hexdigest() != digest:
        return None
    return SequenceArrays(flat, lengths, labels)


def _write(path: Path, asked: str, made: SequenceArrays) -> None:
    """Write under names with this process's id and rename: another process may write the same at the same time."""
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

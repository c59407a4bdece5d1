"""What a generator of labelled sequences draws, and how many draws become a split: counted, parted, in parallel, kept.

A generator is asked for chunk 0, 1, 2, ... of a seed and answers each with however many sequences that chunk is good for. The
first so many of the chunks, in order, are the split, so a smaller split is the beginning of a larger one, whoever drew it.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b, sha256
from itertools import count, cycle
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from regard.core.errors import UserError
from regard.core.rng import generator
from regard.data.batching.token_cache import cache_folder

PARTS = {"train": range(8), "valid": range(8, 9), "test": range(9, 10)}  # of ten, by the hash
IN_VAIN = 50  # chunks without a single new sequence: there are hardly more


class Range(NamedTuple):
    least: int
    most: int

    @classmethod
    def read(cls, text: str) -> Range:
        """`20-40`, or `20` for that alone."""
        least, dash, most = text.partition("-")
        numbers = [int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else 0 for part in (least, most or least)]
        if not 1 <= numbers[0] <= numbers[1] or bool(dash) != bool(most):
            raise UserError(f"{text!r} is no range of lengths; write two whole numbers, the smaller first, such as 20-40.")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.least}-{self.most}"


class Asked(NamedTuple):
    """What `builtin:NAME@KEY=VALUE/SPLIT` says."""

    name: str
    settings: Any
    split: str
    size: int
    seed: int


class Drawn(NamedTuple):
    """Sequences one after the other, and what they are."""

    flat: np.ndarray  # uint8
    lengths: np.ndarray
    labels: np.ndarray

    @classmethod
    def none(cls) -> Drawn:
        return cls(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: list[Drawn]) -> Drawn:
        return cls(*(np.concatenate(each) for each in zip(*parts)))

    def first(self, count: int) -> Drawn:
        return Drawn(self.flat[: int(self.lengths[:count].sum())], self.lengths[:count], self.labels[:count])

    def kept(self, kept_N: np.ndarray) -> Drawn:
        return Drawn(self.flat[np.repeat(kept_N, self.lengths)], self.lengths[kept_N], self.labels[kept_N])

    def hashes(self) -> np.ndarray:
        """Of 64 bits each: of a hundred thousand sequences no two meet by chance."""
        ends, symbols = np.cumsum(self.lengths), self.flat.tobytes()
        begins = (ends - self.lengths).tolist()
        found = [blake2b(symbols[begin:end], digest_size=8).digest() for begin, end in zip(begins, ends.tolist())]
        return np.frombuffer(b"".join(found), ">u8").astype(np.uint64)


class Generator(NamedTuple):
    """Of one kind of sequences."""

    name: str
    draw: Callable[[Any, np.random.Generator], Drawn]
    parted: bool  # by a hash; else every split has a stream of chunks of its own
    rate: int  # sequences a second, about

    def chunk(self, settings: Any, split: str, seed: int, number: int) -> Drawn:
        return self.draw(settings, generator(seed, self.name if self.parted else f"{self.name}/{split}", number))


def drawn(kind: Generator, chunks: Iterator[Drawn], split: str, count: int) -> Drawn:
    """The first `count` sequences of a split."""
    seen, parts, missing, in_vain = set[int](), [Drawn.none()], count, 0
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
    return Drawn.joined(parts)


WORTH = 10.0  # seconds of drawing: to start a process takes some three
PACKAGE = Path(__file__).parents[3]


@contextmanager
def chunks_of(entry: str, kind: Generator, asked: Asked) -> Iterator[Iterator[Drawn]]:
    """In their order, without end: by this process alone if it is soon done, else by as many as there are processors."""
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


def _received(started: list[subprocess.Popen[bytes]]) -> Iterator[Drawn]:
    for process in cycle(started):
        assert process.stdout is not None
        if (chunk := received(process.stdout)) is None:
            raise UserError(
                f"a process that was drawing sequences ended with status {process.wait()}, with what it said above; is memory "
                "left? Ask for fewer with @count=N, or draw with fewer processors (taskset)."
            )
        yield chunk


def handed_over(chunk: Drawn) -> bytes:
    """How many symbols and sequences there are, then all of it."""
    sizes = np.array([len(chunk.flat), len(chunk.lengths)])
    return b"".join(part.astype(kind).tobytes() for part, kind in zip((sizes, *chunk), "qBqq"))


def received(pipe: IO[bytes]) -> Drawn | None:
    """None where it ended."""
    if len(head := pipe.read(16)) < 16:
        return None
    symbols, sequences = np.frombuffer(head, "q").tolist()
    if len(content := pipe.read(symbols + 16 * sequences)) < symbols + 16 * sequences:
        return None
    lengths, labels = np.frombuffer(content, "q", 2 * sequences, symbols).reshape(2, -1)
    return Drawn(np.frombuffer(content, np.uint8, symbols), lengths, labels)


def main() -> None:
    """What a process does until the pipe is closed."""
    from regard.data.lra import SETS, asked_for

    entry, first, among = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    asked = asked_for(entry)
    try:
        for number in count(first, among):
            chunk = SETS[asked.name].generator.chunk(asked.settings, asked.split, asked.seed, number)
            sys.stdout.buffer.write(handed_over(chunk))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody wants more, and nothing is left to tidy up


def processors() -> int:
    """Those this process may use, where the system can tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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

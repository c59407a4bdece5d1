"""Running text for a task that learns from it: the vocabulary, the text as numbers, and a part that is held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError
from regard.data.batching.token_cache import Tokens, tokenise
from regard.data.sources.text import Part, files, parts
from regard.runs.folder import Say
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, start_of, vocabulary
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer

ENOUGH = 50_000_000  # characters of text to learn a vocabulary from
Change = Callable[[Tokenizer], Tokenizer]


class Text(NamedTuple):
    """A stretch of a token file, as whole documents or the part of one."""

    ids: np.ndarray
    starts: np.ndarray
    sha256: str  # of the file it is from, and where it lies in it

    @classmethod
    def of(cls, tokens: Tokens, begin: int, end: int) -> Text:
        inside = tokens.starts[np.searchsorted(tokens.starts, begin) : np.searchsorted(tokens.starts, end)]
        starts = inside - begin if len(inside) and inside[0] == begin else np.concatenate([[0], inside - begin])
        return cls(tokens.ids[begin:end], starts.astype(np.int64), f"{tokens.sha256}:{begin}-{end}")

    @property
    def amount(self) -> str:
        return f"{len(self.ids):,} tokens in {len(self.starts):,} document{'s' if len(self.starts) > 1 else ''}"


class Running(NamedTuple):
    tokenizer: Tokenizer
    train: Text
    valid: Text
    start: InitCheckpoint | None  # none too where the run has weights of its own by now


def read_running(recipe: Recipe, folder: Path | None, say: Say, *, ended: bool, complete: Change = lambda t: t) -> Running:
    """Learn or take the vocabulary, number the text, cut off what is held out. Nothing is written but the cache of numbers.

    Documents are `ended` by an end token, if there is one. What a learned vocabulary lacks for the task, `complete` adds.
    """
    data = recipe.data
    if not data.train:
        raise UserError("data.train is empty; give a text file, a folder, a pattern such as 'books/*.txt', or hf:NAME.")
    must_be_there(data.valid)
    begun = folder is not None and (folder / VOCABULARY).exists()
    start = start_of(recipe.task.init_from) if recipe.task.init_from and not begun else None
    tokenizer = vocabulary(recipe, folder, start, lambda: list(_enough(parts(data.train, data.column), say)))
    tokenizer = tokenizer if begun or start else complete(tokenizer)
    eos = tokenizer.roles.eos if ended else None
    train = tokenise(data.train, data.column, tokenizer, eos=eos, say=say)
    if data.valid:
        valid = tokenise(data.valid, data.column, tokenizer, eos=eos, say=say)
        texts = Text.of(train, 0, len(train.ids)), Text.of(valid, 0, len(valid.ids))
    else:
        cut = _cut(train, data.valid_fraction)
        texts = Text.of(train, 0, cut), Text.of(train, cut, len(train.ids))
    bytes_each = f"{train.bytes / len(train.ids):.2f} bytes each"
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary, {bytes_each}")
    found = Running(tokenizer, *texts, start)
    say(f"train: {found.train.amount}; valid: {found.valid.amount}{'' if data.valid else ', held out of train'}")
    return found


def must_be_there(where: tuple[str, ...]) -> None:
    """Refuse files that are missing, before hours are spent on others."""
    for entry in where:
        files(entry)


def _cut(tokens: Tokens, held_out: float) -> int:
    """Return the token where the validation part begins: between documents where there are enough of them, else within one."""
    wanted = round(len(tokens.ids) * (1 - held_out))
    start = int(tokens.starts[min(int(np.searchsorted(tokens.starts, wanted)), len(tokens.starts) - 1)])
    return start if start and abs(start - wanted) < held_out / 2 * len(tokens.ids) else wanted


def _enough(found: Iterator[Part], say: Say) -> Iterator[str]:
    """Whole documents as long as there is room for them, and of the first as much as there is."""
    read, first = 0, True
    document: list[str] = []
    for part in found:
        document.append(part.text)
        read += len(part.text)
        if read > ENOUGH:
            say(f"text: the vocabulary is learned from the first {ENOUGH / 1e6:.0f} million characters")
            if first:
                document[-1] = document[-1][: len(part.text) - (read - ENOUGH)]
                yield from document
            return
        if part.ends:
            yield from document
            document, first = [], False


PIECE = 128  # tokens of running text that are inspected together


def text_pieces(texts: Iterable[str], tokenizer: Tokenizer, room: int) -> Iterator[str]:
    """Yield running text in pieces of at most `room` tokens."""
    room = min(PIECE, room)
    for text in texts:
        ids = tokenizer.encode(text)
        for start in range(0, len(ids), room):
            piece = tokenizer.decode(ids[start : start + room])
            if piece.strip():
                yield piece

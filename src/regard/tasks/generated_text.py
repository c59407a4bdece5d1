"""Generated texts: found by a search, where they end by themselves; streamed piece by piece; printed.

A stream never has half a character, and nothing beyond a stop: characters that may begin a stop are held back until it is known
whether they do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.pairs import pad
from regard.decode.algorithm import CapturedGraphs
from regard.decode.compact_cache import CompactInput
from regard.decode.config import DecodeConfig
from regard.decode.request import SearchRequest, in_batches
from regard.decode.rows import SearchRow
from regard.decode.search import search
from regard.model.state.decoder import EncodedPrompt
from regard.model.state.protocol import EncodedInput
from regard.tasks.output_marks import OutputMarks, pair_marks
from regard.tasks.speculation import SourceSpeculation
from regard.text.tokenizer import Stream, Tokenizer

ROOM = 50  # tokens that an output may be longer than what is read (Vaswani et al. 2017, section 6.1)


class GeneratedText(NamedTuple):
    text: str
    score: float  # length-normalised log-probability, what the search ranks by
    logprob: float
    finished: bool
    ids: list[int]


NOTHING = GeneratedText("", 0.0, 0.0, True, [])  # what is said of nothing, in any language


def find(
    config: DecodeConfig,
    reading: EncodedInput,
    tokenizer: Tokenizer,
    limits: Sequence[int],
    numbers: Sequence[int],
    sessions: CapturedGraphs | None,
    vocabulary: int = 0,
    sources: Sequence[Sequence[int]] = (),
    proposes: SourceSpeculation | None = None,
) -> list[list[GeneratedText]]:
    """The n_best or the samples of each row that was read; `numbers` says which of all each row is, `limits` end them.

    `vocabulary` counts the rows of the output layer, where these may be more than the tokenizer's. `sources` are the rows as
    they were read, for what proposes tokens.
    """
    copies = 1 if proposes is None else config.samples
    own = search_options(config, tokenizer, vocabulary, len(numbers) * copies)
    if proposes is not None:
        assert isinstance(reading, EncodedPrompt)
        reading, sessions = proposes.input(reading, sources, own["sos"], config, numbers, own["banned"]), None
    elif config.cache != "full":
        assert isinstance(reading, EncodedPrompt)
        reading = CompactInput(reading, config.cache)
    request = SearchRequest.from_config(
        config,
        reading,
        numbers,
        limits=[limit for limit in limits for _ in range(copies)],
        sessions=sessions,
        **own,
    )
    found = [
        [GeneratedText(tokenizer.decode(h.ids), h.score, h.logprob, h.finished, h.ids) for h in best] for best in search(request)
    ]
    return [[one for best in found[n : n + copies] for one in best] for n in range(0, len(found), copies)]


def search_options(config: DecodeConfig, tokenizer: Tokenizer, vocabulary: int, rows: int) -> dict[str, Any]:
    """Return what a `SearchRequest` of this many rows takes from the settings; `vocabulary` as for `find`."""
    encode = tokenizer.encode
    prefix = encode(config.prefix) if config.prefix else []
    own = OutputMarks.of(config, tokenizer).request(config, vocabulary or len(tokenizer), tokenizer, prefix, rows)
    banned = [ids for word in config.banned_words if (ids := encode(word))]
    return own | {"banned_sequences": banned, "minimum_length": config.minimum_length}


def source_row(config: DecodeConfig, tokenizer: Tokenizer, read: Any, length: int, limit: int, vocabulary: int = 0) -> SearchRow:
    """Return the row of a search for what is written from this source, up to `limit` tokens."""
    config.must_not_continue("an output")
    options = search_options(config, tokenizer, vocabulary, 1)
    sos, (forced,) = options.pop("sos"), options.pop("forced") or [()]
    (limit,) = config.capped([limit])
    return SearchRow(read=read, length=length, sos=sos, limit=limit, options=options, forced=tuple(forced))


@torch.no_grad()
def encode_sources(model: Any, rows: Sequence[SearchRow]) -> EncodedInput:
    """Encode sources of token ids together."""
    device = next(model.parameters()).device
    source_BM, lengths_B = pad([np.array(row.read) for row in rows])
    read: EncodedInput = model.start(source_BM.to(device), lengths_B.to(device))
    return read


@torch.no_grad()
def write(
    model: Any,
    tokenizer: Tokenizer,
    decode: DecodeConfig,
    sources: Sequence[Sequence[int]],
    *,
    first: int = 0,
    longest: int = 0,
    sessions: CapturedGraphs | None = None,
    proposes: SourceSpeculation | None = None,
) -> list[list[GeneratedText]]:
    """Return what a model writes from each of these inputs, given without their marks, in the order given.

    `first` is the number of the first input; `longest` limits outputs in tokens, 0: by what is read.
    """
    found: list[list[GeneratedText]] = [[] for _ in sources]
    device = next(model.parameters()).device
    marks, vocabulary = pair_marks(tokenizer, decode), model.head.project.weight.shape[0]
    framed = [[*marks.before_source, *ids, *marks.after_source] for ids in sources]
    for batch in in_batches([len(ids) for ids in framed], decode.batch_tokens):
        source_BM, lengths_B = pad([np.array(framed[n]) for n in batch])
        limits = [output_limit(model, len(framed[n]), longest) for n in batch]
        read = model.start(source_BM.to(device), lengths_B.to(device))
        numbers, read_ids = [first + n for n in batch], [framed[n] for n in batch]
        limits = decode.capped(limits)
        outputs = find(decode, read, tokenizer, limits, numbers, sessions, vocabulary, read_ids, proposes)
        for n, output in zip(batch, outputs):
            found[n] = output
    return found


def must_be_text(given: Any) -> str:
    """Return what is to be read if it is a text."""
    if not isinstance(given, str):
        raise UserError("this model reads a text, and something else was given; give a text.")
    return given


def output_limit(model: Any, read: int, longest: int = 0) -> int:
    """Return the most tokens to write from a source of `read` tokens; `longest`: of any, 0: as many as the source suggests."""
    limit, most = longest or read + ROOM, model.config.context
    return min(limit, most) if most else limit


def tell(asked: dict[str, str], found: Sequence[GeneratedText], config: DecodeConfig, as_json: bool, emit: Emit) -> None:
    """A line, or one for each of several with its score; in JSON with what was asked."""
    if as_json:
        outputs = [{key: getattr(one, key) for key in ("text", "score", "logprob", "finished")} for one in found]
        emit(json.dumps({**asked, "outputs": outputs}, ensure_ascii=False) + "\n")
    elif config.n_best == config.samples == 1:
        emit(f"{found[0].text}\n")
    else:
        emit("".join(f"{one.score:.4f}\t{one.text}\n" for one in found))


SHOWN = 60  # characters of a text in a report


def silent(piece: str) -> None:
    """Ignore a piece of text."""


def shown(text: str) -> str:
    """Return the beginning of a text, for a report."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class StreamedText:
    """A text that grows; the space between it and the prompt that it comes `after` belongs to it."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str], emit: Emit = silent, after: Sequence[int] = ()) -> None:
        self.stream, self.stops, self.emit = Stream(tokenizer), stops, emit
        self.text, self.told, self.ids = "", 0, list[int]()
        self.stopped = False
        self.owed = len(tokenizer.decode(list(after))) - len(self.stream.add(after))  # characters of the prompt yet to come

    @property
    def waits(self) -> bool:
        """Return whether it may be emitted all at once, when it is complete."""
        return self.emit is silent and not self.stops

    def add(self, ids: Sequence[int]) -> bool:
        """Is it to stop here? Where it may, tokens are looked at one by one, so that none behind the stop is kept."""
        for some in ([i] for i in ids) if self.stops else [ids]:
            if self.stopped:
                break
            self.ids += some
            self._grow(self.stream.add(some))
        return self.stopped

    def end(self) -> None:
        """End the stream: release the text that was held back."""
        if not self.stopped:
            self._grow(self.stream.end())
        self._tell(len(self.text))

    def _grow(self, piece: str) -> None:
        begin = len(self.text)
        own = piece[self.owed :]
        self.owed -= len(piece) - len(own)
        self.text += own
        found = [(at + len(stop), at) for stop in self.stops if (at := self.text.find(stop, max(0, begin - len(stop) + 1))) >= 0]
        if found:  # the one that is whole first, however many characters come at once
            self.text, self.stopped = self.text[: min(found)[1]], True
        self._tell(len(self.text) - (0 if self.stopped else self._unsure()))

    def _tell(self, end: int) -> None:
        if end > self.told:
            self.emit(self.text[self.told : end])
            self.told = end

    def _unsure(self) -> int:
        """Return the number of characters at the end that may begin a stop."""
        sizes = (size for stop in self.stops for size in range(1, len(stop)) if self.text.endswith(stop[:size]))
        return max(sizes, default=0)

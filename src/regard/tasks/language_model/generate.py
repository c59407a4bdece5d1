"""Texts being written: all drafts of a batch go on together; where the window ends, they may go on from its second half.

A draft is one continuation of one prompt. What is drawn for it depends on the seed, its prompt's number, its own and the round.
A banned word is banned in every way that the vocabulary can spell it: banned in one way only, it would come out in other pieces,
" c" and "at" for " cat".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.data.batching.pairs import pad
from regard.decode.algorithm import CapturedGraphs
from regard.decode.compact_cache import CompactInput
from regard.decode.config import DecodeConfig, Sampling
from regard.decode.prefix_cache import start_with_common_prefix
from regard.decode.request import Hypothesis, SearchRequest
from regard.decode.rows import SearchRow
from regard.decode.search import search
from regard.decode.speculative import Speculation, SpeculativeInput
from regard.families.gpt import GPT
from regard.model.state.protocol import EncodedInput
from regard.tasks.generated_text import StreamedText
from regard.tasks.output_marks import OutputMarks, counted
from regard.text.kinds import SPACE
from regard.text.tokenizer import Tokenizer

LENGTH = 256  # tokens written where decode.maximum_length says nothing
NEVER = -1  # no token: the end of a model that has none


@dataclass
class Continuation:
    number: int  # of its prompt
    nth: int  # of that prompt's drafts
    prompt: list[int]
    telling: StreamedText
    logprobs: list[float] = field(default_factory=list)  # one per id and, where finished, one more for the end token
    ids: list[int] = field(default_factory=list)
    finished: bool = False  # it ended by itself
    stuck: bool = False  # nothing may come next

    @property
    def done(self) -> bool:
        return self.finished or self.stuck or self.telling.stopped

    def listen(self, ids: list[int]) -> bool:
        """Is it to stop here?"""
        return not self.telling.waits and self.telling.add(ids)

    def take(self, found: Hypothesis) -> None:
        """Add the tokens of a round; tokens behind a stop are dropped."""
        if self.telling.waits:
            self.telling.add(found.ids)
        kept = len(self.telling.ids) - len(self.ids) if self.telling.stopped else len(found.token_logprobs)
        self.ids += found.ids[:kept]
        self.logprobs += found.token_logprobs[:kept]
        self.finished = found.finished and not self.telling.stopped
        self.stuck = not found.token_logprobs


@dataclass(frozen=True)
class BatchGenerator:
    """A model, what it may write, and how."""

    model: GPT
    tokenizer: Tokenizer
    config: DecodeConfig
    window: int
    sessions: CapturedGraphs | None
    speculation: Speculation | None = None

    @property
    def wanted(self) -> int:
        return self.config.maximum_length or LENGTH

    def check(self, prompt: Sequence[int]) -> None:
        room = self.window + 1 - len(prompt)  # the last token written is not read again
        limit = self.wanted if self.config.sliding_window else min(self.wanted, room)
        if 0 < limit < len(self.prefix):
            raise UserError(
                f"decode.prefix has {len(self.prefix):,} tokens, but after a prompt of {len(prompt):,} there is room for "
                f"{limit:,}; shorten one of them{', or raise decode.maximum_length' if limit == self.wanted else ''}."
            )
        if self.config.sliding_window:
            return
        if room < 1:
            raise UserError(
                f"the prompt has {len(prompt):,} tokens, but this model sees {self.window:,}; shorten it, or set "
                f"decode.sliding_window=true to go on from its last {self.window // 2:,}."
            )
        if self.config.maximum_length > room:
            raise UserError(
                f"decode.maximum_length={self.config.maximum_length:,} after a prompt of {len(prompt):,} tokens goes beyond the "
                f"{self.window:,} that this model sees; lower it to {room:,}, or set decode.sliding_window=true to go on from "
                f"the last {self.window // 2:,} whenever they are full."
            )

    def write(self, groups: list[list[Continuation]]) -> None:
        """Each group has the drafts of one prompt; all groups have as many."""
        nth = 0
        while groups:
            for minimum, alike in self._by_minimum(groups).items():
                self._round(alike, nth, minimum)
            going = [draft for group in groups for draft in group if not draft.done and len(draft.ids) < self.wanted]
            groups, nth = [[draft] for draft in going] if self.config.sliding_window else [], nth + 1

    def _by_minimum(self, groups: list[list[Continuation]]) -> dict[int, list[list[Continuation]]]:
        """Group texts by how many tokens are missing to the minimum, which differs once a window has ended."""
        found: dict[int, list[list[Continuation]]] = {}
        for group in groups:
            found.setdefault(self._minimum(len(group[0].ids)), []).append(group)
        return found

    def rank(self, prompts: list[list[int]]) -> list[list[Hypothesis]]:
        """Return the texts of a beam search, best first."""
        limits = [self._limit(prompt, 0) for prompt in prompts]
        return search(self._request(prompts, limits, self._minimum(0), forced=[self.prefix] * len(prompts)))

    def _request(self, prompts: list[list[int]], limits: list[int], minimum: int, **others: Any) -> SearchRequest:
        encoded, first_S = self._read(prompts)
        method, sessions = self.config.method, self.sessions
        if self.speculation is not None:
            assert isinstance(method, Sampling)
            encoded = SpeculativeInput(encoded, prompts, self.speculation, method, others["seeds"], self.banned)
            sessions = None  # how many passes there are depends on the text
        elif self.config.cache != "full":
            encoded = CompactInput(encoded, self.config.cache)
        return SearchRequest(
            encoded=encoded,
            sos=first_S,
            limits=limits,
            method=method,
            prompts=prompts,
            sessions=sessions,
            **self._options(minimum),
            **others,
        )

    def _options(self, minimum: int) -> dict[str, Any]:
        """Return what a `SearchRequest` takes from the settings; `minimum`: of tokens that are still to come."""
        return {
            "eos": self.end,
            "more_ends": self.ends[1:],
            "banned_first": self.marks.banned_first,
            "minimum_length": minimum,
            "banned": self.banned,
            "banned_sequences": self.banned_words,
            **counted(self.config),
        }

    def row(self, prompt: Sequence[int]) -> SearchRow:
        """Return a prompt as a row of a search. Its text ends where the window does, since a row is read once."""
        if (room := self.window + 1 - len(prompt)) < 1:
            raise UserError(f"the prompt has {len(prompt):,} tokens, but this model sees {self.window:,}; shorten it.")
        limit = min(self.config.maximum_length, room)
        replace(self, config=replace(self.config, sliding_window=False, maximum_length=limit)).check(prompt)
        return SearchRow(
            read=prompt[:-1],
            length=len(prompt) - 1,
            sos=prompt[-1],
            limit=self._limit(prompt, 0),
            options=self._options(self._minimum(0)),
            prompt=tuple(prompt),
            forced=tuple(self.prefix),
        )

    def encode_rows(self, rows: Sequence[SearchRow]) -> EncodedInput:
        read: EncodedInput = self._read([[*row.read, row.sos] for row in rows])[0]
        return read

    @cached_property
    def marks(self) -> OutputMarks:
        return OutputMarks.of(self.config, self.tokenizer)

    @property
    def ends(self) -> tuple[int, ...]:
        """Return the tokens that end a text: those of the settings, or the vocabulary's own."""
        if self.config.end:
            return self.marks.ends
        return (NEVER if (eos := self.tokenizer.roles.eos) is None else eos,)

    @property
    def end(self) -> int:
        return self.ends[0]

    @cached_property
    def banned(self) -> tuple[int, ...]:
        """Specials are no text, and a model's table may be larger than its vocabulary."""
        beyond = range(len(self.tokenizer), self.model.embed.tokens.num_embeddings)
        return tuple(dict.fromkeys((*sorted(self.tokenizer.specials - {*self.ends}), *self.marks.banned, *beyond)))

    @cached_property
    def banned_words(self) -> tuple[tuple[int, ...], ...]:
        """Return banned words in all their spellings, with and without a space before."""
        forms = (form for word in self.config.banned_words for form in (word, f" {word}"))
        return tuple(dict.fromkeys(ids for form in forms for ids in spellings(self.tokenizer, form)))

    @cached_property
    def prefix(self) -> list[int]:
        return [*self.marks.first, *(self.tokenizer.encode(self.config.prefix) if self.config.prefix else [])]

    def _limit(self, seen: Sequence[int], written: int) -> int:
        return min(self.wanted - written, self.window + 1 - len(seen))

    def _minimum(self, written: int) -> int:
        return 0 if self.end == NEVER else max(0, self.config.minimum_length - written)

    def _seen(self, draft: Continuation) -> list[int]:
        """All of it while that leaves room to write, else the last half of the window."""
        text = [*draft.prompt, *draft.ids]
        full = len(text) > self.window or (draft.ids and len(text) >= self.window)
        return text[-max(1, self.window // 2) :] if self.config.sliding_window and full else text

    def _read(self, prompts: list[list[int]]) -> tuple[Any, torch.Tensor]:
        device = next(self.model.parameters()).device
        ids_BL, lengths_B = pad([np.array(prompt[:-1], dtype=np.int64) for prompt in prompts])
        first_S = torch.tensor([prompt[-1] for prompt in prompts], device=device)
        start = partial(start_with_common_prefix, self.model) if self.config.share_prefix else self.model.start
        return start(ids_BL.to(device), lengths_B.to(device)), first_S

    def _round(self, groups: list[list[Continuation]], nth: int, minimum: int) -> None:
        drafts = [draft for group in groups for draft in group]
        if self.speculation is not None:
            groups = [[draft] for draft in drafts]  # each with a row of its own
        seen = [self._seen(group[0]) for group in groups]
        seeds = [derive_seed(self.config.seed, "sample", draft.number, draft.nth, *([nth] if nth else [])) for draft in drafts]
        request = self._request(
            seen,
            [self._limit(text, len(group[0].ids)) for text, group in zip(seen, groups)],
            minimum,
            seeds=seeds,
            forced=[self.prefix[len(group[0].ids) :] for group in groups],
            listener=None if all(draft.telling.waits for draft in drafts) else lambda n, ids: drafts[n].listen(ids),
        )
        for group, found in zip(groups, search(request)):
            for draft, hypothesis in zip(group, found):
                draft.take(hypothesis)


MOST = 500

Ids = tuple[int, ...]


def spellings(tokenizer: Tokenizer, word: str) -> list[Ids]:
    """Each as ids whose text is that of the word; none of a word that the vocabulary cannot spell.

    A word may also come without the space that the vocabulary puts before it, as a full stop does. One of n letters may be cut in
    2^(n-1) ways, so of very long ones only those of the fewest pieces are given, as models write.
    """
    letters, text = _letters(tokenizer, word)
    numbers = {piece: i for piece, i in tokenizer.raw.get_vocab().items() if piece in letters and i not in tokenizer.specials}
    forms = dict.fromkeys((letters, letters.removeprefix(SPACE)))
    found = (ids for form in forms for ids in islice(_cuts(form, numbers), MOST))
    return [ids for ids in found if tokenizer.decode(ids) == text]  # not so where pieces are glued otherwise, such as "##at"


def _letters(tokenizer: Tokenizer, word: str) -> tuple[str, str]:
    """The word as its pieces spell it, and as they are read; where there is no piece for some of it, as it is cut."""
    raw, own = tokenizer.raw, tokenizer.encode(word)
    if not tokenizer.specials & set(own):
        return "".join(str(raw.id_to_token(i)) for i in own), tokenizer.decode(own)
    plain = raw.normalizer.normalize_str(word) if raw.normalizer else word
    parts = [part for part, _ in raw.pre_tokenizer.pre_tokenize_str(plain)] if raw.pre_tokenizer else [plain]
    return "".join(parts), plain.strip()


def _cuts(letters: str, numbers: dict[str, int]) -> Iterator[Ids]:
    """All cuts of the letters into pieces that have numbers, those of the fewest pieces first."""
    size, longest = len(letters), max(map(len, numbers), default=0)
    ends = [[end for end in range(begin + 1, size + 1)[:longest] if letters[begin:end] in numbers] for begin in range(size)]
    fewest = [0] * (size + 1)  # pieces from here to the end; more than there are letters: it cannot be reached
    for begin in reversed(range(size)):
        fewest[begin] = min((fewest[end] + 1 for end in ends[begin]), default=size + 1)
    for count in range(max(1, fewest[0]), size + 1):
        begun: list[tuple[int, Ids]] = [(0, ())]
        while begun:
            begin, ids = begun.pop()
            if begin == size:
                yield ids
                continue
            left = count - len(ids)
            possible = (end for end in reversed(ends[begin]) if fewest[end] < left <= size - end + 1)
            begun += [(end, (*ids, numbers[letters[begin:end]])) for end in possible]

"""Exact speculative decoding: tokens are proposed cheaply, and the model reads several of them in one pass.

Leviathan et al. 2023; Chen et al. 2023. Proposals come from a smaller model (`decode.draft`), or from the text itself: what
followed the same few tokens earlier (`decode.prompt_lookup`; Saxena 2023), for an encoder-decoder also in its source. One pass
gives the model's logits after each of them. The search goes on choosing tokens as ever, from these logits, as long as it chooses
what was proposed.

The papers accept a proposal at random, so that the distribution stays. Here a draw is a function of the seed and the step
(`src/regard/decode/sampling.py`), so the token that the search would draw is known, and a proposal is right or wrong. The text is
that of plain decoding with this seed, token for token, up to the rounding of a pass over several tokens. A draft draws with the
same numbers, which makes it right more often.

Dims: S sentences, L tokens of a pass, V vocabulary, K proposed tokens.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.decode.candidates import NO_TOKEN
from regard.decode.config import Sampling
from regard.decode.prefix_cache import PrefixCache
from regard.decode.sampling import draw, token_weights, uniform
from regard.model.state.decoder import EncodedPrompt, WrappedPrompt
from regard.model.state.protocol import RowCompaction

LONGEST, SHORTEST = 3, 1  # tokens at the end of a text that are looked up


@dataclass
class Speculation:
    """The proposer of tokens and their number a pass; counts how many were accepted."""

    tokens: int
    draft: Any = None  # a model of the same kind and vocabulary; None: the text itself is looked up
    window: int = 0  # tokens that the draft can see of a text; 0: any number
    passes: int = field(default=0, compare=False)
    read: int = field(default=0, compare=False)  # rows, over all passes
    written: int = field(default=0, compare=False)
    proposed: int = field(default=0, compare=False)


class Proposer(Protocol):
    def propose(self, rows: Sequence[int], texts: Sequence[list[int]], room: Sequence[int]) -> list[list[int]]:
        """Return at most room[n] tokens that may follow texts[n], the text of row rows[n]."""
        ...

    def compact(self, moves: RowCompaction) -> None: ...


class Lookup:
    """Proposes what followed the last tokens of a text the last time they occurred in it, or in its source."""

    def __init__(self, tokens: int, sources: Sequence[Sequence[int]] = ()) -> None:
        self.tokens, self.sources = tokens, [[*source, NO_TOKEN] for source in sources]

    def propose(self, rows: Sequence[int], texts: Sequence[list[int]], room: Sequence[int]) -> list[list[int]]:
        seen = [[*self.sources[row], *text] for row, text in zip(rows, texts)] if self.sources else texts
        return [looked_up(text, min(self.tokens, most)) for text, most in zip(seen, room)]

    def compact(self, moves: RowCompaction) -> None:
        if self.sources:
            compact_list(self.sources, moves)


def looked_up(text: Sequence[int], most: int) -> list[int]:
    """Return at most `most` tokens after the latest earlier occurrence of the longest ending, of 3 tokens, then 2, then 1.

    NO_TOKEN stands where a text ends within `text`, and for what no text can have: nothing is proposed beyond it.
    """
    for size in range(min(LONGEST, len(text) - 1), SHORTEST - 1, -1):
        tail = list(text[-size:])
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == tail:
                found = list(text[start + size : start + size + most])
                return found[: found.index(NO_TOKEN)] if NO_TOKEN in found else found
    return []


class Draft:
    """Proposes what a smaller model would write, by the same settings and the same draws."""

    def __init__(self, speculation: Speculation, read: SpeculativeInput, slots: int) -> None:
        self.tokens, self.window, self.method = speculation.tokens, speculation.window or slots, read.method
        prompts, device = [list(prompt[: min(len(prompt) - 1, self.window)]) for prompt in read.prompts], read.device
        started = read.drafted
        if started is None:
            ids_SL, last_S = padded([prompt or [0] for prompt in prompts], device)
            started = speculation.draft.start(ids_SL, last_S + 1)  # of no prompt one token is read, and written over
        self.model, self.cache = speculation.draft, PrefixCache(started, slots, last=self.window - 1)
        self.cached = prompts  # the tokens that stand in the cache
        self.seeds = [int(seed) for seed in read.seeds]
        self.begun = [len(prompt) for prompt in read.prompts]  # tokens before the first that is written
        self.banned = torch.tensor(read.banned, dtype=torch.long, device=device)

    def propose(self, rows: Sequence[int], texts: Sequence[list[int]], room: Sequence[int]) -> list[list[int]]:
        counts = [min(self.tokens, most, self.window - len(text)) for text, most in zip(texts, room)]
        going = [n for n, count in enumerate(counts) if count > 0]
        found: list[list[int]] = [[] for _ in rows]
        for nth in range(max(counts, default=0)):
            going = [n for n in going if counts[n] > nth]
            new = [[*texts[n], *found[n]] for n in going]
            logits_RV = self._read([rows[n] for n in going], new)
            steps = [len(text) - self.begun[rows[n]] for n, text in zip(going, new)]
            for n, token in zip(going, self._choose(logits_RV, [self.seeds[rows[n]] for n in going], steps)):
                found[n].append(token)
        return found

    def _read(self, rows: list[int], texts: list[list[int]]) -> Tensor:
        """Return logits_RV after these texts, of which the cache has all but the end."""
        device = self.banned.device
        firsts = [shared(self.cached[row], text[:-1]) for row, text in zip(rows, texts)]
        ends = [text[first:] for first, text in zip(firsts, texts)]
        for row, text in zip(rows, texts):
            self.cached[row] = list(text)
        ids_RL, last_R = padded(ends, device)
        rows_R = None if len(rows) == self.cache.rows else torch.tensor(rows, device=device)
        x_RLD = self.cache.append(ids_RL, torch.tensor(firsts, device=device), rows_R)
        return self.model.head(x_RLD[torch.arange(len(rows), device=device), last_R])

    def _choose(self, logits_RV: Tensor, seeds: list[int], steps: list[int]) -> list[int]:
        scores_RV = logits_RV.float().log_softmax(-1)
        scores_RV.index_fill_(1, self.banned, -torch.inf)
        if self.method.temperature == 0:
            return scores_RV.argmax(1).tolist()
        draws_R = uniform(torch.tensor(seeds), torch.tensor(steps)).to(scores_RV.device)
        return draw(token_weights(scores_RV, self.method, fixed=False), draws_R[:, None])[:, 0].tolist()

    def compact(self, moves: RowCompaction) -> None:
        self.cache.compact(moves)
        for kept in (self.cached, self.seeds, self.begun):
            compact_list(kept, moves)


class Plan(NamedTuple):
    """Tokens that were read in one pass, the first of them chosen and the others proposed, and the logits after each."""

    ids: list[int]
    logits_LV: Tensor


@dataclass(frozen=True, eq=False)
class SpeculativeInput(WrappedPrompt):
    """Encoded prompts to be continued speculatively, or sources to be written from, one for each text."""

    prompts: Sequence[Sequence[int]]  # whole, the token that writing starts from included
    speculation: Speculation
    method: Sampling
    seeds: Sequence[int]
    banned: Sequence[int] = ()
    sources: Sequence[Sequence[int]] = ()  # that lookup finds tokens in beside the texts, NO_TOKEN for what no text can have
    drafted: EncodedPrompt | None = None  # the sources as the draft has encoded them

    @property
    def session_key(self) -> Hashable:
        return id(self)  # steps are no captured graphs: how many passes there are depends on the text

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> SpeculativeState:
        assert lanes == 1
        return SpeculativeState(self.speculation)


class SpeculativeState:
    """The state of a search that reads ahead. It keeps its texts on the host, to compare them with what was proposed."""

    def __init__(self, speculation: Speculation) -> None:
        self.speculation = speculation

    @property
    def shape(self) -> Hashable:
        return self.cache.rows

    def load(self, given: SpeculativeInput, limits: Sequence[int]) -> None:
        read = given.read
        ends = [words + limit for words, limit in zip(read.prompt_words_S.tolist(), limits)]
        for end in ends:
            read.positions.check(end)
        self.last = [end - 1 for end in ends]  # position of the last token that is read
        slots = max(ends) + self.speculation.tokens
        self.cache = PrefixCache(read, slots, last=max(self.last))
        self.model: Any = read.model
        self.texts = [list(prompt[:-1]) for prompt in given.prompts]
        self.plans: list[Plan | None] = [None] * read.rows
        self.read_ahead = [0] * read.rows  # the token of its plan that each row stands at
        self.proposer: Proposer = Lookup(self.speculation.tokens, given.sources)
        if self.speculation.draft is not None:
            self.proposer = Draft(self.speculation, given, slots)

    def grow(self, tokens: int) -> None:
        """Do nothing: there is room for every token up to the limits."""

    @torch.no_grad()
    def step(self, ids_SW: Tensor) -> Tensor:
        missing = []
        for row, token in enumerate(ids_SW[: self.cache.rows, 0].tolist()):
            if len(self.texts[row]) > self.last[row]:
                continue  # done, and not yet removed: what it gets is not used
            self.texts[row].append(token)
            self.speculation.written += 1
            plan, self.read_ahead[row] = self.plans[row], self.read_ahead[row] + 1
            if plan is None or plan.ids[self.read_ahead[row] : self.read_ahead[row] + 1] != [token]:
                missing.append(row)
        if missing:
            self._read(missing)
        plans = [(plan, ahead) for plan, ahead in zip(self.plans, self.read_ahead) if plan is not None]
        return torch.stack([plan.logits_LV[min(ahead, len(plan.ids) - 1)] for plan, ahead in plans])[:, None]

    def _read(self, rows: list[int]) -> None:
        """Read the newest token of these rows and what is proposed to follow it, in one pass."""
        texts, device = [self.texts[row] for row in rows], self.cache.device
        room = [self.last[row] - len(text) + 1 for row, text in zip(rows, texts)]
        new = [[text[-1], *ahead] for text, ahead in zip(texts, self.proposer.propose(rows, texts, room))]
        ids_RL, _ = padded(new, device)
        first_R = torch.tensor([len(text) - 1 for text in texts], device=device)
        rows_R = None if len(rows) == self.cache.rows else torch.tensor(rows, device=device)
        logits_RLV = self.model.head(self.cache.append(ids_RL, first_R, rows_R))
        for row, ids, logits_LV in zip(rows, new, logits_RLV):
            self.plans[row], self.read_ahead[row] = Plan(ids, logits_LV[: len(ids)]), 0
        self.speculation.passes += 1
        self.speculation.read += len(rows)
        self.speculation.proposed += sum(map(len, new)) - len(new)

    def select(self, parents_SW: Tensor) -> None:
        """Do nothing: each sentence has one lane, which goes on from itself."""

    def compact(self, moves: RowCompaction) -> None:
        self.cache.compact(moves)
        self.proposer.compact(moves)
        for kept in (self.texts, self.plans, self.read_ahead, self.last):
            compact_list(kept, moves)


def padded(rows: Sequence[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids_RL, padded at the right by repeating the last token, and the index of each row's last token."""
    longest = max(map(len, rows))
    ids_RL = torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows], device=device)
    return ids_RL, torch.tensor([len(row) - 1 for row in rows], device=device)


def shared(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    return next((n for n, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))


def compact_list(kept: list[Any], moves: RowCompaction) -> None:
    """Apply the moves of rows to a list, in place."""
    found = [kept[row] for row in moves.rows_R.tolist()]
    for place, item in zip(moves.places_R.tolist(), found):
        kept[place] = item
    del kept[moves.stay :]

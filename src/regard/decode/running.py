"""Continuous batching: searches whose sentences join and leave between steps, over one state.

`RunningBatch.step` takes one step of the model for all sentences, whatever their searches, and hands each search the scores of
its own rows. Sentences whose settings are equal share a search: a `SamplingSearch` or `BeamSearch`, as when they are decoded
alone. They join it from a search of their own, which begins in the usual way. Yu et al. 2022 (Orca), section 4.1, schedule by
steps in this manner; here prompts are encoded apart from the steps, as for a plain search.

All sentences of a batch have as many lanes: those of a beam are in another batch than sampled ones.

Dims: S sentences, W lanes, G sentences of one search, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.algorithm import BufferSizes, Progress
from regard.decode.beam import BeamSearch, Lanes, PathTree
from regard.decode.candidates import NO_TOKEN
from regard.decode.config import BeamSettings
from regard.decode.request import Hypothesis, SearchRequest
from regard.decode.running_state import RunningState, running_state
from regard.decode.sampling import SamplingSearch, TextBuffers
from regard.decode.search import compacted_rows
from regard.model.state.protocol import RowCompaction


@dataclass(eq=False)
class Sentence:
    """One text being written, and the settings of what each step reports."""

    allowed: Callable[[Sequence[int]], Sequence[int]] | None = None  # which tokens may follow these
    top: int = 0  # likeliest tokens of each step
    tokens: list[int] = field(default_factory=list)  # so far, where they are certain: not of a beam


class Step(NamedTuple):
    """The result of one step for one sentence."""

    sentence: Sentence
    token: int | None  # the new token; None where it ended, or where a beam has not decided yet
    logprob: float
    top: list[tuple[int, float]]  # the likeliest tokens and their log-probabilities, where they were asked for
    done: bool
    error: Exception | None = None  # what its own rule for tokens failed with
    broken: bool = False  # its scores are not numbers


class RowsOfShared:
    """The part of a shared state that one search has: it collects which lanes go on."""

    parents_GW: Tensor

    def select(self, parents_GW: Tensor) -> None:
        self.parents_GW = parents_GW

    def compact(self, moves: RowCompaction) -> None:
        """Do nothing: the batch removes rows of the state."""


class Group:
    """The sentences of one search, and their rows in the state."""

    def __init__(self, search: SamplingSearch | BeamSearch, sentences: Sequence[Sentence], rows: Sequence[int]) -> None:
        self.search: Any = search
        self.shared = search.state = RowsOfShared()  # type: ignore[assignment]
        self.sentences, self.rows = list(sentences), list(rows)

    def join(self, search: Any, sentences: Sequence[Sentence], rows: Sequence[int]) -> None:
        own = self.search
        join_progress(own.progress, search.progress)
        (join_beams if isinstance(own, BeamSearch) else join_samples)(own, search)
        self.sentences += sentences
        self.rows += rows

    def take(self, logits_GWV: Tensor) -> list[Step]:
        """Choose the next tokens and say what became of each sentence."""
        search, errors = self.search, dict[Sentence, Exception]()
        if isinstance(search, BeamSearch):
            search.take(logits_GWV)
            tokens, logprobs = [None] * len(self.sentences), [0.0] * len(self.sentences)
        else:
            steps_G1, excluded_GV = search.progress.step_S[:, None].clone(), self._excluded(logits_GWV[:, 0], errors)
            search.take(logits_GWV, excluded_GV)
            tokens = search.newest_SW[:, 0].tolist()
            logprobs = search.texts.logprobs_ST.gather(1, steps_G1)[:, 0].tolist()
        done, broken = search.progress.read_flags()
        steps, ends = list[Step](), search.constraints.ends
        for n, (sentence, token, logprob) in enumerate(zip(self.sentences, tokens, logprobs)):
            if token in ends or logprob == -torch.inf:
                token = None
            if token is not None:
                sentence.tokens.append(token)
            top = likeliest(logits_GWV[n, 0], sentence.top) if sentence.top else []
            steps.append(Step(sentence, token, logprob, top, done[n], errors.get(sentence), broken[n]))
        return steps

    def _excluded(self, logits_GV: Tensor, errors: dict[Sentence, Exception]) -> Tensor | None:
        """Return the tokens that may not come next; rules that fail are put into `errors`."""
        if all(sentence.allowed is None for sentence in self.sentences):
            return None
        excluded_GV = torch.zeros_like(logits_GV, dtype=torch.bool)
        for excluded_V, sentence in zip(excluded_GV, self.sentences):
            if sentence.allowed is None:
                continue
            try:
                ids = torch.as_tensor(sentence.allowed(sentence.tokens), dtype=torch.long, device=excluded_V.device)
                excluded_V.fill_(True)[ids] = False
            except Exception as error:  # in the caller's rule: the other sentences go on
                errors[sentence] = error
        return excluded_GV

    def hypotheses(self, places: Sequence[int]) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = self.search.hypotheses(torch.tensor(places, device=self.search.progress.step_S.device))
        return found

    def keep(self, places: Sequence[int]) -> None:
        """Remove all other sentences."""
        order = compacted_rows(list(places), len(places))
        self.search.compact(RowCompaction.of(order, self.search.progress.step_S.device))
        self.sentences, self.rows = [self.sentences[n] for n in order], [self.rows[n] for n in order]


class RunningBatch:
    """Sentences being written together."""

    def __init__(self) -> None:
        self.state: RunningState | None = None
        self.groups: dict[Hashable, Group] = {}

    @property
    def sentences(self) -> list[Sentence]:
        return [sentence for group in self.groups.values() for sentence in group.sentences]

    @torch.no_grad()
    def join(self, request: SearchRequest, sentences: Sequence[Sentence]) -> None:
        """Add the sentences of a request, in its order: those of a row are side by side."""
        kind = BeamSearch if isinstance(request.method, BeamSettings) else SamplingSearch
        search = kind(request, BufferSizes.of(request, fixed=False))
        search.begin(request)
        fresh: Any = search.state
        state = running_state(fresh) if self.state is None else self.state
        rows = range(state.sentences, state.sentences + len(sentences))
        state.join(fresh)
        self.state = state
        key = (request.method, request.constraints, request.first_free)
        if key in self.groups:
            self.groups[key].join(search, sentences, rows)
        else:
            self.groups[key] = Group(search, sentences, rows)

    @torch.no_grad()
    def step(self) -> list[Step]:
        """Take one step of the model for all sentences."""
        state, groups = self.state, list(self.groups.values())
        assert state is not None
        state.grow(1)
        if len(groups) == 1 and groups[0].rows == list(range(state.sentences)):
            (group,) = groups
            steps = group.take(state.step(group.search.newest_SW))
            if isinstance(group.search, BeamSearch):
                state.select(group.shared.parents_GW)
            return steps
        newest_GW = torch.cat([group.search.newest_SW for group in groups])
        order_S = torch.tensor([row for group in groups for row in group.rows], device=newest_GW.device)
        logits_SWV = state.step(torch.empty_like(newest_GW).index_copy_(0, order_S, newest_GW))
        parts = logits_SWV[order_S].split([len(group.rows) for group in groups])
        steps = [step for group, logits_GWV in zip(groups, parts) for step in group.take(logits_GWV)]
        if isinstance(groups[0].search, BeamSearch):
            parents_GW = torch.cat([group.shared.parents_GW for group in groups])
            state.select(torch.empty_like(parents_GW).index_copy_(0, order_S, parents_GW))
        return steps

    @torch.no_grad()
    def leave(self, sentences: Iterable[Sentence]) -> dict[Sentence, list[Hypothesis]]:
        """Remove sentences, done or not, and return what they have written."""
        leaving, found = set(sentences), dict[Sentence, list[Hypothesis]]()
        if not leaving:
            return found
        for key, group in list(self.groups.items()):
            going = [n for n, sentence in enumerate(group.sentences) if sentence in leaving]
            if not going:
                continue
            found.update(zip((group.sentences[n] for n in going), group.hypotheses(going)))
            if len(going) == len(group.sentences):
                del self.groups[key]
            else:
                group.keep([n for n in range(len(group.sentences)) if group.sentences[n] not in leaving])
        self._compact_state()
        return found

    def _compact_state(self) -> None:
        active = [row for group in self.groups.values() for row in group.rows]
        if not active:
            self.state = None  # and with it all its memory
            return
        assert self.state is not None
        order = compacted_rows(active, len(active))
        device = next(iter(self.groups.values())).search.progress.step_S.device
        self.state.compact(RowCompaction.of(order, device))
        place_of = {row: place for place, row in enumerate(order)}
        for group in self.groups.values():
            group.rows = [place_of[row] for row in group.rows]


def likeliest(logits_V: Tensor, count: int) -> list[tuple[int, float]]:
    """Return the most probable tokens and their log-probabilities, before any filter."""
    top = logits_V.log_softmax(-1, dtype=torch.float32).topk(min(count, len(logits_V)))
    return list(zip(top.indices.tolist(), top.values.tolist()))


def stacked(first_S: Tensor, second_R: Tensor, *, left: bool = False) -> Tensor:
    """Return the rows of both; the narrower ones are padded with NO_TOKEN, at the left or at the right."""
    if first_S.dim() == 1:
        return torch.cat([first_S, second_R])
    width = max(first_S.shape[-1], second_R.shape[-1])
    parts = [(part, width - part.shape[-1]) for part in (first_S, second_R)]
    return torch.cat([F.pad(part, (more, 0) if left else (0, more), value=NO_TOKEN) for part, more in parts])


def join_progress(own: Progress, fresh: Progress) -> None:
    for name in ("steps_S", "limit_S", "length_S", "flags_S2"):
        setattr(own, name, torch.cat([getattr(own, name)[: own.sentences], getattr(fresh, name)]))
    own.sentences += fresh.sentences


def join_samples(own: SamplingSearch, fresh: SamplingSearch) -> None:
    """Add sentences that have not begun; prompts end, and texts begin, in the same column."""
    prompts = stacked(own.texts.text_SN[:, : own.prompt], fresh.texts.text_SN[:, : fresh.prompt], left=True)
    texts = stacked(own.texts.text_SN[:, own.prompt :], fresh.texts.text_SN[:, fresh.prompt :])
    parts = TextBuffers(*(stacked(*pair) for pair in zip(own.texts, fresh.texts)))
    own.allocated = own.texts = parts._replace(text_SN=torch.cat([prompts, texts], 1))
    own.tail_N, own.prompt = own.tail_N + (prompts.shape[1] - own.prompt), prompts.shape[1]


def join_beams(own: BeamSearch, fresh: BeamSearch) -> None:
    """Add sentences that have not begun; the latest tokens are in the last column."""
    lanes = Lanes(*(stacked(*pair) for pair in zip(own.lanes, fresh.lanes)))
    tail_SWN = stacked(own.lanes.tail_SWN, fresh.lanes.tail_SWN, left=True)
    own.allocated_lanes = own.lanes = lanes._replace(tail_SWN=tail_SWN)
    own.allocated_tree = own.tree = PathTree(*(stacked(*pair) for pair in zip(own.tree, fresh.tree)))
    own.divisor_T = max((own.divisor_T, fresh.divisor_T), key=len)

"""The parts that every search algorithm has: buffers of known sizes, a record of its progress, and one step for all sentences.

A sentence is one text being written: a row of the request, or one of the samples of a row. All sentences of a search take their
steps together, on the device; each counts its own, since a sentence may join later than others (`running.py`). The host looks
at the progress now and then (`search.run`). A sentence that is done takes part in the steps until the host removes it, but
nothing that belongs to its result changes any more. Dims: S sentences, R rows read back.

As a captured CUDA graph, a step is one launch instead of hundreds. A session is a search with its buffers and its captured steps.
The next request of the same sizes is copied into these buffers, and nothing is captured again. A step is captured once for each
shape that its kernels have: the number of sentences left, and the length of the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.request import Hypothesis, SearchRequest
from regard.model.kernels.compiled_step import CompiledRecorder
from regard.model.kernels.cuda_graph import CudaRecorder, Recorder, Step
from regard.model.state.kv_cache import round_to_stride
from regard.model.state.protocol import RowCompaction, State

DONE, BROKEN = 0, 1


class BufferSizes(NamedTuple):
    """Sizes of the buffers of a search."""

    sentences: int
    tokens: int  # each sentence may write
    prompt: int = 0  # tokens before those that constraints and penalties read
    forced: bool = False  # some sentence has a forced prefix
    fixed: bool = False  # allocate everything at the start and compute every case, so that no step waits for the host

    @classmethod
    def of(cls, request: SearchRequest, *, fixed: bool) -> BufferSizes:
        """Return the sizes that this request needs."""
        prompt = max(request.longest_prompt, request.constraints.context) if request.reads_text else 0
        forced = request.forced is not None and any(request.forced)
        return cls(len(request.text_limits), max(request.text_limits), prompt, forced, fixed)

    def rounded(self) -> BufferSizes:
        """Return sizes rounded up to few values, so that captured graphs serve many requests."""
        sentences, prompt = 1 << (self.sentences - 1).bit_length(), round_to_stride(self.prompt) if self.prompt else 0
        return self._replace(sentences=sentences, tokens=round_to_stride(self.tokens), prompt=prompt)


class Progress:
    """The number of the step that each sentence takes, and its flags: done, and broken by scores that are not numbers."""

    def __init__(self, sentences: int, device: torch.device) -> None:
        self.sentences = sentences  # that are still in the search: the first rows of the buffers
        self.steps_S = torch.zeros(sentences, dtype=torch.long, device=device)
        self.limit_S = torch.zeros(sentences, dtype=torch.long, device=device)
        self.length_S = torch.zeros(sentences, dtype=torch.long, device=device)
        self.flags_S2 = torch.zeros(sentences, 2, dtype=torch.bool, device=device)

    def begin(self, limits: Sequence[int]) -> None:
        """Reset to step 0. Rows of the buffers beyond these sentences are done from the start."""
        self.sentences = len(self.limit_S)
        self.steps_S.zero_()
        self.length_S.zero_()
        self.limit_S.zero_()[: len(limits)] = torch.tensor(limits, device=self.limit_S.device)
        self.flags_S2.zero_()[len(limits) :, DONE] = True

    @property
    def step_S(self) -> Tensor:
        return self.steps_S[: self.sentences]

    @property
    def done_S(self) -> Tensor:
        return self.flags_S2[: self.sentences, DONE]

    def advance(self, ended_S: Tensor, broken_S: Tensor) -> None:
        """Count one more token and set the flags of the sentences that were not done before it."""
        active_S = ~self.done_S
        self.step_S.add_(1)
        self.length_S[: self.sentences].add_(active_S)
        self.flags_S2[: self.sentences, BROKEN].logical_or_(broken_S & active_S)
        self.done_S.logical_or_(ended_S | (self.step_S >= self.limit_S[: self.sentences]))

    def read_flags(self) -> tuple[list[bool], list[bool]]:
        """Return the done and the broken flags: the one place where the host waits for the device."""
        done, broken = zip(*self.flags_S2[: self.sentences].tolist())
        return list(done), list(broken)

    def stop(self, rows: Sequence[int]) -> None:
        """Mark sentences as done, with what they have written so far."""
        self.flags_S2[torch.tensor(rows, device=self.flags_S2.device), DONE] = True

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in (self.steps_S, self.limit_S, self.length_S, self.flags_S2):
            moves.within(buffer_S)
        self.sentences = moves.stay


class SearchAlgorithm(Protocol):
    """A search over some lanes of some sentences, in buffers that stay at their addresses."""

    state: State
    progress: Progress

    def begin(self, request: SearchRequest) -> None:
        """Load a request into the buffers, which a former request may have used."""
        ...

    def advance(self) -> None:
        """Write one token of every sentence without waiting for the device: what a CUDA graph captures."""
        ...

    def compact(self, moves: RowCompaction) -> None:
        """Remove sentences that are done."""
        ...

    def written(self, rows_R: Tensor, since: int) -> list[list[int]]:
        """Return the tokens after the first `since` of these sentences that can no longer change, without the end token."""
        ...

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        """Return the results of these sentences, which are done, best first."""
        ...


class CapturedGraph:
    """A search in its buffers. The first step of a shape is run, the second captured; from then on steps are replayed."""

    def __init__(self, search: SearchAlgorithm, recorder: Recorder) -> None:
        self.search, self.recorder = search, recorder
        self.steps: dict[Hashable, Step | None] = {}

    def advance(self, tokens: int) -> None:
        shape = self.search.state.shape
        for _ in range(tokens):
            if shape not in self.steps:
                self.recorder.warm_up(self.search.advance)
                self.steps[shape] = None
                continue
            step = self.steps[shape]
            if step is None:
                step = self.steps[shape] = self.recorder.record(self.search.advance)
            step()


class CapturedGraphs:
    """The sessions of one model; a new session replaces the least recently used one."""

    def __init__(self, recorder: Recorder, most: int = 8) -> None:
        self.recorder, self.most = recorder, most
        self.idle: dict[Hashable, CapturedGraph] = {}  # least recently used first

    @contextmanager
    def lend(self, key: Hashable, make_search: Callable[[], SearchAlgorithm]) -> Iterator[CapturedGraph]:
        """Yield the session of this key, or a new one. A session has one user at a time, and one that fails is dropped."""
        session = self.idle.pop(key, None)
        if session is None:
            while len(self.idle) >= self.most:
                del self.idle[next(iter(self.idle))]
            session = CapturedGraph(make_search(), self.recorder)
        yield session
        self.idle[key] = session


def sessions_on(device: torch.device, compiled: bool = False) -> CapturedGraphs | None:
    """Return the sessions that all searches of one model share, or None where steps are run: on a CPU, unless compiled."""
    if device.type == "cuda":
        if compiled:
            raise UserError("decode.compile=true is for a CPU; on a GPU steps are captured as CUDA graphs: leave it out.")
        return CapturedGraphs(CudaRecorder(device))
    return CapturedGraphs(CompiledRecorder()) if compiled else None

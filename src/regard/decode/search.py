"""Search for texts: `search` takes a `SearchRequest` and returns the hypotheses of each row.

The algorithm (`beam.BeamSearch`, or `sampling.SamplingSearch`, which is greedy at temperature 0) writes tokens by itself on the
device. The host decides how many steps come next, reads which sentences are done, and removes those from the batch. On a CPU
reading costs nothing: the host reads after every token, and sentences leave at once. A GPU is idle while the host reads, and
every batch size needs a CUDA graph of its own: there the host reads every few tokens, and sentences leave when at most half are
left.

A text depends on the model's scores and on its seed, not on its batch, its neighbours, their order, or on captured graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from regard.core.errors import UserError
from regard.decode.algorithm import BufferSizes, SearchAlgorithm
from regard.decode.beam import BeamSearch
from regard.decode.config import BeamSettings
from regard.decode.request import Hypothesis, Listener, SearchRequest
from regard.decode.sampling import SamplingSearch
from regard.model.state.protocol import RowCompaction

CHECK_EVERY = 8  # tokens, where reading the progress makes the device wait


@torch.no_grad()
def search(request: SearchRequest) -> list[list[Hypothesis]]:
    """Return the hypotheses of each row: the n_best of a beam, best first, or one for each sample; greedy search has one.

    Beam search returns fewer than n_best only where no more texts are possible. Of equally probable tokens, the lower id is
    taken.
    """
    found = run(BeamSearch if isinstance(request.method, BeamSettings) else SamplingSearch, request)
    copies = request.copies
    return [[one for text in found[row : row + copies] for one in text] for row in range(0, len(found), copies)]


def run(algorithm: Callable[[SearchRequest, BufferSizes], SearchAlgorithm], request: SearchRequest) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence.

    With `sessions`, captured graphs of a former search of these sizes are used again.
    """
    encoded, sessions, limits = request.encoded, request.sessions, request.text_limits
    if not limits:
        return []
    if sessions is None or encoded.probed:
        fixed = encoded.device.type == "cuda" and not encoded.probed
        search = algorithm(request, BufferSizes.of(request, fixed=fixed))
        search.begin(request)
        return advance_until_done(search, limits, partial(repeat, search.advance), patient=fixed, listener=request.listener)
    sizes = BufferSizes.of(request, fixed=True).rounded()
    key = (request.constraints, request.method, encoded.session_key, sizes)
    with sessions.lend(key, lambda: algorithm(request, sizes)) as session:
        session.search.begin(request)
        return advance_until_done(session.search, limits, session.advance, patient=True, listener=request.listener)


def repeat(advance: Callable[[], None], times: int) -> None:
    for _ in range(times):
        advance()


def advance_until_done(
    search: SearchAlgorithm, limits: list[int], advance: Callable[[int], None], *, patient: bool, listener: Listener | None = None
) -> list[list[Hypothesis]]:
    """Advance until all sentences are done and return their hypotheses. Patient: read the progress and remove sentences seldom.

    A listener is called whenever the host reads. Where it stops a sentence, the hypothesis still holds all tokens written until
    then: on a GPU up to seven more than the listener wanted, which the caller cuts off.
    """
    found: dict[int, list[Hypothesis]] = {}
    sentence_of = list(range(len(limits)))  # the sentence in each row of the buffers
    active = sentence_of  # rows that are not done
    steps = 0
    while active:
        tokens = min(CHECK_EVERY if patient else 1, max(limits[sentence_of[row]] for row in active) - steps)
        search.state.grow(tokens)
        advance(tokens)
        steps += tokens
        done, broken = search.progress.read_flags()
        if any(broken):
            raise UserError(
                "The model's scores for the next token are not numbers (NaN or infinite): its weights or its input are "
                "broken. Decode from an earlier checkpoint, or in float32."
            )
        if listener is not None:
            for row in _call_listener(listener, search, sentence_of, active, steps - tokens):
                done[row] = True
        active = [row for row in active if not done[row]]
        size = 1 << (len(active) - 1).bit_length() if patient and active else len(active)
        if active and size >= search.progress.sentences:
            continue
        leaving = [row for row, sentence in enumerate(sentence_of) if done[row] and sentence not in found]
        rows_R = torch.tensor(leaving, device=search.progress.step_S.device)
        found.update(zip((sentence_of[row] for row in leaving), search.hypotheses(rows_R)))
        if active:
            rows = compacted_rows(active, size)
            search.compact(RowCompaction.of(rows, rows_R.device))
            sentence_of, active = [sentence_of[row] for row in rows], [place for place, row in enumerate(rows) if not done[row]]
    return [found[sentence] for sentence in range(len(limits))]


def _call_listener(
    listener: Listener, search: SearchAlgorithm, sentence_of: list[int], active: list[int], since: int
) -> list[int]:
    """Pass on the tokens after the first `since` of each active row; return the rows that the listener stops."""
    written = search.written(torch.tensor(active, device=search.progress.step_S.device), since)
    stopped = [row for row, tokens in zip(active, written) if tokens and listener(sentence_of[row], tokens)]
    if stopped:
        search.progress.stop(stopped)
    return stopped


def compacted_rows(active: list[int], size: int) -> list[int]:
    """Return the row that moves to each of the first `size` places: active rows stay where they are if they can."""
    staying, moving = set(active), [row for row in active if row >= size]
    return [place if place in staying or not moving else moving.pop() for place in range(size)]

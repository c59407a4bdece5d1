"""Continuous batching of one model: which requests are being written, the memory that they may take, and one step for all.

Requests whose searches have as many lanes share a batch (`decode.running`): greedy search and sampling in one, beams of each
width in one, and long texts apart from short ones. The batches take their steps in turn; long texts take one when short ones have
had as many row steps, so these take at most about twice their time. A request joins when its texts have a row each and the
memory that they take at their longest is free; then its prompt is encoded, together with those that join at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from regard.core.errors import UserError
from regard.decode.algorithm import BufferSizes
from regard.decode.beam import BeamSearch
from regard.decode.config import BeamSettings, DecodeConfig
from regard.decode.request import in_batches
from regard.decode.rows import request_of
from regard.decode.running import RunningBatch, Sentence, Step
from regard.decode.running_state import running_state
from regard.decode.sampling import SamplingSearch
from regard.runs.protocols import WritesRows
from regard.serve.generation import Kind, TextInProgress, Writing
from regard.serve.memory import Need, Reserved, Sizes
from regard.serve.settings import Writers
from regard.serve.work import EngineSettings

Failed = Callable[[Writing, Exception], None]
MEGABYTE = 1e6


class Batch:
    """Texts that are written together, and the memory that is reserved for them."""

    def __init__(self, sizes: Sizes) -> None:
        self.running, self.reserved = RunningBatch(), Reserved(sizes)
        self.texts: dict[Sentence, TextInProgress] = {}

    def clear(self) -> None:
        """Forget everything, its memory included."""
        self.running, self.texts, self.reserved.largest = RunningBatch(), {}, Need(0, 0, 0, 0)


class Generator:
    """One model, and the requests that it writes."""

    def __init__(self, predictor: WritesRows, settings: EngineSettings) -> None:
        self.writers, self.most_rows, self.batch_length = Writers(predictor, settings), settings.rows, settings.batch_length
        self.batches: dict[Kind, Batch] = {}
        self.waited = 0  # row steps of short texts since long ones took a step
        must_suit_batches(predictor)

    @property
    def rows(self) -> int:
        return sum(len(batch.texts) for batch in list(self.batches.values()))

    @property
    def memory(self) -> int:
        return sum(batch.reserved.bytes for batch in list(self.batches.values()))

    def need(self, writing: Writing) -> Need:
        """Return what a request takes at its longest."""
        row = writing.row
        slots = (row.length if row.prompt is not None else 0) + writing.lanes * row.limit
        return Need(len(writing.texts), slots, 0 if row.prompt is not None else row.length, row.limit)

    def reserve(self, writing: Writing, free: int, limit: int) -> bool:
        """Reserve rows and memory for a request if enough are free; raise where all, up to the limit, are not enough."""
        kind = writing.kind
        if kind not in self.batches:
            self.batches[kind] = Batch(self._sizes(writing))
        batch, need = self.batches[kind], self.need(writing)
        alone = batch.reserved.sizes.bytes(need)
        if alone > limit or need.rows > self.most_rows:
            raise UserError(
                f"this request takes {need.rows:,} rows and {alone / MEGABYTE:,.0f} MB of memory, and this server has "
                f"{self.most_rows:,} rows and {limit / MEGABYTE:,.0f} MB; ask for fewer or shorter texts."
            )
        largest = batch.reserved.with_more(need, len(batch.texts))
        more = batch.reserved.sizes.bytes(largest) - batch.reserved.bytes
        if self.rows + need.rows > self.most_rows or more > free:
            return False
        batch.reserved.largest = largest
        batch.texts |= {text.sentence: text for text in writing.texts}
        return True

    def _sizes(self, writing: Writing) -> Sizes:
        """Measure the state of one row that has read a single token, or an image."""
        row, is_beam = writing.row, writing.is_beam
        one = replace(row, read=row.read[:1], length=min(1, row.length), limit=1, forced=()) if _is_text(row.read) else row
        encoded = writing.writer.predictor.encode_rows([one])
        request = request_of(encoded, [replace(one, prompt=None, forced=())], writing.writer.predictor.decode.method)
        search = (BeamSearch if is_beam else SamplingSearch)(request, BufferSizes.of(request, fixed=False))
        search.begin(request)
        fresh: Any = search.state
        state = running_state(fresh)
        state.join(fresh)
        return Sizes(state.row_bytes, writing.lanes, writing.writer.predictor.model.head.project.weight.shape[0])

    def begin(self, writings: Sequence[Writing], failed: Failed) -> None:
        """Encode what requests read, those of similar length together, and let them join."""
        groups: dict[tuple[DecodeConfig, int, bool], list[Writing]] = {}
        for writing in writings:
            groups.setdefault((writing.writer.shared, len(writing.texts), writing.long), []).append(writing)
        for group in groups.values():
            for some in in_batches([writing.row.length for writing in group], self.batch_length):
                self._join([group[n] for n in some], failed)

    def _join(self, writings: Sequence[Writing], failed: Failed) -> None:
        """Let requests with equal settings, and as many samples each, join. Where several fail together, each is tried alone."""
        first, batch = writings[0], self.batches[writings[0].kind]
        rows = [writing.row for writing in writings]
        try:
            encoded = first.writer.predictor.encode_rows(rows)
            seeds = [seed for writing in writings for seed in writing.seeds]
            request = request_of(encoded, rows, first.writer.predictor.decode.method, seeds)
            batch.running.join(request, [text.sentence for writing in writings for text in writing.texts])
        except Exception as error:  # a prompt that cannot be read fails alone
            if len(writings) == 1:
                self._forget(first)
                failed(first, error)
                return
            for writing in writings:
                self._join([writing], failed)

    def step(self, failed: Failed) -> tuple[list[Writing], int]:
        """Take a step of every batch whose turn it is; return the requests that are complete, and how many rows took a step."""
        complete, rows = list[Writing](), 0
        for batch in self._next_batches():
            rows += len(batch.texts)
            try:
                steps = batch.running.step()
            except Exception as error:  # of this batch as a whole, such as memory that another process took
                writings = list({text.writing: None for text in batch.texts.values()})
                batch.clear()
                for writing in writings:
                    failed(writing, error)
                continue
            complete += self._deliver(batch, steps, failed)
        return complete, rows

    def _next_batches(self) -> list[Batch]:
        """Return the batches of short texts, and those of long texts if they have waited for as many row steps as they take."""
        active = [(kind, batch) for kind, batch in self.batches.items() if batch.texts]
        short, long = ([batch for kind, batch in active if kind.long == wanted] for wanted in (False, True))
        if not short or not long:
            return short or long
        takes = sum(len(batch.texts) for batch in long)
        self.waited += sum(len(batch.texts) for batch in short)
        if self.waited < takes:
            return short
        self.waited = 0
        return [*short, *long]

    def _deliver(self, batch: Batch, steps: Sequence[Step], failed: Failed) -> list[Writing]:
        """Hand every text its new token, and remove those that are complete or whose request has failed."""
        leaving, broken = list[Sentence](), dict[Writing, Exception]()
        for step in steps:
            text = batch.texts[step.sentence]
            try:
                if text.take(step):
                    leaving.append(step.sentence)
            except Exception as error:
                broken.setdefault(text.writing, error)
        texts = [batch.texts[sentence] for sentence in leaving]
        for text, found in zip(texts, self._leave(batch, leaving)):
            if text.writing not in broken:
                text.finish(found)
        for writing, reason in broken.items():
            self.remove(writing)
            failed(writing, reason)
        return list({text.writing: None for text in texts if text.writing.done and text.writing not in broken})

    def _leave(self, batch: Batch, sentences: Iterable[Sentence]) -> list[Any]:
        wanted = list(sentences)
        found = batch.running.leave(wanted)
        for sentence in wanted:
            batch.texts.pop(sentence, None)
        if not batch.texts:
            batch.clear()
        return [found[sentence] for sentence in wanted]

    def remove(self, writing: Writing) -> None:
        """Give a request up: its rows are free for others."""
        batch = self.batches[writing.kind]
        self._leave(batch, [sentence for sentence in writing.sentences if sentence in batch.texts])

    def _forget(self, writing: Writing) -> None:
        """Give up a request that has not joined."""
        batch = self.batches[writing.kind]
        for sentence in writing.sentences:
            batch.texts.pop(sentence, None)
        if not batch.texts:
            batch.clear()


def must_suit_batches(predictor: WritesRows) -> None:
    """Refuse settings of a run that are for texts which are written alone."""
    config = predictor.decode
    for name, why in (("cache", "keeps its texts in one piece"), ("compile", "compiles steps of one size")):
        if config.changed([name]):
            raise UserError(f"decode.{name}={getattr(config, name)} {why}, and a server's batch changes; leave it out.")
    if isinstance(config.method, BeamSettings) or not config.speculates:
        return
    raise UserError("decode.draft and decode.prompt_lookup propose tokens to one text at a time; leave them out of a server.")


def _is_text(read: Any) -> bool:
    return isinstance(read, list | tuple)

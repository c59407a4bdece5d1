"""One request that writes texts: its row, its sentences in a batch, the pieces that it streams, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.decode.request import Hypothesis
from regard.decode.rows import SearchRow
from regard.decode.running import Sentence, Step
from regard.runs.protocols import WritesRows
from regard.serve.settings import Writer, Writers
from regard.serve.work import Generate, Piece, Result, Sample, Ticket, TokenScore
from regard.tasks.generated_text import StreamedText
from regard.text.tokenizer import Tokenizer

BROKEN = (
    "the model's scores for the next token are not numbers (NaN or infinite): its weights or its input are broken; give another "
    "text, or serve an earlier checkpoint."
)


class Kind(NamedTuple):
    """The properties that all texts of one batch share."""

    is_beam: bool
    lanes: int
    long: bool


@dataclass(eq=False)
class Writing:
    """A request that is prepared: nothing of it has been computed by the model."""

    of: WritesRows  # the predictor that it was prepared for
    work: Generate
    ticket: Ticket
    writer: Writer  # the predictor with the settings of this request
    row: SearchRow
    long: bool  # may it have more tokens than a short text has?
    texts: list[TextInProgress] = field(default_factory=list)  # one for each sentence

    @classmethod
    def prepare(cls, writers: Writers, work: Generate, ticket: Ticket) -> Writing | None:
        """Return the request as a row; None where there is nothing to write. What is wrong with it is raised."""
        writer, limits = writers.of(work), writers.limits
        row = writer.predictor.row(work.text if work.picture is None else work.picture)
        if row is None:
            return None
        if limits.max_tokens:
            row = replace(row, limit=min(row.limit, limits.max_tokens))
        writing = cls(writers.predictor, work, ticket, writer, row, row.limit > limits.long)
        stops = [*work.stop, *(stop.replace("\\n", "\n") for stop in writers.predictor.decode.stop)]
        writing.texts = [TextInProgress(writing, nth, stops) for nth in range(1 if writing.is_beam else work.n)]
        return writing

    @property
    def lanes(self) -> int:
        return self.writer.lanes

    @property
    def kind(self) -> Kind:
        return Kind(self.is_beam, self.lanes, self.long)

    @property
    def is_beam(self) -> bool:
        return self.writer.is_beam

    @property
    def seeds(self) -> list[int]:
        return [] if self.is_beam else [derive_seed(self.work.seed, "sample", 0, text.nth) for text in self.texts]

    @property
    def sentences(self) -> list[Sentence]:
        return [text.sentence for text in self.texts]

    @property
    def done(self) -> bool:
        return all(text.samples for text in self.texts)

    @property
    def result(self) -> Result:
        samples = tuple(sample for text in self.texts for sample in text.samples)
        generated = sum(text.generated for text in self.texts)
        return Result(samples, prompt_tokens=self.row.length + (self.row.prompt is not None), generated_tokens=generated)


class TextInProgress:
    """One sentence of a request, and its text as far as it is certain."""

    def __init__(self, writing: Writing, nth: int, stops: Sequence[str]) -> None:
        work = writing.work
        self.writing, self.nth = writing, nth
        self.sentence = Sentence(allowed=work.allowed, top=work.logprobs or 0)
        self.tokenizer: Tokenizer = writing.writer.predictor.target_tokenizer
        self.stream = self._new_stream(stops, nth)
        self.samples: list[Sample] = []
        self.generated = 0
        self.scores: list[TokenScore] = []
        self.sent = 0  # tokens whose text has been sent, or is waited for

    def _new_stream(self, stops: Sequence[str], sample: int) -> StreamedText:
        return StreamedText(self.tokenizer, stops, lambda text: self._send(sample, text), self.writing.row.prompt or ())

    def _send(self, sample: int, text: str) -> None:
        tokens = self.stream.ids[self.sent :]
        scores = self.scores[self.sent : self.sent + len(tokens)] if self.writing.work.logprobs is not None else None
        self.sent += len(tokens)
        self.writing.ticket.put(Piece(sample, text, tokens, scores))

    def take(self, step: Step) -> bool:
        """Add what one step has written; return whether this text is complete."""
        if step.error is not None:
            known = isinstance(step.error, UserError)
            raise step.error if known else UserError(f"the rule for the next token failed: {step.error}")
        if step.broken:
            raise UserError(BROKEN)
        if step.token is not None:
            if self.writing.work.logprobs is not None:
                self.scores.append(self._scored(step.token, step.logprob, step.top))
            self.stream.add([step.token])
        return step.done or self.stream.stopped

    def finish(self, found: Sequence[Hypothesis]) -> None:
        """Turn what the search has found into samples: one of a text that was streamed, several of a beam."""
        self.generated = len(found[0].token_logprobs)
        if not self.writing.is_beam:
            self._end(self.nth, found[0])
            return
        for nth, hypothesis in enumerate(found):
            self.scores, self.sent = [], 0
            if self.writing.work.logprobs is not None:
                self.scores = [self._scored(*pair, []) for pair in zip(hypothesis.ids, hypothesis.token_logprobs)]
            self.stream = self._new_stream((), nth)
            self.stream.add(hypothesis.ids)
            self._end(nth, hypothesis)

    def _end(self, sample: int, found: Hypothesis) -> None:
        self.stream.end()
        if self.sent < len(self.stream.ids):
            self._send(sample, "")  # tokens without a text
        self.samples.append(self._sample(found))

    def _sample(self, found: Hypothesis) -> Sample:
        stopped = self.stream.stopped
        kept = len(self.stream.ids) if stopped else len(found.token_logprobs)
        return Sample(
            text=self.stream.text,
            tokens=found.ids[:kept],
            score=found.score,
            logprob=sum(found.token_logprobs[:kept]),
            finish="stop" if found.finished or stopped else "length",
            stopped=stopped,
            logprobs=self.scores if self.writing.work.logprobs is not None else None,
        )

    def _scored(self, token: int, logprob: float, top: Sequence[tuple[int, float]]) -> TokenScore:
        return TokenScore(token, self._name(token), logprob, tuple((i, self._name(i), score) for i, score in top))

    def _name(self, token: int) -> str:
        """Return a token as text; the output layer may have more rows than the vocabulary has tokens."""
        return self.tokenizer.tokens([token])[0] if token < len(self.tokenizer) else f"<{token}>"

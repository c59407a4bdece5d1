"""A trained language model: it goes on from a prompt, and says how likely it finds a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, overload

import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.sources.text import documents
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.config import DecodeConfig
from regard.decode.request import Hypothesis, in_batches
from regard.decode.rows import SearchRow
from regard.decode.speculative import Speculation
from regard.families import build_model
from regard.families.gpt import GPT
from regard.lens.alignment import Alignment
from regard.metrics.likelihood import Choice, Ids, Likelihood, choose, log_probabilities
from regard.metrics.segment_likelihood import segment_log_probabilities
from regard.model.memory.segments import read_in_segments
from regard.model.probe import not_recording, probe
from regard.model.state.protocol import EncodedInput
from regard.runs.folder import Run
from regard.runs.load import memory_of, window_of
from regard.runs.pretrained import InitCheckpoint
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.corpus import Perplexity, TestText, text_pieces
from regard.tasks.generated_text import StreamedText, must_be_text, silent
from regard.tasks.language_model.generate import BatchGenerator, Continuation
from regard.tasks.language_model.transcript import Transcript, with_specials
from regard.tasks.output_marks import OutputMarks
from regard.tasks.predictor import TextPredictor, open_model
from regard.tasks.speculation import must_share_vocabulary, open_draft
from regard.text.tokenizer import Tokenizer

ROOM = 65_536  # tokens of a prompt and what is written after it, with a memory
LOOKED_AT = 16  # tokens of a continuation that is drawn


class Token(NamedTuple):
    token: str
    logprob: float


class Written(NamedTuple):
    """One continuation."""

    text: str
    logprob: float  # of its tokens and, where it ended by itself, of its end
    finished: bool  # it ended by itself
    stopped: bool  # at one of decode.stop
    ids: list[int]
    tokens: list[Token]

    def as_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "tokens": [token._asdict() for token in self.tokens]}


@dataclass
class TextGenerator(TextPredictor):
    model: GPT
    tokenizer: Tokenizer
    decode: DecodeConfig
    window: int  # tokens that it sees
    sessions: CapturedGraphs | None = None  # on a GPU: recorded searches, to be replayed
    speculation: Speculation | None = None  # what proposes tokens, if anything does
    memory: int = 0  # tokens before each segment of `window`, of a model with a memory, which sees texts of any length

    example = "The following example shows how a function returns a value"
    subject = lazy("regard.tasks.translation.inspect:of_writer")
    trace = lazy("regard.tasks.translation.inspect:trace_writer")

    def __post_init__(self) -> None:
        self.sessions = sessions_on(self.device, self.decode.compile)
        self.segment = self.window
        if self.memory:
            self.window = ROOM
            read_in_segments(self.model, self.segment, self.memory)

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> TextGenerator:
        """Open a run, or a public checkpoint as it is."""
        model, tokenizer = open_model(source, recipe, device, lambda size: build_model(recipe.model, vocabulary=size))
        proposes = speculation_of(recipe.decode, tokenizer, device)
        return cls(model, tokenizer, recipe.decode, window_of(recipe), speculation=proposes, memory=memory_of(recipe))

    @property
    def start(self) -> int:
        """Return the token that a text without a prompt starts from, and that the first token of a text is predicted from."""
        if self.before:
            return self.before[-1]
        roles = self.tokenizer.roles
        return next(i for i in (roles.eos, roles.sos, roles.unk, 0) if i is not None)

    @cached_property
    def before(self) -> list[int]:
        """Return the tokens before every prompt: decode.start, such as LLaMA's <s>."""
        return [OutputMarks.of(self.decode, self.tokenizer).start] if self.decode.start else []

    @overload
    def __call__(self, prompt: str) -> str: ...
    @overload
    def __call__(self, prompt: list[str]) -> list[str]: ...
    def __call__(self, prompt: str | list[str]) -> str | list[str]:
        """Continue one prompt or many. Under a probe the finished text is recorded in one pass."""
        prompts = [prompt] if isinstance(prompt, str) else prompt
        with not_recording(self.model) as looking:
            found = [texts[0] for texts in self.write(prompts)]
        if looking:
            for begun, written in zip(prompts, found):
                self._look(self.encode(begun), written.ids)
        return found[0].text if isinstance(prompt, str) else [written.text for written in found]

    def write(self, prompts: Sequence[str], first: int = 0, emit: Emit = silent) -> list[list[Written]]:
        """The samples of each prompt, or its n_best. `emit` hears the first text of the first prompt as it is written."""
        pen = self.generator
        ids = [self.encode(prompt) for prompt in prompts]
        for prompt in ids:
            pen.check(prompt)
        results: list[list[Written]] = [[] for _ in prompts]
        lengths = [(min(len(prompt), self.window) + pen.wanted) * self.decode.samples for prompt in ids]
        for batch in in_batches(lengths, self.decode.batch_tokens * 4):
            if self.decode.search == "beam":
                for n, ranked in zip(batch, pen.rank([ids[n] for n in batch])):
                    results[n] = [self._ranked(hypothesis, ids[n]) for hypothesis in ranked]
                continue
            groups = [self._drafts(first + n, ids[n], emit if n == 0 else silent) for n in batch]
            pen.write(groups)
            for n, group in zip(batch, groups):
                results[n] = [self._written(draft) for draft in group]
        return results

    @property
    def generator(self) -> BatchGenerator:
        return BatchGenerator(self.model, self.tokenizer, self.decode, self.window, self.sessions, self.speculation)

    def row(self, given: Any) -> SearchRow | None:
        """Return a prompt as a row of a search, whose text ends with the window."""
        return self.generator.row(self.encode(must_be_text(given)))

    def encode_rows(self, rows: Sequence[SearchRow]) -> EncodedInput:
        return self.generator.encode_rows(rows)

    def encode(self, prompt: str) -> list[int]:
        """Return the ids of a prompt, behind the token that every text begins with, if any; of a template's text as it is."""
        if isinstance(prompt, Transcript):
            return with_specials(self.tokenizer).encode(prompt, add_special_tokens=False).ids or [self.start]
        return [*self.before, *self.tokenizer.encode(prompt)] or [self.start]

    def _drafts(self, number: int, prompt: list[int], emit: Emit) -> list[Continuation]:
        stops = [stop.replace("\\n", "\n") for stop in self.decode.stop]  # a newline is hard to type on a command line
        return [
            Continuation(number, nth, prompt, StreamedText(self.tokenizer, stops, emit if nth == 0 else silent, prompt))
            for nth in range(self.decode.samples)
        ]

    def _written(self, draft: Continuation) -> Written:
        telling, ids, logprobs = draft.telling, draft.ids, draft.logprobs
        telling.end()
        finished = draft.finished and not telling.stopped  # the last of a text may be certain only when nothing follows
        tokens = [Token(*pair) for pair in zip(self.tokenizer.tokens(ids), logprobs)]
        return Written(telling.text, sum(logprobs), finished, telling.stopped, ids, tokens)

    def _ranked(self, found: Hypothesis, prompt: list[int]) -> Written:
        draft = Continuation(0, 0, prompt, StreamedText(self.tokenizer, (), after=prompt))
        draft.take(found)
        return self._written(draft)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A prompt alone is answered as it is written. Of several, each text is a line, with its line ends as \\n and \\r."""
        number = first or 0
        if as_json:
            for prompt, found in zip(texts, self.write(texts, number)):
                emit(json.dumps({"prompt": prompt, "outputs": [w.as_dict() for w in found]}, ensure_ascii=False) + "\n")
        elif len(texts) == 1 and first is None and self.decode.samples == self.decode.n_best == 1:
            (((written,),)) = self.write(texts, number, emit)
            emit(f"{written.text}\n" if self.decode.search == "beam" else "\n")
        else:
            for found in self.write(texts, number):
                for written in found:
                    emit(f"{_on_one_line(written.text)}\n")

    def log_probabilities(self, texts: Sequence[Ids], stride: int = 0) -> list[Any]:
        """log p of every token of each text, given those before it that the window lets it see."""
        if self.memory:
            return segment_log_probabilities(self.model, texts, start=self.start, segment=self.segment, memory=self.memory)
        stride = stride or max(1, self.window // 2)
        return log_probabilities(self.model, texts, start=self.start, window=self.window, stride=stride)

    def score(self, texts: Sequence[str]) -> Likelihood:
        return Likelihood.of(self.log_probabilities([self.tokenizer.encode(text) for text in texts]), texts)

    def stream(self, prompt: str, number: int, emit: Emit) -> str:
        return self.write([prompt], number, emit)[0][0].text

    def searching(self, **settings: Any) -> TextGenerator:
        return replace(self, decode=replace(self.decode, **settings))

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    def test_texts(self, test: TestText) -> Iterator[tuple[str, str | None]]:
        return ((piece, None) for piece in text_pieces(documents(test.test, test.column), self.tokenizer, self.window))

    def choose(self, context: str, options: Sequence[str], aside: str = "") -> Choice:
        """Score each option after the context; a space is put between them where neither has one."""
        gap = "" if not context or context[-1].isspace() else " "
        spaced = [option if option[:1].isspace() else f"{gap}{option}" for option in options]
        encode, sizes = self.tokenizer.encode, [len(option.encode()) for option in spaced]
        ids = [encode(option) for option in spaced]
        return choose(
            self.model,
            encode(context),
            ids,
            sizes,
            start=self.start,
            window=self.window,
            aside_ids=encode(aside) if aside else (),
        )

    def evaluate(self, test: TestText) -> Perplexity:
        return Perplexity.of(test, self.tokenizer, self.start, self.log_probabilities)

    @torch.no_grad()
    def _look(self, prompt: list[int], written: Sequence[int]) -> list[int]:
        """One pass over a text: what each step of writing it attended to, for training and decoding give the same numbers.

        The last token of a full window was written but never read. Of a text that slid on, this sees the last window.
        """
        ids = [*prompt, *written]
        ids = ids[: self.window] if len(ids) <= self.window + 1 else ids[-self.window :]
        self.model(torch.tensor([ids], device=self.device))
        return ids

    def attention(self, text: str, part: str | None = None) -> tuple[str, Alignment]:
        """Return the continuation of a text, and the attention weights of every token of both."""
        if part not in (None, "decoder"):
            raise UserError(f"--part {part}: a language model is a decoder alone; give --part decoder, or leave it out.")
        prompt = self.encode(text)
        length = min(LOOKED_AT, max(1, self.window + 1 - len(prompt)))
        with probe(self.model) as seen:
            short = replace(self, decode=replace(self.decode, maximum_length=length, minimum_length=0, stop=(), samples=1))
            with not_recording(self.model):
                written = short.write([text])[0][0]
            ids = self._look(prompt, written.ids)
        weights = torch.stack([seen[name].weights()[0] for name in seen]).cpu().numpy()
        words = tuple(self.tokenizer.tokens(ids))
        return written.text, Alignment(f"{text}|{written.text}", words, words, weights, tuple(seen))

    @classmethod
    def validating(cls, model: GPT, tokenizer: Tokenizer, window: int, tokens: int, memory: int = 0) -> TextGenerator:
        """Return a generator for samples during training."""
        decode = DecodeConfig(search="sample", top_p=0.95, maximum_length=min(tokens, max(1, window // 2)), sliding_window=True)
        # It slides: what is cut out of a text may be more tokens by itself.
        return cls(model, tokenizer, decode, window, memory=memory)


def speculation_of(config: DecodeConfig, tokenizer: Tokenizer, device: torch.device) -> Speculation | None:
    """Return what `decode.prompt_lookup` or `decode.draft` proposes tokens by. A draft must have the same vocabulary."""
    if config.prompt_lookup:
        return Speculation(config.prompt_lookup)
    if not config.draft:
        return None
    draft = open_draft(config, device)
    if not isinstance(draft, TextGenerator):
        raise UserError(f"decode.draft={config.draft} is no language model; give one of the same vocabulary.")
    must_share_vocabulary(config, [draft.tokenizer], [tokenizer])
    return Speculation(config.draft_tokens, draft.model, draft.window)


def _on_one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")

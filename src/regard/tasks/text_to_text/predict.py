"""A trained model of text-to-text tasks: text in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, print_stderr
from regard.data.sources.text_pairs import TextPair
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.config import DecodeConfig
from regard.decode.rows import SearchRow
from regard.families import build_model
from regard.lens.alignment import Alignment
from regard.metrics.text_to_text import AnyScores, score_texts
from regard.model.state.protocol import EncodedInput
from regard.runs.folder import Run
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.generated_text import (
    NOTHING,
    GeneratedText,
    encode_sources,
    must_be_text,
    output_limit,
    source_row,
    tell,
    write,
)
from regard.tasks.output_marks import pair_marks
from regard.tasks.predictor import EvaluationResult, open_model
from regard.tasks.speculation import SourceSpeculation, source_speculation
from regard.tasks.text_to_text.reader import encode_inputs, typed_with_prefix
from regard.tasks.translation.predict import Tokenizers, Translator
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.decode.beam_trace import SearchTree
    from regard.lens.subject import Subject


@dataclass
class TextWriter:
    """A model, its vocabulary, and the prefixes it was trained with."""

    model: Any
    tokenizer: Tokenizer
    recipe: Recipe
    decode: DecodeConfig
    sessions: CapturedGraphs | None = None
    proposes: SourceSpeculation | None = None  # tokens, if the settings ask for it

    example = "the pump stopped at noon because a fuse had blown , and nobody could repair it ."
    texts = 1  # in one input
    tells = ("predicted",)  # the columns that `fields` adds to a table
    routes = lazy("regard.tasks.text_to_text.serve:routes")

    def __post_init__(self) -> None:
        self.sessions = sessions_on(next(self.model.parameters()).device, self.decode.compile)

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> TextWriter:
        recipe.decode.must_not_continue("an output")
        model, tokenizer = open_model(
            run, recipe, device, lambda size: build_model(recipe.model, 0, vocabulary=size, target_vocabulary=size)
        )
        proposes = source_speculation(recipe.decode, model, tokenizer, tokenizer, room_of(recipe), device)
        return cls(model, tokenizer, recipe, recipe.decode, proposes=proposes)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.recipe.data.columns)

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """The output for one text, or for each of many."""
        if isinstance(text, list):
            return [best[0].text for best in self.write(text)]
        return self.write([text])[0][0].text

    def write(self, texts: Sequence[str], first: int = 0) -> list[list[GeneratedText]]:
        """Return the n_best or the samples of each text, in the order given; of an empty text, nothing.

        What is longer than the model was trained to read is cut, and standard error says so.
        """
        rows = [row for row, text in enumerate(texts) if text.strip()]
        typed = [typed_with_prefix(self.recipe.data.prefixes, texts[row]) for row in rows]
        marks = pair_marks(self.tokenizer, self.decode)
        sources, cut = encode_inputs(self.tokenizer, typed, room_of(self.recipe) - marks.around_source)
        if cut:
            print_stderr(f"{cut:,} of {len(typed):,} texts have more than {room_of(self.recipe):,} tokens, and were cut")
        results: list[list[GeneratedText]] = [[NOTHING] for _ in texts]
        most = self.recipe.data.maximum_target
        options: dict[str, Any] = {"longest": most, "sessions": self.sessions, "proposes": self.proposes}
        found = write(self.model, self.tokenizer, self.decode, sources, first=first, **options)
        for row, outputs in zip(rows, found):
            results[row] = outputs
        return results

    def row(self, given: Any) -> SearchRow | None:
        """Return a text as a row of a search; None: of an empty text, nothing is written. What is too long is refused."""
        if not must_be_text(given).strip():
            return None
        marks, room = pair_marks(self.tokenizer, self.decode), room_of(self.recipe)
        typed = typed_with_prefix(self.recipe.data.prefixes, given)
        ids = [*marks.before_source, *self.tokenizer.encode(typed), *marks.after_source]
        if len(ids) > room:
            raise UserError(f"{given[:40]!r} is {len(ids):,} tokens long, its end counted, and {room:,} are read; shorten it.")
        limit = output_limit(self.model, len(ids), self.recipe.data.maximum_target)
        return source_row(self.decode, self.tokenizer, ids, len(ids), limit, self.model.head.project.weight.shape[0])

    def encode_rows(self, rows: Sequence[SearchRow]) -> EncodedInput:
        return encode_sources(self.model, rows)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A line for each text, or one for each of its n_best."""
        for text, found in zip(texts, self.write(texts, first or 0)):
            tell({"source": text}, found, self.decode, as_json, emit)

    def fields(self, asked: Sequence[tuple[str, ...]], first: int) -> list[dict[str, str]]:
        """Return the new column of each row of a table."""
        return [{"predicted": found[0].text} for found in self.write([text for (text,) in asked], first)]

    def evaluate(self, test: Sequence[TextPair]) -> EvaluationResult[AnyScores]:
        outputs = self([pair.input for pair in test])
        return EvaluationResult(score_texts(outputs, [pair.targets for pair in test], self.recipe.data.answers), outputs)

    @property
    def inner(self) -> Translator:
        """Return the same model as a translator, whose source has its prefix: what lens and studio look into."""
        return Translator(self.model, Tokenizers(self.tokenizer, self.tokenizer), self.decode)

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        return self.inner.subject(typed_with_prefix(self.recipe.data.prefixes, text), target, hypothesis)

    def attention(self, text: str, part: str | None = None) -> tuple[str, Alignment]:
        return self.inner.attention(typed_with_prefix(self.recipe.data.prefixes, text), part)

    def trace(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        return self.inner.trace(typed_with_prefix(self.recipe.data.prefixes, text), beam, forced)

    def test_texts(self, test: Sequence[TextPair]) -> Iterator[tuple[str, str | None]]:
        return ((pair.input, pair.targets[0]) for pair in test)


def room_of(recipe: Recipe) -> int:
    """Return the most tokens that are read, their marks counted: learned positions end."""
    return min(recipe.data.maximum_input, recipe.model.context or recipe.data.maximum_input)

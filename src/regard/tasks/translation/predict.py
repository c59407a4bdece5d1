"""A trained translator: text in, text out, with scores and, for those who look, its attention."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.pairs import pad
from regard.data.sources import Pair
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.config import DecodeConfig
from regard.decode.request import in_batches
from regard.decode.rows import SearchRow
from regard.families import build_model
from regard.lens.alignment import Alignment
from regard.metrics.bleu import Scores, corpus_scores
from regard.model.probe import not_recording, probe
from regard.model.state.protocol import EncodedInput
from regard.runs.folder import Run, choose_device
from regard.runs.load import load_model, must_be_as_trained, ready
from regard.runs.pretrained import PAIR_VOCABULARIES, VOCABULARY
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.generated_text import NOTHING, GeneratedText, encode_sources, find, must_be_text, output_limit, source_row, tell
from regard.tasks.notices import LONGEST_SOURCE
from regard.tasks.output_marks import OutputMarks, frame_sources, source_settings
from regard.tasks.speculation import SourceSpeculation, source_speculation
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.runs.pretrained import InitCheckpoint


class Tokenizers(NamedTuple):
    """One for both languages, or one each."""

    source: Tokenizer
    target: Tokenizer

    @staticmethod
    def files(joint: bool) -> tuple[str, ...]:
        return (VOCABULARY,) if joint else PAIR_VOCABULARIES

    @classmethod
    def load(cls, folder: Path, joint: bool, foreign: bool = False) -> Tokenizers:
        loaded = [Tokenizer.load(folder / name, foreign=foreign) for name in cls.files(joint)]
        return cls(loaded[0], loaded[-1])

    def save(self, folder: Path, joint: bool) -> None:
        for name, tokenizer in zip(self.files(joint), self):
            tokenizer.save(folder / name)


class Translated(NamedTuple):
    """A test set's translations and what they score."""

    scores: Scores
    outputs: list[str]

    def lines(self) -> list[str]:
        return self.scores.lines()

    def as_dict(self) -> dict[str, Any]:
        return {"sentences": len(self.outputs), **self.scores.as_dict()}


@dataclass
class Translator:
    model: Any
    tokenizers: Tokenizers
    decode: DecodeConfig
    columns: tuple[str, ...] = ()  # source and target of a table, as in training
    sessions: CapturedGraphs | None = None  # on a GPU: recorded searches, to be replayed
    proposes: SourceSpeculation | None = None  # tokens, if the settings ask for it

    example = "the animal did not cross the street because it was too tired"
    texts = 1  # in one input
    tells = ("predicted",)  # the columns that `fields` adds to a table
    subject = lazy("regard.tasks.translation.inspect:of_translator")
    trace = lazy("regard.tasks.translation.inspect:trace_translator")
    routes = lazy("regard.tasks.translation.serve:routes")

    def __post_init__(self) -> None:
        self.sessions = sessions_on(self.device, self.decode.compile)

    @classmethod
    def open(cls, folder: Path | str, device: str | None = None, assignments: Sequence[str] = ()) -> Translator:
        run = Run.open(folder)
        return cls.of(run, run.recipe_with(assignments), choose_device(device))

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Translator:
        """Open a run's translator; the search and the data of its recipe may differ from training."""
        must_be_as_trained(run, recipe)
        recipe.decode.must_not_continue("a translation")
        public = recipe.text.tokenizer == "public"
        tokenizers = Tokenizers.load(run.folder, recipe.text.joint, foreign=public)
        model = load_model(run, lambda: build_translator(recipe, tokenizers))
        model = ready(model, recipe.decode.weights, device)
        room = min(LONGEST_SOURCE, longest(recipe.model))
        proposes = source_speculation(recipe.decode, model, *tokenizers, room, device)
        return cls(model, tokenizers, recipe.decode, getattr(recipe.data, "columns", ()), proposes=proposes)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> Translator:
        """A public checkpoint as it is."""
        tokenizers = Tokenizers(start.tokenizer, start.target_tokenizer or start.tokenizer)
        model = start.open(lambda: build_translator(recipe, tokenizers))
        return cls(ready(model, recipe.decode.weights, device), tokenizers, recipe.decode)

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        joint = self.tokenizers.source is self.tokenizers.target
        return dict(zip(Tokenizers.files(joint), self.tokenizers))

    @property
    def marks(self) -> OutputMarks:
        return OutputMarks.of(self.decode, self.tokenizers.target)

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts as the encoder reads them."""
        source = self.tokenizers.source
        return frame_sources(source, texts, OutputMarks.of(source_settings(self.decode, source), source))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """One text or many. Under a probe the search is not recorded; its result is then seen in one pass."""
        texts = [text] if isinstance(text, str) else text
        with not_recording(self.model) as looking:
            found = [best[0] for best in self.translate(texts)]
        if looking and found:
            self._look(texts, found)
        return found[0].text if isinstance(text, str) else [translation.text for translation in found]

    def translate(self, texts: Sequence[str], first: int = 0) -> list[list[GeneratedText]]:
        """The n_best or the samples of each text, in the order given, decoded in batches of similar length.

        An empty text has one translation, the empty one.
        """
        results: list[list[GeneratedText]] = [[NOTHING] for _ in texts]
        written = [row for row, text in enumerate(texts) if text.strip()]
        sources = self.sources([texts[row] for row in written])
        self._must_fit([texts[row] for row in written], sources)
        for batch in in_batches([len(ids) for ids in sources], self.decode.batch_tokens):
            numbers = [first + written[n] for n in batch]
            for n, found in zip(batch, self._search([sources[n] for n in batch], numbers)):
                results[written[n]] = found
        return results

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A line for each text, or one for each of its n_best."""
        for source, found in zip(texts, self.translate(texts, first or 0)):
            tell({"source": source}, found, self.decode, as_json, emit)

    def fields(self, asked: Sequence[tuple[str, ...]], first: int) -> list[dict[str, str]]:
        """Return the new columns of each row of a table: the best translation."""
        return [{"predicted": found[0].text} for found in self.translate([text for (text,) in asked], first)]

    def evaluate(self, test: Sequence[Pair]) -> Translated:
        outputs = self([pair.source for pair in test])
        return Translated(corpus_scores(outputs, [pair.target for pair in test]), outputs)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the source."""
        return self.tokenizers.source

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    def test_texts(self, test: Sequence[Pair]) -> Iterator[tuple[str, str | None]]:
        return ((pair.source, pair.target) for pair in test)

    def _must_fit(self, texts: Sequence[str], sources: list[list[int]]) -> None:
        room = longest(self.model.config)
        for text, ids in zip(texts, sources):
            shown = text if len(text) <= 40 else f"{text[:40]}..."
            if len(ids) > LONGEST_SOURCE and room > LONGEST_SOURCE:
                raise UserError(
                    f"{shown!r} is {len(ids):,} tokens long, its end counted, and one text may have {LONGEST_SOURCE:,}; split it."
                )
            if len(ids) > room:
                raise UserError(
                    f"{shown!r} is {len(ids):,} tokens long, its end counted, but this model has learned {room:,} positions; "
                    f"split it, or train with model.maximum_length={len(ids)} or model.position=sinusoidal."
                )

    def row(self, given: Any) -> SearchRow | None:
        """Return a text as a row of a search; None: of an empty text, nothing is written."""
        if not must_be_text(given).strip():
            return None
        (ids,) = sources = self.sources([given])
        self._must_fit([given], sources)
        rows = self.model.head.project.weight.shape[0]
        return source_row(self.decode, self.tokenizers.target, ids, len(ids), output_limit(self.model, len(ids)), rows)

    def encode_rows(self, rows: Sequence[SearchRow]) -> EncodedInput:
        return encode_sources(self.model, rows)

    def _search(self, sources: list[list[int]], numbers: Sequence[int]) -> list[list[GeneratedText]]:
        source_BM, lengths_B = pad([np.array(ids) for ids in sources])
        limits = [output_limit(self.model, len(ids)) for ids in sources]
        read = self.model.start(source_BM.to(self.device), lengths_B.to(self.device))
        limits, rows = self.decode.capped(limits), self.model.head.project.weight.shape[0]
        return find(self.decode, read, self.tokenizers.target, limits, numbers, self.sessions, rows, sources, self.proposes)

    @torch.no_grad()
    def _look(self, texts: Sequence[str], translations: Sequence[GeneratedText]) -> None:
        """One teacher-forced pass over the results: training and decoding give the same numbers, so this is what was attended."""
        sources = self.sources(texts)
        source_BM, lengths_B = pad([np.array(ids) for ids in sources])
        room = longest(self.model.config)  # an output cut off where learned positions end leaves none for what follows it
        target_BL, _ = pad([np.array([self.marks.start, *translation.ids][:room]) for translation in translations])
        self.model(source_BM.to(self.device), lengths_B.to(self.device), target_BL.to(self.device))

    def attention(self, text: str, part: str | None = None) -> tuple[str, Alignment]:
        """The translation, and what each of its words attended to: part "cross", "decoder" or "encoder"."""
        part = part or "cross"
        with probe(self.model) as seen:
            with not_recording(self.model):
                best = self.translate([text])[0][0]
            self._look([text], [best])
        names = [name for name in seen if name.endswith(".cross") == (part == "cross") and (part == "cross" or part in name)]
        if not names:
            if not len(seen):
                raise UserError("there is no attention to draw: this model looks at nothing (model.attention=none).")
            raise UserError(f"--part {part} has no attention to draw: the model has {', '.join(seen)}.")
        weights = torch.stack([seen[name].weights()[0] for name in names]).cpu().numpy()
        source = self.tokenizers.source.tokens(self.sources([text])[0])
        words = self.tokenizers.target.tokens(best.ids)
        room = longest(self.model.config)
        begun, ended = ([*self.tokenizers.target.tokens([i])] for i in (self.marks.start, self.marks.end))
        given, written = [*begun, *words][:room], [*words, *ended][:room]
        queries, keys = {"cross": (written, source), "decoder": (written, given), "encoder": (source, source)}[part]
        return best.text, Alignment(f"{text} → {best.text}", tuple(queries), tuple(keys), weights, tuple(names))


def longest(config: Any) -> int:
    """Tokens a sequence may have, <sos> or <eos> counted: learned positions end, others go on."""
    return config.context or sys.maxsize


def build_translator(recipe: Recipe, tokenizers: Tokenizers) -> Any:
    return build_model(recipe.model, recipe.train.seed, **vocabulary_sizes(recipe, tokenizers))


def vocabulary_sizes(recipe: Recipe, tokenizers: Tokenizers) -> dict[str, int]:
    """Return the rows of the embeddings; a public model may have more of them than its tokenizers have tokens."""
    if recipe.text.tokenizer != "public":
        return {"vocabulary": len(tokenizers.source), "target_vocabulary": len(tokenizers.target)}
    shared = recipe.text.joint or recipe.model.tie in ("all", "inputs")
    return {"vocabulary": recipe.text.size, "target_vocabulary": recipe.text.size if shared else len(tokenizers.target)}

"""A trained tagger: it says what each word of a text is, and which of them are persons, places, or what else it has learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.batching.tagged import TaggedTexts, WordReader
from regard.data.sources.tagged import TaggedSentence
from regard.data.tagset import Tags
from regard.decode.config import DecodeConfig
from regard.families import build_model
from regard.families.base import Heads
from regard.metrics.classification import ClassificationScores, EntityScores
from regard.runs.folder import Run
from regard.runs.load import load_model, must_be_as_trained, ready, vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.results import EvaluationResult, list_mistakes, on_one_line
from regard.tasks.tagging.decode_tags import HEADER, Marked, log_probabilities, marked, mistakes, word_reader
from regard.text.offsets import Span, word_places
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.lens.subject import Subject

LABELS = "labels.json"
NOTHING = Marked([], [], [])


class Entity(NamedTuple):
    """text[start:end] of a text; the probability is that all of its words have the tags that make it one."""

    start: int
    end: int
    type: str
    text: str
    probability: float


class Word(NamedTuple):
    start: int
    end: int
    text: str
    tag: str
    probability: float


class Tagged(NamedTuple):
    entities: list[Entity]  # where tags mark none, every word, with its tag for a type
    words: list[Word]


@dataclass
class Tagger:
    model: Any
    reader: WordReader
    tags: Tags
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table of texts, known by its header: none are chosen

    example = "Anna Miller works in Paris"

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Tagger:
        must_be_as_trained(run, recipe)
        tokenizer, tags = Tokenizer.load(run.folder / VOCABULARY, foreign=True), Tags.load(run.folder / LABELS)
        model = load_model(run, lambda: _build(recipe, vocabulary_of(recipe, tokenizer), tags))
        return cls(ready(model, recipe.decode.weights, device), word_reader(recipe, tokenizer), tags, recipe.decode, run)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> Tagger:
        """A public folder that came with a head for tags; unless data.scheme is set, their names tell what scheme they are in."""
        if not start.heads.tags:
            raise UserError(f"{start.name} has no head that tags words; train one on top of it with task.init_from={start.name}.")
        tags = Tags.of_names(start.labels, None if recipe.data.scheme == "auto" else recipe.data.scheme)
        model = start.open(lambda: _build(recipe, start.vocabulary, tags))
        return cls(ready(model, recipe.decode.weights, device), word_reader(recipe, start.tokenizer), tags, recipe.decode)

    @property
    def texts(self) -> int:
        """Return the number of texts in one input."""
        return 1

    @property
    def tells(self) -> tuple[str, ...]:
        """Return the names of the columns that `fields` adds to a table."""
        return ("words", "predicted")

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.reader.tokenizer, LABELS: self.tags}

    @overload
    def __call__(self, text: str) -> list[Entity]: ...
    @overload
    def __call__(self, text: list[str]) -> list[list[Entity]]: ...
    def __call__(self, text: str | list[str]) -> list[Entity] | list[list[Entity]]:
        """The entities of one text, or of each of many."""
        if isinstance(text, list):
            return [found.entities for found in self.tag(text)]
        return self.tag([text])[0].entities

    def tag(self, texts: Sequence[str]) -> list[Tagged]:
        """Entities and words of each, with where they stand in it."""
        places = [word_places(text) for text in texts]
        found = self.tag_words([[text[a:b] for a, b in words] for text, words in zip(texts, places)])
        return [_placed(text, words, said) for text, words, said in zip(texts, places, found)]

    def tag_words(self, sentences: Sequence[Sequence[str]]) -> list[Marked]:
        """Tag sentences that are split into words already."""
        logs_WC = self._logs(sentences)
        return marked(logs_WC, [len(words) for words in sentences], self.tags) if len(logs_WC) else [NOTHING for _ in sentences]

    def _logs(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        ids, places = self.reader.encode([words for words in sentences if words])
        unknown = TaggedTexts.of(ids, places, np.zeros(len(places.flat), np.int64))
        return log_probabilities(self.model, unknown, self.decode.batch_tokens)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`start<TAB>end<TAB>type<TAB>text<TAB>probability` for each entity, and an empty line behind each text."""
        for text, found in zip(texts, self.tag(texts)):
            if as_json:
                entities, words = ([one._asdict() for one in part] for part in found)
                emit(json.dumps({"text": text, "entities": entities, "words": words}, ensure_ascii=False) + "\n")
            else:
                lines = (
                    f"{e.start}\t{e.end}\t{printable(e.type)}\t{on_one_line(e.text)}\t{e.probability:.4f}\n"
                    for e in found.entities
                )
                emit("".join(lines) + "\n")

    def fields(self, asked: Sequence[tuple[str, ...]], first: int) -> list[dict[str, Any]]:
        """Return the new columns of each row of a table: words and tags, space-separated; and in JSON, entities."""
        found = self.tag([text for (text,) in asked])
        return [
            {
                "words": " ".join(word.text for word in one.words),
                "predicted": " ".join(word.tag for word in one.words),
                "entities": [entity._asdict() for entity in one.entities],
            }
            for one in found
        ]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.reader.tokenizer

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        from regard.tasks.masked_lm.inspect import of_tagger

        return of_tagger(self, text, target)

    def test_texts(self, test: Sequence[TaggedSentence]) -> Iterator[tuple[str, str | None]]:
        for sentence in test:
            text = " ".join(sentence.words)
            fits = len(word_places(text)) == len(sentence.words)  # else its words are split in another way than the file's
            yield text, " ".join(sentence.tags) if fits else None

    def evaluate(self, test: Sequence[TaggedSentence]) -> EvaluationResult[EntityScores | ClassificationScores]:
        """Scores, with the mistakes listed in the run's folder."""
        true = np.concatenate(self.tags.numbers(test, "test"))
        logs_WC = self._logs([sentence.words for sentence in test])
        said = marked(logs_WC, [len(sentence.words) for sentence in test], self.tags)
        scores = scores_of(self.tags, true, logs_WC, test, said)
        listed = list_mistakes(self.run, "the surest first", HEADER, mistakes(test, said, self.tags))
        return EvaluationResult(scores, [" ".join(sentence.tags) for sentence in said], listed)


def _build(recipe: Recipe, vocabulary: int, tags: Tags) -> Any:
    return build_model(recipe.model, vocabulary=vocabulary, heads=only_tags(tags))


def only_tags(tags: Tags) -> Heads:
    return Heads(words=False, tags=len(tags))


def scores_of(
    tags: Tags, true: np.ndarray, logs_WC: np.ndarray, sentences: Sequence[TaggedSentence], said: Sequence[Marked]
) -> EntityScores | ClassificationScores:
    """Return scores of entities, or of single words in a plain scheme; `true` are the numbers of all words' tags."""
    nll = float(-logs_WC[np.arange(len(true)), true].mean())
    if tags.scheme == "plain":
        number = {name: n for n, name in enumerate(tags.names)}
        answers = np.array([number[tag] for sentence in said for tag in sentence.tags])
        return ClassificationScores.of(tags.names, true, answers, nll, "words")
    return EntityScores.of(tags.types, [tags.rewritten(s.tags) for s in sentences], [s.tags for s in said], nll)


def _placed(text: str, words: Sequence[Span], said: Marked) -> Tagged:
    entities = []
    for first, last, type_ in said.entities:
        start, end = words[first].start, words[last - 1].end
        entities.append(Entity(start, end, type_, text[start:end], said.probability(first, last)))
    each = zip(words, said.tags, said.probabilities)
    return Tagged(entities, [Word(start, end, text[start:end], tag, p) for (start, end), tag, p in each])

"""A trained tagger: it says what each word of a text is, and which of them are persons, places, or what else it has learned.

Tags are decoded as the best sequence that the tagging scheme allows, from log-probabilities of every word's tags. Mistakes are
the entities of a test set that were missed, made up, cut wrongly or given another type: a row each, the surest first.
Dims: W words, C tags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.batching.tagged import TaggedTexts, WordReader, make_batch
from regard.data.sources.tagged import TaggedSentence
from regard.data.tagset import Scheme, Span, Tags, spans, transitions
from regard.decode.config import DecodeConfig
from regard.decode.request import in_batches
from regard.decode.structured import best_path
from regard.families import build_model, marks_of
from regard.families.base import Heads
from regard.metrics.classification import ClassificationScores, EntityScores
from regard.objectives.tagging import tag_scores
from regard.runs.folder import Run
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.predictor import EvaluationResult, ReaderPredictor, list_mistakes, on_one_line, open_model
from regard.text import offsets
from regard.text.offsets import word_places
from regard.text.tokenizer import Tokenizer

WINDOW = 512  # tokens, where positions do not end


class Marked(NamedTuple):
    """A tagged sentence: a tag of every word, its probability, and the entities that the tags mark."""

    tags: list[str]
    probabilities: list[float]
    entities: list[Span]

    def probability(self, start: int, end: int) -> float:
        """Return the probability that all words have the given tags."""
        return prod(self.probabilities[start:end])


def word_reader(recipe: Recipe, tokenizer: Tokenizer) -> WordReader:
    window, room = recipe.data.window, recipe.model.context
    if room is not None and window > room:
        raise UserError(f"data.window={window} is more than model.maximum_length={room} positions; set it to {room} or less.")
    window = window or room or WINDOW
    if window < 16:
        raise UserError(f"model.maximum_length={window} is too small to see words in their context; set it to 16 or more.")
    return WordReader(tokenizer, marks_of(recipe.model, tokenizer.roles), window)


@torch.no_grad()
def log_probabilities(model: Any, data: TaggedTexts, budget: int) -> np.ndarray:
    """logs_WC of all words in their order, computed in batches of windows of like length."""
    found, device = np.zeros((data.words, model.tags.project.weight.shape[0])), next(model.parameters()).device
    for rows in in_batches(data.ids.lengths.tolist(), budget):
        batch = make_batch(data, np.array(rows)).to(device)
        asked = np.concatenate([np.arange(data.places.offsets[row], data.places.offsets[row + 1]) for row in rows])
        found[asked] = tag_scores(model, batch).double().log_softmax(-1).cpu().numpy()
    return found


def marked(logs_WC: np.ndarray, lengths: Sequence[int], tags: Tags) -> list[Marked]:
    """Decode the tags of sentences whose words come one after the other."""
    may_CC, ends = transitions(tags.names, tags.scheme), np.cumsum(lengths)
    return [_marked(logs_WC[end - length : end], may_CC, tags) for end, length in zip(ends, lengths)]


def _marked(logs_WC: np.ndarray, may_CC: np.ndarray, tags: Tags) -> Marked:
    path_W = best_path(logs_WC, may_CC)
    names = [tags.names[n] for n in path_W]
    probabilities = np.exp(logs_WC[np.arange(len(path_W)), path_W]).tolist()
    return Marked(names, probabilities, entities(names, tags.scheme))


def entities(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Return the entities that tags mark; in a plain scheme, each word is one."""
    return [Span(n, n + 1, tag) for n, tag in enumerate(tags)] if scheme == "plain" else spans(tags)


HEADER = ("true", "true_type", "predicted", "predicted_type", "probability", "sentence", "place")
NONE = "-"


class Mistake(NamedTuple):
    """A wrong entity: the true one and the predicted one, one of them perhaps none, and its probability."""

    true: Span | None
    said: Span | None
    probability: float


def mistakes(test: Sequence[TaggedSentence], said: Sequence[Marked], tags: Tags) -> list[list[str]]:
    found = [(m, s) for s, other in zip(test, said) for m in _of_sentence(entities(s.tags, tags.scheme), other)]
    return [_row(mistake, sentence) for mistake, sentence in sorted(found, key=lambda one: -one[0].probability)]


def _of_sentence(true: Sequence[Span], said: Marked) -> list[Mistake]:
    """Return wrong entities, each beside the missed one that shares most words with it; and the other missed ones."""
    missed = [span for span in true if span not in said.entities]
    found = []
    for span in said.entities:
        if span not in true:
            beside = max(missed, key=lambda other: _shared(span, other), default=None)
            found.append(Mistake(beside if beside and _shared(span, beside) else None, span, said.probability(*span[:2])))
    told = {mistake.true for mistake in found}
    return [*found, *(Mistake(span, None, said.probability(*span[:2])) for span in missed if span not in told)]


def _shared(one: Span, other: Span) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _row(mistake: Mistake, sentence: TaggedSentence) -> list[str]:
    def told(span: Span | None) -> list[str]:
        return [" ".join(sentence.words[span.start : span.end]), span.type] if span else [NONE, NONE]

    first = mistake.true or mistake.said
    assert first is not None  # one of them is what the mistake is about
    shown = f"{mistake.probability:.4f}"
    return [*told(mistake.true), *told(mistake.said), shown, " ".join(sentence.words), sentence.at(first.start)]


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
class Tagger(ReaderPredictor):
    model: Any
    reader: WordReader
    tags: Tags
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table of texts, known by its header: none are chosen

    example = "Anna Miller works in Paris"
    texts = 1  # in one input
    tells = ("words", "predicted")  # the columns that `fields` adds to a table
    subject = lazy("regard.tasks.masked_lm.inspect:of_tagger")
    routes = lazy("regard.tasks.tagging.serve:routes")

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> Tagger:
        """Open a run, or a public folder that came with a head for tags.

        Unless data.scheme is set, the names of a public folder's tags tell what scheme they are in.
        """
        if isinstance(source, Run):
            tags = Tags.load(source.folder / LABELS)
        elif source.heads.tags:
            tags = Tags.of_names(source.labels, None if recipe.data.scheme == "auto" else recipe.data.scheme)
        else:
            raise UserError(
                f"{source.name} has no head that tags words; train one on top of it with task.init_from={source.name}."
            )
        model, tokenizer = open_model(
            source, recipe, device, lambda size: build_model(recipe.model, vocabulary=size, heads=only_tags(tags))
        )
        run = source if isinstance(source, Run) else None
        return cls(model, word_reader(recipe, tokenizer), tags, recipe.decode, run)

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return super().vocabularies | {LABELS: self.tags}

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


def _placed(text: str, words: Sequence[offsets.Span], said: Marked) -> Tagged:
    entities = []
    for first, last, type_ in said.entities:
        start, end = words[first].start, words[last - 1].end
        entities.append(Entity(start, end, type_, text[start:end], said.probability(first, last)))
    each = zip(words, said.tags, said.probabilities)
    return Tagged(entities, [Word(start, end, text[start:end], tag, p) for (start, end), tag, p in each])

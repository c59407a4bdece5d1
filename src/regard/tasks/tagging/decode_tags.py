"""Decode tags: log-probabilities of every word's tags, and the best sequence that the tagging scheme allows.

Dims: W words, C tags.

The entities of a test set that were missed, made up, cut wrongly or given another type: a row each, the surest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError
from regard.data.batching.tagged import TaggedTexts, WordReader, make_batch
from regard.data.sources.tagged import TaggedSentence
from regard.data.tagset import Scheme, Span, Tags, spans, transitions
from regard.decode.request import in_batches
from regard.decode.structured import best_path
from regard.families import marks_of
from regard.objectives.tagging import tag_scores
from regard.runs.recipe import Recipe
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

"""From words to tags: what a model says of every word, and the best row of tags for each sentence that their scheme allows.

Dims: W words, C tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from regard.data.schemes import Scheme, Span, spans, transitions
from regard.data.tags import TaggedTexts, WordReader, make_batch
from regard.data.tagset import Tags
from regard.decode.batching import in_batches
from regard.decode.viterbi import best_path
from regard.errors import UserError
from regard.families.bodies import Body
from regard.families.classifier import marks
from regard.families.sizes import context
from regard.objective.tagging import tag_scores
from regard.recipe import Recipe
from regard.text.tokenizer import Tokenizer

WINDOW = 512  # tokens, where positions do not end


class Marked(NamedTuple):
    """What was said of a sentence: a tag of every word, how probable it is, and the entities that the tags mean."""

    tags: list[str]
    probabilities: list[float]
    entities: list[Span]

    def probability(self, start: int, end: int) -> float:
        """That all of these words have the tags they were given."""
        return prod(self.probabilities[start:end])


def word_reader(recipe: Recipe, tokenizer: Tokenizer) -> WordReader:
    window, room = recipe.data.window, context(recipe.model)
    if room is not None and window > room:
        raise UserError(f"data.window={window} is more than model.maximum_length={room} positions; set it to {room} or less.")
    window = window or room or WINDOW
    if window < 16:
        raise UserError(f"model.maximum_length={window} is too small to see words in their context; set it to 16 or more.")
    return WordReader(tokenizer, marks(recipe.model, tokenizer.roles), window)


@torch.no_grad()
def log_probabilities(model: Body, data: TaggedTexts, budget: int) -> np.ndarray:
    """logs_WC of all words in their order, computed in batches of windows of like length."""
    found, device = np.zeros((data.words, model.tags.project.weight.shape[0])), next(model.parameters()).device
    for rows in in_batches(data.ids.lengths.tolist(), budget):
        batch = make_batch(data, np.array(rows)).to(device)
        asked = np.concatenate([np.arange(data.places.offsets[row], data.places.offsets[row + 1]) for row in rows])
        found[asked] = tag_scores(model, batch).double().log_softmax(-1).cpu().numpy()
    return found


def marked(logs_WC: np.ndarray, lengths: Sequence[int], tags: Tags) -> list[Marked]:
    """Of sentences of so many words, that come one after the other."""
    may_CC, ends = transitions(tags.names, tags.scheme), np.cumsum(lengths)
    return [_marked(logs_WC[end - length : end], may_CC, tags) for end, length in zip(ends, lengths)]


def _marked(logs_WC: np.ndarray, may_CC: np.ndarray, tags: Tags) -> Marked:
    path_W = best_path(logs_WC, may_CC)
    names = [tags.names[n] for n in path_W]
    probabilities = np.exp(logs_WC[np.arange(len(path_W)), path_W]).tolist()
    return Marked(names, probabilities, entities(names, tags.scheme))


def entities(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """What tags mean; of plain ones each stands for itself."""
    return [Span(n, n + 1, tag) for n, tag in enumerate(tags)] if scheme == "plain" else spans(tags)

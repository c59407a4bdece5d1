"""The entities of a test set that were missed, made up, cut wrongly or given another type: a row each, the surest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.data.schemes import Span
from regard.data.tagged import TaggedSentence
from regard.data.tagset import Tags
from regard.tasks.marking import Marked, entities

HEADER = ("true", "true_type", "predicted", "predicted_type", "probability", "sentence", "place")
NONE = "-"


class Mistake(NamedTuple):
    """What there is and what was said, one of them perhaps none, and how probable the model found that."""

    true: Span | None
    said: Span | None
    probability: float


def mistakes(test: Sequence[TaggedSentence], said: Sequence[Marked], tags: Tags) -> list[list[str]]:
    found = [(m, s) for s, other in zip(test, said) for m in _of_sentence(entities(s.tags, tags.scheme), other)]
    return [_row(mistake, sentence) for mistake, sentence in sorted(found, key=lambda one: -one[0].probability)]


def _of_sentence(true: Sequence[Span], said: Marked) -> list[Mistake]:
    """What was said wrongly, beside the missed entity that it shares most words with; and what was missed besides."""
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

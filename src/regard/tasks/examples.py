"""Many texts to look into instead of one: what a task is tested on, as texts and what the model should say of them.

translate   sources and their translations          classify   texts, or pairs with a tab between, and labels or numbers
write       running text, in pieces                  answer     questions and contexts, and an answer
fill        running text, in pieces                  tag        sentences and a tag for each word
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.arena.sequences import Numbered
from regard.data.labelled import Example
from regard.data.pair import Pair
from regard.data.questions import Question
from regard.data.tagged import TaggedSentence
from regard.data.texts import documents
from regard.errors import UserError
from regard.families.sizes import context
from regard.lens.subject import Subject
from regard.recipe import Recipe
from regard.tasks.adopting import recipe_of
from regard.tasks.early import HUB
from regard.tasks.filler import Filler
from regard.tasks.judge import Judge
from regard.tasks.run import Run, aside
from regard.tasks.start import start_of
from regard.tasks.subject import subject_of
from regard.tasks.table import TASKS, is_public
from regard.tasks.task import Answers
from regard.tasks.writer import Writer
from regard.text.splitting import word_places
from regard.text.tokenizer import Tokenizer

PIECE = 128  # tokens of running text that are looked at together
MARKS = 2  # around a text that is read

Texts = tuple[str, str | None]  # a text, and what the model is scored on


def recipe_with_data(name: str, data: Path | None, *, split: str = "test") -> Recipe:
    """The recipe of a run or a public checkpoint, with `data` as its test set; without any, a split of the run's own."""
    given = [] if data is None else [f"data.test={data}"]
    if is_public(name):
        if data is None:
            raise UserError(f"{name} has no data of its own; give --data FILE with texts as its task has them.")
        return recipe_of(start_of(name.removeprefix(HUB)), given)
    recipe = Run.open(name).recipe_with(given)
    if data is None:
        where = getattr(recipe.data, split, ())
        if not where:
            raise UserError(f"{name} has no data.{split}; give --data FILE with texts as its task has them.")
        recipe = replace(recipe, data=replace(recipe.data, test=where))
    return recipe


def subjects(answers: Answers, recipe: Recipe, most: int) -> Iterator[Subject]:
    """The first `most` texts of the test set that the model can be asked about; how many could not be, and why, is told."""
    found, refused = 0, list[UserError]()
    for text, target in islice(texts(answers, TASKS[recipe.task.name].read_test(recipe)), 2 * most):
        try:
            subject = subject_of(answers, text, target)
        except UserError as error:
            refused.append(error)
            continue
        found += 1
        yield subject
        if found == most:
            break
    if refused and not found:
        raise refused[0]
    if refused:
        aside(f"{len(refused)} of {found + len(refused)} texts are left out; the first because {refused[0]}")


def texts(answers: Answers, test: Any) -> Iterator[Texts]:
    """A test set as its task reads it, one text after another."""
    if isinstance(answers, Writer):
        room = min(PIECE, answers.window)
        return ((piece, None) for piece in _pieces(documents(test.test, test.column), answers.tokenizer, room))
    if isinstance(answers, Filler | Judge):
        room = min(PIECE, context(answers.recipe.model) or PIECE) - MARKS
        return ((piece, None) for piece in _pieces(documents(test.where, test.column), answers.tokenizer, room))
    return chain.from_iterable(map(_asked, test))


def _asked(example: Any) -> Iterator[Texts]:
    match example:
        case Pair(source, target):
            yield source, target
        case Example() | Numbered():
            yield "\t".join(example.texts), example.label
        case TaggedSentence(words, tags):
            # Where words are cut otherwise than the file has them, its tags have no place.
            text = " ".join(words)
            yield text, " ".join(tags) if len(word_places(text)) == len(words) else None
        case Question():
            yield f"{example.text}\t{example.context}", example.answers[0].text if example.answers else None
        case _:
            raise TypeError(f"a {type(example).__name__} is not an example of any task")


def _pieces(found: Iterable[str], tokenizer: Tokenizer, room: int) -> Iterator[str]:
    for text in found:
        ids = tokenizer.encode(text)
        for start in range(0, len(ids), room):
            piece = tokenizer.decode(ids[start : start + room])
            if piece.strip():
                yield piece

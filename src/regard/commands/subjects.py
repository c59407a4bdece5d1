"""Any model of the project as a subject for lens: one text, or the texts of a test set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from regard.core.errors import UserError
from regard.core.terminal import print_stderr
from regard.families import family_of
from regard.lens.subject import Subject
from regard.runs.folder import Run
from regard.runs.pretrained import recipe_of, start_of
from regard.runs.protocols import Inspectable, Predictor, Traceable, capability
from regard.runs.recipe import HUB, Recipe
from regard.runs.task import TASKS
from regard.tasks.registry import is_public


def subject_of(predictor: Predictor, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """Return `text` as this model reads it, scored on `target`; by default on the model's own output, or on the text itself.

    A translator's target is a translation; a captioner's, a caption, and its text is the file of an image; a language model's,
    what follows the text; a masked model's, a word for each blank; a tagger's, a tag for each word; a classifier's, a label; a
    regressor's, a number; a question answerer's, the answer; an embedder's, a text like this one. `hypothesis` is for models that
    search: the rank, from 0, of one of the outputs, instead of a target.
    """
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    if target is not None and not target.strip():
        raise UserError("the target is empty; give what the model should say, or leave it out.")
    if hypothesis is not None and target is not None:
        raise UserError(f"both a target and --hypothesis {hypothesis} were given; give one of them.")
    if hypothesis is not None and not isinstance(predictor, Traceable):
        raise UserError(f"--hypothesis {hypothesis} is for models that write, and this one does not; leave it out.")
    inspectable = capability(predictor, Inspectable, "attention that lens can show", "give a model that reads or writes text")
    if not family_of(predictor.model).has("attention"):
        raise UserError("an ELMo has no attention to look into; see what it makes of a word with --word WORD instead of --show.")
    return inspectable.subject(text, target, hypothesis)


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


def subjects(predictor: Predictor, recipe: Recipe, most: int) -> Iterator[Subject]:
    """Yield the first `most` texts of the test set that the model can read; the number of the others, and why, is printed."""
    found, refused = 0, list[UserError]()
    inspectable = capability(predictor, Inspectable, "attention that lens can show", "give a model that reads or writes text")
    for text, target in islice(inspectable.test_texts(TASKS[recipe.task.name].read_test(recipe)), 2 * most):
        try:
            subject = subject_of(predictor, text, target)
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
        print_stderr(f"{len(refused)} of {found + len(refused)} texts are left out; the first because {refused[0]}")

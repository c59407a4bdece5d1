"""Any model of the project as a subject for lens: what its family reads, writes and is scored on, for one text.

`subject_writing.py` has those that write, `subject_image.py` those that write of an image, `subject_reading.py` those that say
something of each token, `subject_whole.py` those that say something of a whole text.

Many texts to look into instead of one: what a task is tested on, as texts and what the model should say of them.

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

from regard.core.errors import UserError
from regard.core.terminal import aside
from regard.data.lra.sequences import Numbered
from regard.data.pair import Pair
from regard.data.sources.captions import open_image
from regard.data.sources.images import square
from regard.data.sources.labelled import Example
from regard.data.sources.qa import Question
from regard.data.sources.tagged import TaggedSentence
from regard.data.sources.text import documents
from regard.families.elmo import ELMo
from regard.families.published_sizes import context
from regard.lens.subject import Subject
from regard.runs.early_checks import HUB
from regard.runs.folder import Run
from regard.runs.pretrained import recipe_of, start_of
from regard.runs.protocols import Predictor
from regard.runs.recipe import Recipe
from regard.runs.task import TASKS
from regard.tasks.captioning.inspect import of_image
from regard.tasks.captioning.predict import CaptionGenerator
from regard.tasks.classification.inspect import of_answerer, of_embedder, of_labeller, of_rater
from regard.tasks.classification.predict import Regressor, TextClassifier
from regard.tasks.embedding.predict import Embedder
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.masked_lm.electra import ReplacedTokenDetector
from regard.tasks.masked_lm.inspect import of_filler, of_judge, of_tagger
from regard.tasks.masked_lm.predict import FillMask
from regard.tasks.question_answering.predict import QuestionAnswerer
from regard.tasks.registry import is_public
from regard.tasks.tagging.predict import Tagger
from regard.tasks.translation.inspect import of_translator, of_writer
from regard.tasks.translation.predict import Translator
from regard.text.offsets import word_places
from regard.text.tokenizer import Tokenizer


def subject_of(answers: Predictor, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """`text` as this model reads it, scored on `target`; by default on what the model says itself, or the text itself.

    A translator's target is a translation; a captioner's, a caption, and its text is the file of an image; a language model's,
    what follows the text; a filler's, a word for each blank; a tagger's, a tag for each word; a labeller's, a label; a rater's, a
    number; an answerer's, the answer; an embedder's, a text like this one. `hypothesis` is for those that search: the number,
    from 0, of what was found, instead of a target.
    """
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    if target is not None and not target.strip():
        raise UserError("the target is empty; give what the model should say, or leave it out.")
    if hypothesis is not None and target is not None:
        raise UserError(f"both a target and --hypothesis {hypothesis} were given; give one of them.")
    if hypothesis is not None and not isinstance(answers, Translator | TextGenerator):
        raise UserError(f"--hypothesis {hypothesis} is for models that write, and this one does not; leave it out.")
    if isinstance(getattr(answers.model, "body", answers.model), ELMo):
        raise UserError("an ELMo has no attention to look into; see what it makes of a word with --word WORD instead of --show.")
    match answers:
        case Translator():
            return of_translator(answers, text, target, hypothesis)
        case TextGenerator():
            return of_writer(answers, text, target, hypothesis)
        case FillMask():
            return of_filler(answers, text, target)
        case ReplacedTokenDetector():
            return of_judge(answers, text, target)
        case Tagger():
            return of_tagger(answers, text, target)
        case TextClassifier():
            return of_labeller(answers, text, target)
        case Regressor():
            return of_rater(answers, text, target)
        case QuestionAnswerer():
            return of_answerer(answers, text, target)
        case Embedder():
            return of_embedder(answers, text, target)
        case CaptionGenerator():
            return of_image(answers, square(open_image(text), answers.model.config.image_size), text, target)
    raise UserError("lens cannot look into a run of this kind yet; give a model that reads or writes text.")


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


def subjects(answers: Predictor, recipe: Recipe, most: int) -> Iterator[Subject]:
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


def texts(answers: Predictor, test: Any) -> Iterator[Texts]:
    """A test set as its task reads it, one text after another."""
    if isinstance(answers, TextGenerator):
        room = min(PIECE, answers.window)
        return ((piece, None) for piece in _pieces(documents(test.test, test.column), answers.tokenizer, room))
    if isinstance(answers, FillMask | ReplacedTokenDetector):
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

"""Prepare images with questions, the answers of the training set as classes, and a vocabulary of questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.errors import UserError
from regard.data.batching.visual_questions import UNKNOWN, EncodedQuestions, VisualQuestionBatches, in_order
from regard.data.config import describe_valid_fraction, split_rows
from regard.data.sources.visual_questions import VisualQuestions, read_visual_questions
from regard.families import family_of
from regard.families.base import Heads, Sizes
from regard.families.flops import Part
from regard.runs.folder import Say
from regard.runs.prepared import Measured, PreparedText, read_split, warn_of_overlap
from regard.runs.pretrained import VOCABULARY, vocabulary
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.visual_questions.answers import FILE, Answers
from regard.tasks.visual_questions.predict import VisualAnswerer, built, encode_words, longest
from regard.training.loop import Validation

SAMPLES, LISTED = 6, 6
EXPECTED = "a .csv, .tsv or .jsonl file with image, question and answer, or builtin:scene-questions/train"


@dataclass(frozen=True, kw_only=True)
class AskedImages(PreparedText):
    """Questions about images, with their answers."""

    train: EncodedQuestions
    valid: EncodedQuestions
    valid_questions: VisualQuestions
    test: VisualQuestions | None
    answers: Answers
    unit = "questions"
    metric = "accuracy"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.tokenizer, FILE: self.answers}

    def build(self, seed: int) -> nn.Module:
        return built(self.recipe, self.vocabulary_size, len(self.answers))

    def source(self, *, packed: bool) -> VisualQuestionBatches:
        return VisualQuestionBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed)

    def valid_batches(self) -> list[Any]:
        return in_order(self.valid, self.recipe.train.tokens_per_batch)

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the scores, and the answers to the first few validation questions."""
        few = self.valid_questions.questions[:SAMPLES]
        answerer = VisualAnswerer(model, self.tokenizer, self.answers, self.recipe.data, self.recipe.decode)
        first = EncodedQuestions(
            self.valid.images_NYXC,
            self.valid.owner[:SAMPLES],
            encode_words(self.tokenizer, [question.question for question in few], answerer.longest)[0],
            self.valid.answers[:SAMPLES],
        )
        said = answerer.score(first)[0].argmax(1)
        lines = [
            f"{q.name}\n  question   {q.question}\n  answer     {q.answer}\n  model      {self.answers.names[n]}"
            for q, n in zip(few, said)
        ]
        return Validation(measured.means, lines)

    def example(self) -> tuple[Part, int]:
        words = max(1, round(self.train.words.lengths.mean()))
        sizes = Sizes(vocabulary=self.vocabulary_size, heads=Heads(words=False, classes=len(self.answers)))
        return family_of(self.recipe.model).count(self.recipe.model, sizes, words), 1

    def amounts(self) -> dict[str, str]:
        parts = {"train": self.train, "valid": self.valid}
        return {name: f"{len(part):,} questions about {len(part.images_NYXC):,} images" for name, part in parts.items()}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.digest, "valid": self.valid.digest}


def read_question_split(recipe: Recipe, split: str) -> VisualQuestions:
    data, size = recipe.data, recipe.model.image_size
    return read_split(
        recipe, split, lambda where, limit: read_visual_questions(where, data.columns, data.images, size, limit), EXPECTED
    )


def read_to_learn(recipe: Recipe) -> tuple[VisualQuestions, VisualQuestions]:
    """Training and validation; of a share that is held out, questions about images that look the same are on one side."""
    train = read_question_split(recipe, "train")
    if recipe.data.valid or not recipe.data.valid_fraction:
        return train, read_question_split(recipe, "valid")
    looks = [sha256(image_YXC.tobytes()).digest() for image_YXC in train.images_NYXC]
    rows = split_rows([looks[owner] for owner in train.owner_Q], recipe.data.valid_fraction, "questions")
    return train.take(rows.kept), train.take(rows.held)


def read_test(recipe: Recipe) -> VisualQuestions:
    return read_question_split(recipe, "test")


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> AskedImages:
    """Read and check the data, collect the answers, then take the vocabulary of the run's folder or learn it. Writes nothing."""
    _must_suit(recipe)
    train, valid = read_to_learn(recipe)
    test = read_question_split(recipe, "test") if recipe.data.test else None
    for line in describe_valid_fraction(recipe.data):
        say(line)
    for split, part in (("train", train), ("valid", valid), ("test", test)):
        if part is not None:
            say(f"{split}: {len(part):,} questions about {len(part.images_NYXC):,} images")
    if test is not None:
        pixels, test_pixels = ([image.tobytes() for image in part.images_NYXC] for part in (train, test))
        warn_of_overlap(pixels, test_pixels, "images", say)
    answers = Answers.of(train.questions, recipe.data.most_answers)
    _tell_answers(answers, train, valid, say)
    tokenizer = vocabulary(recipe, folder, None, lambda: [question.question for question in train.questions])
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    most = longest(recipe.data, recipe.model)
    encoded = {}
    for split, part in (("train", train), ("valid", valid)):
        words, cut = encode_words(tokenizer, [question.question for question in part.questions], most)
        if cut:
            say(f"{split}: {cut:,} questions are longer than {most} tokens and are cut")
        encoded[split] = EncodedQuestions(part.images_NYXC, part.owner_Q, words, answers.numbers(part.questions))
    if not (encoded["valid"].answers != UNKNOWN).any():
        raise UserError("data.valid: no answer in it is one of data.train, so nothing can be scored; give data of the same kind.")
    return AskedImages(
        recipe=recipe,
        tokenizer=tokenizer,
        train=encoded["train"],
        valid=encoded["valid"],
        valid_questions=valid,
        test=test,
        answers=answers,
    )


def _must_suit(recipe: Recipe) -> None:
    reads = getattr(recipe.model, "reads", "both")
    if reads != "both":
        raise UserError(f"model.reads={reads} reads one input; for questions about images set model.reads=both.")
    if recipe.task.init_from:
        raise UserError(
            f"task.init_from={recipe.task.init_from} is not for task.name=visual_questions, which starts anew; leave it out."
        )


def _tell_answers(answers: Answers, train: VisualQuestions, valid: VisualQuestions, say: Say) -> None:
    """Report the answers, and how far their words alone lead."""
    counts = Counter(question.answer for question in train.questions)
    listed = ", ".join(f"{name} {count / len(train):.1%}" for name, count in counts.most_common(LISTED))
    say(f"answers: {len(answers):,}; {listed}{', ...' if len(counts) > LISTED else ''}")
    right = sum(answers.without_image(question.question) == question.answer for question in valid.questions)
    say(f"without the image, each question's most frequent answer in training: {right / len(valid):.2%} of valid")
    if left := len(train) - sum(counts[name] for name in answers.names):
        say(f"train: {left:,} questions have rarer answers than data.most_answers={len(answers)} and are not learned from")
    unknown = sum(question.answer not in counts for question in valid.questions)
    if unknown:
        say(f"valid: {unknown:,} questions have answers that training does not, and count as wrong")

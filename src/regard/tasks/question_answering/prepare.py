"""The task `question_answering`: questions about texts, and a BERT that points at the words of a text that answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import nn

from regard.core.errors import UserError
from regard.data.batching.qa import SpanBatches, Windows
from regard.data.config import describe_valid_fraction
from regard.data.sources.qa import Question, read_questions
from regard.families import count_model
from regard.families.bert import BERT
from regard.families.flops import Part
from regard.metrics.question_answering import AnswerScores
from regard.objectives.base import Objective
from regard.runs.folder import Run, Say
from regard.runs.prepared import Measured, PreparedText, read_split, train_and_valid, warn_of_overlap
from regard.runs.pretrained import start_to_train, vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.question_answering.predict import SPAN, Asked, Reader, answers_of, scores_of
from regard.training.loop import Validation

SAMPLES = 6
EXPECTED = "SQuAD's .json, a .jsonl file with questions, contexts and answers, or hf:NAME"


@dataclass(frozen=True, kw_only=True)
class Questions(PreparedText):
    """Questions with their contexts, in windows."""

    reader: Reader
    train: Windows
    train_questions: int
    valid: Asked
    valid_questions: Sequence[Question]
    test: Sequence[Question]
    unit = "windows"
    metric = "f1"

    def build(self, seed: int) -> BERT:
        return BERT(self.recipe.model, self.vocabulary_size, seed, SPAN)

    def source(self, *, packed: bool) -> SpanBatches:
        return SpanBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed, packed)

    def valid_batches(self) -> Windows:
        return self.valid.windows

    def measure(self, model: nn.Module, objective: Objective, batches: Windows) -> Measured:
        scores = scores_of(cast(BERT, model), batches, self.recipe.train.tokens_per_batch)
        return Measured({"nll": scores.nll}, scores)

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report exact match and F1 on the validation questions, and the answers to the first few of them."""
        references = [[answer.text for answer in question.answers] for question in self.valid_questions]
        said = [best[0].text for best in answers_of(self.valid, measured.found.windows, self.recipe.data)]
        found = AnswerScores.of(said, references).all
        lines = [
            f"{question.text}\n  answer     {' | '.join(dict.fromkeys(true)) or '(none)'}\n  model      {answer or '(none)'}"
            for question, true, answer in zip(self.valid_questions[:SAMPLES], references, said)
        ]
        return Validation({"nll": measured.means["nll"], "exact": found.exact, "f1": found.f1}, lines)

    def example(self) -> tuple[Part, int]:
        """A window of average length."""
        return self.count(round(self.train.ids.lengths.mean()), SPAN), 1

    def amounts(self) -> dict[str, str]:
        counts = {"train": (self.train_questions, self.train), "valid": (len(self.valid_questions), self.valid.windows)}
        return {split: f"{questions:,} questions in {len(found):,} windows" for split, (questions, found) in counts.items()}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.digest(), "valid": self.valid.windows.digest()}


def read_question_split(recipe: Recipe, split: str) -> list[Question]:
    data = recipe.data
    found = read_split(recipe, split, lambda where, limit: read_questions(where, data.columns, limit, data.first), EXPECTED)
    if not data.unanswerable and (silent := [question for question in found if not question.answers]):
        raise UserError(
            f"data.{split}: {silent[0].place} has no answer, nor have {len(silent) - 1:,} more. Set data.unanswerable=true if "
            "that is meant: the model learns to say so."
        )
    return found


def read_to_learn(recipe: Recipe) -> tuple[Sequence[Question], Sequence[Question]]:
    """Training and validation; where a share of training is held out, all questions about a text are on one side."""
    train = read_question_split(recipe, "train")
    return train_and_valid(recipe, train, read_question_split, lambda question: question.context, "questions")


def read_test(recipe: Recipe) -> list[Question]:
    return read_question_split(recipe, "test")


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Questions:
    """Read and check the data, and take the vocabulary of the run, of the start, or of the training texts."""
    start = start_to_train(recipe, folder)
    train, valid = read_to_learn(recipe)
    test = read_test(recipe) if recipe.data.test else []
    for line in describe_valid_fraction(recipe.data):
        say(line)
    for split, questions in (("train", train), ("valid", valid), ("test", test)):
        for line in _described(questions):
            say(f"{split}: {line}")
    asked, asked_in_test = ([(question.text, question.context) for question in split] for split in (train, test))
    warn_of_overlap(asked, asked_in_test, "questions", say)
    tokenizer = vocabulary(recipe, folder, start, lambda: _texts(train))
    reader = Reader.of(recipe, tokenizer)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    read = {split: _read(reader, split, found, say) for split, found in (("train", train), ("valid", valid))}
    return Questions(
        recipe=recipe,
        tokenizer=tokenizer,
        start=start,
        reader=reader,
        train=read["train"].windows,
        train_questions=len(train),
        valid=read["valid"],
        valid_questions=valid,
        test=test,
    )


def _described(questions: Sequence[Question]) -> list[str]:
    """Return how many questions there are, and what looks odd about them."""
    if not questions:
        return []
    contexts, silent = len({question.context for question in questions}), sum(not question.answers for question in questions)
    none = f", {silent:,} of them without an answer" if silent else ""
    moved = sum(answer.moved for question in questions for answer in question.answers)
    lines = [f"{len(questions):,} questions about {contexts:,} texts{none}"]
    return lines + (
        [f"{moved:,} answers stand a little beside their start, and are taken from where they stand"] if moved else []
    )


def _texts(questions: Sequence[Question]) -> list[str]:
    """Return the texts that a vocabulary is learned from: every context once."""
    return [*dict.fromkeys(question.context for question in questions), *(question.text for question in questions)]


def _read(reader: Reader, split: str, questions: Sequence[Question], say: Say) -> Asked:
    """The first answer of each is what is to be learned."""
    spans = [
        (question.answers[0].start, question.answers[0].start + len(question.answers[0].text)) if question.answers else None
        for question in questions
    ]
    asked = [(question.text, question.context) for question in questions]
    read = reader.read(asked, [f"data.{split}: {question.place}" for question in questions], spans)
    if read.cut:
        say(f"{split}: {read.cut:,} questions are longer than data.maximum_question={reader.layout.question} tokens and are cut")
    if lost := read.windows.lost - sum(span is None for span in spans):
        say(f"{split}: {lost:,} answers are whole in no window of {reader.layout.window} tokens, so they cannot be learned")
    return read


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    (vocabulary,) = run.vocabulary_sizes()
    return count_model(recipe.model, tokens, vocabulary=vocabulary, heads=SPAN)

"""A trained answerer: asked about a text, it points at the words of it that answer, and says how sure it is of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, aside
from regard.data.config import QuestionsConfig
from regard.data.sources.qa import Question
from regard.decode.config import DecodeConfig
from regard.families.base import Heads
from regard.families.bert import BERT
from regard.metrics.question_answering import AnswerScores, mark
from regard.runs.folder import Run
from regard.runs.load import fill, must_be_as_trained, ready, vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint
from regard.runs.recipe import Recipe
from regard.tasks.question_answering.reader import Found, Reader, answers_of, scores_of
from regard.tasks.results import EvaluationResult, list_mistakes, on_one_line
from regard.text.tokenizer import Tokenizer

SPAN = Heads(words=False, span=True)
HEADER = ("question", "answers", "predicted", "f1", "probability", "place")


@dataclass
class QuestionAnswerer:
    model: BERT
    reader: Reader
    data: QuestionsConfig
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> QuestionAnswerer:
        must_be_as_trained(run, recipe)
        tokenizer, weights = Tokenizer.load(run.folder / VOCABULARY, foreign=True), run.weights()
        model = BERT(recipe.model, vocabulary_of(recipe, tokenizer), heads=SPAN)
        fill(model, weights)
        reader = Reader.of(recipe, tokenizer)
        return cls(ready(model, recipe.decode.weights, device), reader, recipe.data, recipe.decode, run)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> QuestionAnswerer:
        """A public checkpoint that was fine-tuned for this elsewhere."""
        model = BERT(recipe.model, start.vocabulary, heads=SPAN)
        start.fill(model)
        reader = Reader.of(recipe, start.tokenizer)
        return cls(ready(model, recipe.decode.weights, device), reader, recipe.data, recipe.decode)

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {VOCABULARY: self.reader.tokenizer}

    def __call__(self, question: str, context: str) -> Found:
        return self.answer([(question, context)])[0][0]

    def answer(self, asked: Sequence[tuple[str, str]]) -> list[list[Found]]:
        """The best answers to each question about its context, `data.n_best` of them."""
        for question, context in asked:
            if not (question.strip() and context.strip()):
                empty = "context" if question.strip() else "question"
                raise UserError(f"{(question or context)[:40]!r}: the {empty} is empty; give a question and a text to look in.")
        return self._found(asked, [repr(question[:40]) for question, _ in asked])

    def _found(self, asked: Sequence[tuple[str, str]], places: Sequence[str]) -> list[list[Found]]:
        if not asked:
            return []
        read = self.reader.read(asked, places)
        if read.cut:
            aside(
                f"{read.cut:,} of {len(asked):,} questions were longer than data.maximum_question={self.reader.layout.question} "
                "tokens and have been cut"
            )
        return answers_of(read, scores_of(self.model, read.windows, self.decode.batch_tokens).windows, self.data)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`answer<TAB>start<TAB>end<TAB>score<TAB>probability` for each `question<TAB>context`; an empty line for an empty one.

        Machines get the `data.n_best` answers.
        """
        written = [as_typed(text) for text in texts if text.strip()]
        answers = iter(self.answer(written))
        for text in texts:
            found = next(answers) if text.strip() else []
            if as_json:
                question, context = as_typed(text) if text.strip() else (text, "")
                record = {"question": question, "context": context, "answers": [one._asdict() for one in found]}
                emit(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                emit(_line(found[0]) if found else "\n")

    def evaluate(self, test: Sequence[Question]) -> EvaluationResult[AnswerScores]:
        """Scores, with the mistakes listed in the run's folder."""
        found = self._found([(q.text, q.context) for q in test], [f"data.test: {q.place}" for q in test])
        best = [answers[0] for answers in found]
        references = [[answer.text for answer in question.answers] for question in test]
        scores = AnswerScores.of([one.text for one in best], references)
        return EvaluationResult(scores, [on_one_line(one.text) for one in best], self._list_mistakes(test, best, references))

    def _list_mistakes(self, test: Sequence[Question], best: Sequence[Found], references: Sequence[Sequence[str]]) -> str:
        """Those that have nothing right first, and of these the surest."""
        marks = [mark(one.text, true) for one, true in zip(best, references)]
        wrong = sorted((m.f1, -one.probability, n) for n, (m, one) in enumerate(zip(marks, best)) if m.exact < 1)
        rows = [
            [test[n].text, " | ".join(dict.fromkeys(references[n])), best[n].text, f"{f1:.4f}", f"{-unsure:.4f}", test[n].place]
            for f1, unsure, n in wrong
        ]
        return list_mistakes(self.run, "the worst first", HEADER, rows)


def _line(found: Found) -> str:
    return f"{on_one_line(found.text)}\t{found.start}\t{found.end}\t{found.score:.4f}\t{found.probability:.4f}\n"


def as_typed(text: str) -> tuple[str, str]:
    question, _, context = text.partition("\t")
    if not (question.strip() and context.strip()):
        raise UserError(f"{text[:40]!r}: put a tab between a question and the text to look in: QUESTION<TAB>CONTEXT.")
    return question, context

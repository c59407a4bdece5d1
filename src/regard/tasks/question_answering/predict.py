"""A trained answerer: asked about a text, it points at the words of it that answer, and says how sure it is of them.

Its reader turns questions and contexts into windows of ids, and scores into answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, print_stderr
from regard.data.batching.qa import Layout, Windows, make_batch, windows
from regard.data.config import QuestionsConfig
from regard.data.sources.qa import Question
from regard.decode.config import DecodeConfig
from regard.decode.request import in_batches
from regard.decode.structured import NOWHERE, Part, best_spans
from regard.families import marks_of
from regard.families.base import Heads
from regard.families.bert import BERT
from regard.metrics.question_answering import AnswerScores, mark
from regard.objectives.span import span_loss, span_scores
from regard.runs.folder import Run
from regard.runs.load import window_of
from regard.runs.pretrained import InitCheckpoint
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.predictor import EvaluationResult, ReaderPredictor, each_with, list_mistakes, on_one_line, open_model
from regard.text.offsets import Placed
from regard.text.tokenizer import Tokenizer

Characters = tuple[int, int]  # from, to


class Asked(NamedTuple):
    """Questions about contexts, numbered."""

    windows: Windows
    texts: list[str]  # the context of each question
    contexts: list[Placed]
    cut: int  # questions that were too long


class Found(NamedTuple):
    """An answer: text is context[start:end], and empty where there is no answer."""

    text: str
    start: int
    end: int
    score: float  # the model's, for its start and its end together
    probability: float  # its share among all answers there could be


@dataclass(frozen=True)
class Reader:
    tokenizer: Tokenizer
    layout: Layout

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> Reader:
        data, config, window = recipe.data, recipe.model, window_of(recipe)
        around = marks_of(config, tokenizer.roles)
        between = (around.between,) * (1 + around.twice)
        layout = Layout(around.start, between, around.end, window, data.stride, data.maximum_question, data.compare)
        if data.compare and config.segments < 3:
            raise UserError(
                f"data.compare=true needs a third segment, but model.segments={config.segments}; set one of them otherwise."
            )
        room = window - len(layout.before([])) - 1 - data.maximum_question
        if room < max(1, data.stride):
            wanted = f"data.stride={data.stride} of its tokens" if data.stride else "its context"
            raise UserError(
                f"a window of {window} tokens has no room for a question of data.maximum_question={data.maximum_question}, its "
                f"marks and {wanted}; lower one of them, or raise data.window."
            )
        return cls(tokenizer, layout)

    def read(
        self, asked: Sequence[tuple[str, str]], places: Sequence[str], answers: Sequence[Characters | None] | None = None
    ) -> Asked:
        """Pairs of question and context, each with its answer where that is known. What cannot be is refused by its place."""
        questions = self.tokenizer.encode_batch([question for question, _ in asked])
        different = list(dict.fromkeys(context for _, context in asked))  # many are asked about more than once
        placed = dict(zip(different, self.tokenizer.encode_placed(different)))
        contexts = [placed[context] for _, context in asked]
        for place, (_, text), context in zip(places, asked, contexts):
            if not (context.starts < context.ends).any():
                raise UserError(f"{place}: there is nothing in the context {text[:40]!r} that this vocabulary can spell.")
        spans = [
            None if answer is None else _tokens(context, answer, place, text)
            for place, (_, text), context, answer in zip(places, asked, contexts, answers or [None] * len(asked))
        ]
        cut = sum(len(question) > self.layout.question for question in questions)
        return Asked(windows(self.layout, questions, contexts, spans), [text for _, text in asked], contexts, cut)


def _tokens(context: Placed, answer: Characters, place: str, text: str) -> tuple[int, int]:
    found = context.pieces_of(*answer)
    if found is None:
        raise UserError(f"{place}: there is nothing in the answer {text[slice(*answer)]!r} that this vocabulary can spell.")
    return found


class Scores(NamedTuple):
    windows: list[np.ndarray]  # of each (tokens, 2): that an answer starts, that it ends there
    nll: float  # of the known answers, in nats a window


@torch.no_grad()
def scores_of(model: BERT, data: Windows, budget: int) -> Scores:
    """Score windows in batches of similar length, of at most `budget` tokens."""
    device, lengths = next(model.parameters()).device, data.ids.lengths
    found, total = [np.empty(0)] * len(data), 0.0
    for rows in in_batches(lengths.tolist(), budget):
        batch = make_batch(data, np.array(rows)).to(device)
        scores_NL2 = span_scores(model, batch)
        total += span_loss(scores_NL2, batch).item()
        for row, scores_L2 in zip(rows, scores_NL2.double().cpu().numpy()):
            found[row] = scores_L2[: lengths[row]].copy()  # or all of the batch is kept
    return Scores(found, total / max(1, len(data)))


def answers_of(asked: Asked, scores: Sequence[np.ndarray], data: QuestionsConfig) -> list[list[Found]]:
    """The `n_best` of each question."""
    parts: list[list[Part]] = [[] for _ in asked.texts]
    table = asked.windows
    for scores_L2, question, context, begin in zip(scores, table.questions, table.contexts, table.begins):
        parts[question].append(Part(int(begin), scores_L2[context:-1], float(scores_L2[0].sum())))
    threshold = data.threshold if data.unanswerable else None
    found = list[list[Found]]()
    for text, placed, its in zip(asked.texts, asked.contexts, parts):
        best = best_spans(its, data.maximum_answer, data.n_best, threshold, placed.starts < placed.ends)
        spans = [(0, 0) if one.first == NOWHERE else placed.characters_of(one.first, one.last) for one in best]
        found.append([Found(text[slice(*span)], *span, one.score, one.probability) for span, one in zip(spans, best)])
    return found


SPAN = Heads(words=False, span=True)
HEADER = ("question", "answers", "predicted", "f1", "probability", "place")


@dataclass
class QuestionAnswerer(ReaderPredictor):
    model: BERT
    reader: Reader
    data: QuestionsConfig
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed

    example = "who sleeps ?\tthe small cat sleeps and the dog barks"

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> QuestionAnswerer:
        """Open a run, or a public checkpoint that was fine-tuned for this elsewhere."""
        model, tokenizer = open_model(source, recipe, device, lambda size: BERT(recipe.model, size, heads=SPAN))
        run = source if isinstance(source, Run) else None
        return cls(model, Reader.of(recipe, tokenizer), recipe.data, recipe.decode, run)

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
            print_stderr(
                f"{read.cut:,} of {len(asked):,} questions were longer than data.maximum_question={self.reader.layout.question} "
                "tokens and have been cut"
            )
        return answers_of(read, scores_of(self.model, read.windows, self.decode.batch_tokens).windows, self.data)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`answer<TAB>start<TAB>end<TAB>score<TAB>probability` for each `question<TAB>context`; an empty line for an empty one.

        Machines get the `data.n_best` answers.
        """
        for text, found in each_with(texts, lambda some: self.answer([as_typed(text) for text in some])):
            if as_json:
                question, context = as_typed(text) if found else (text, "")
                record = {"question": question, "context": context, "answers": [one._asdict() for one in found or ()]}
                emit(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                emit(_line(found[0]) if found else "\n")

    subject = lazy("regard.tasks.classification.inspect:of_answerer")
    routes = lazy("regard.tasks.question_answering.serve:routes")

    def test_texts(self, test: Sequence[Question]) -> Iterator[tuple[str, str | None]]:
        return ((f"{one.text}\t{one.context}", one.answers[0].text if one.answers else None) for one in test)

    def evaluate(self, test: Sequence[Question]) -> EvaluationResult[AnswerScores]:
        """Scores, with the mistakes listed in the run's folder."""
        found = self._found([(q.text, q.context) for q in test], [f"data.test: {q.place}" for q in test])
        best = [answers[0] for answers in found]
        references = [[answer.text for answer in question.answers] for question in test]
        scores = AnswerScores.of([one.text for one in best], references)
        return EvaluationResult(scores, [on_one_line(one.text) for one in best], self._list_mistakes(test, best, references))

    def _list_mistakes(self, test: Sequence[Question], best: Sequence[Found], references: Sequence[Sequence[str]]) -> str:
        """List wrong answers: first those without a right word, the surest first."""
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

"""Reader of a question answerer: questions and contexts become windows of ids, and scores become answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError
from regard.data.batching.qa import Layout, Windows, make_batch, windows
from regard.data.config import QuestionsConfig
from regard.decode.request import in_batches
from regard.decode.structured import NOWHERE, Part, best_spans
from regard.families import marks_of
from regard.families.bert import BERT
from regard.objectives.span import span_loss, span_scores
from regard.runs.load import window_of
from regard.runs.recipe import Recipe
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

"""Subjects of every family, runs and public folders alike: what tests of lens share. Each is made once."""

from __future__ import annotations

from functools import cache

import torch

from regard.commands.subjects import subject_of
from regard.lens.subject import Subject, TokenRow
from regard.runs.protocols import Predictor
from regard.tasks.registry import open_run
from tests import command
from tests.tasks import tiny_labels, tiny_masks, tiny_questions, tiny_tags, tiny_text
from tests.tasks.adopted_folder import TASKS, folder_of
from tests.tasks.classification import test_rater

RUNS = {
    "translator": (command.trained, "the cat sees the dog ."),
    "writer": (tiny_text.trained, "the cat sees the dog."),
    "labeller": (tiny_labels.trained, "the old cat is nice"),
    "pairs": (lambda: tiny_labels.trained("bert", True), "a nice cat\ta old dog"),
    "rater": (test_rater.trained, "a nice cat\tthe big dog"),
    "tagger": (tiny_tags.trained, "Ann Lee left New Oslo ."),
    "answerer": (tiny_questions.trained, "Which animal?\tToday, the blue cat runs."),
    "filler": (lambda: tiny_masks.trained("bert"), "the cat <mask> the dog."),
    "judge": (lambda: tiny_masks.trained("electra"), "the cat sees the dog."),
}
PUBLIC = tuple(TASKS)
TEXT = "the animal did not cross the street because it was TOO tired."
EVERY = (*RUNS, *PUBLIC)
SOME = ("translator", "writer", "labeller", "tagger", "answerer", "filler", "BertModel")  # one of each kind


@cache
def answers(name: str) -> Predictor:
    torch.set_num_threads(1)
    return open_run(RUNS[name][0]() if name in RUNS else folder_of(name), "cpu")


def text_of(name: str) -> str:
    if name in RUNS:
        return RUNS[name][1]
    return f"which street?\t{TEXT}" if TASKS[name] == "question_answering" else TEXT


@cache
def subject(name: str, target: str | None = None) -> Subject:
    return subject_of(answers(name), text_of(name), target)


def side(*tokens: str, special: tuple[int, ...] = (), words: tuple[int, ...] | None = None) -> TokenRow:
    """Tokens by hand, each a word by itself unless told otherwise."""
    count = len(tokens)
    return TokenRow(tokens, tuple(range(count)), words or tuple(range(count)), tuple(n in special for n in range(count)))

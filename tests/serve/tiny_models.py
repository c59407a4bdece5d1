"""A small model of every task, as `regard serve` opens it: what tests of the routes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from regard.data.labels import Labels
from regard.data.sources.image_sets import Form
from regard.decode.config import DecodeConfig
from regard.runs.protocols import Predictor
from regard.tasks.image_classification.predict import ImageClassifier
from regard.tasks.registry import open_run
from tests.command import trained as translating
from tests.lens.tiny_images import NAMES, SIDE, model_of
from tests.studio.tiny_captioner import captioner_session
from tests.tasks import tiny_dialogues, tiny_labels, tiny_masks, tiny_questions, tiny_reports, tiny_tags, tiny_text
from tests.tasks import tiny_visual_questions as visual
from tests.tasks.forecasting import tiny_series


def image_classifier() -> Predictor:
    return ImageClassifier(model_of("class"), Labels(tuple(NAMES), 1), Form(SIDE), DecodeConfig(search="greedy"))


def captioner() -> Predictor:
    writer = captioner_session().writer
    return replace(writer, decode=replace(writer.decode, minimum_length=0))


OPENED: dict[str, Callable[[], Any]] = {
    "gpt": tiny_text.writer,
    "translator": lambda: open_run(translating(), "cpu"),
    "summarizer": lambda: open_run(tiny_reports.trained(), "cpu"),
    "responder": lambda: open_run(tiny_dialogues.trained("chat-single"), "cpu"),
    "retriever": lambda: open_run(tiny_dialogues.trained("chat-retrieval"), "cpu"),
    "classifier": tiny_labels.labeller,
    "pairs": lambda: tiny_labels.labeller("gpt", True),
    "embedder": lambda: open_run(tiny_tags.trained(), "cpu", ["task.name=embedding"]),
    "tagger": tiny_tags.tagger,
    "filler": lambda: open_run(tiny_masks.trained("bert"), "cpu"),
    "judge": lambda: open_run(tiny_masks.trained("electra"), "cpu"),
    "answerer": tiny_questions.answerer,
    "captioner": captioner,
    "images": image_classifier,
    "forecaster": lambda: open_run(tiny_series.trained("forecaster"), "cpu"),
    "asker": lambda: open_run(visual.trained(), "cpu"),
}


@cache
def opened(name: str) -> Any:
    torch.set_num_threads(1)
    return OPENED[name]()

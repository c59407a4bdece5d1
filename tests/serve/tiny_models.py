"""A small model of every task, as `regard serve` opens it: what tests of the routes share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

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

_kept = TemporaryDirectory(prefix="regard-tests-")
FEW = ("train.steps=4", "train.warmup=2", "train.validate_every=4", "train.checkpoint_every=4")


def folder(name: str) -> Path:
    return Path(_kept.name) / name


def gpt() -> Predictor:
    """A few steps are enough for a model whose answers are compared with its own alone."""
    with patch.dict(os.environ, REGARD_CACHE=str(folder("cache"))):
        tiny_text.train(
            folder("gpt"),
            tiny_text.write_stories(folder("stories.jsonl"), tiny_text.stories(60)),
            "model.maximum_length=64",
            "data.window=64",
        )
    return open_run(folder("gpt"), "cpu")


def summarizer() -> Predictor:
    tiny_reports.train(folder("summarizer"), f"data.train={tiny_reports.data()},{tiny_reports.moods()}", *tiny_reports.TWO)
    return open_run(folder("summarizer"), "cpu")


def masked(family: str) -> Predictor:
    with patch.dict(os.environ, REGARD_CACHE=str(folder("cache"))):
        tiny_masks.train(folder(family), family, tiny_masks.data())
    return open_run(folder(family), "cpu")


def pairs() -> Predictor:
    data = tiny_labels.write_rows(folder("pairs.tsv"), tiny_labels.PAIRS)
    tiny_labels.train_as(tiny_labels.recipe(data, "model.family=gpt", "objective.language=0", *FEW), folder("pairs"))
    return open_run(folder("pairs"), "cpu")


def answerer() -> Predictor:
    data = tiny_questions.write_rows(folder("questions.jsonl"), tiny_questions.ROWS)
    tiny_questions.train_as(tiny_questions.recipe(data, *FEW), folder("answerer"))
    return open_run(folder("answerer"), "cpu")


def image_classifier() -> Predictor:
    return ImageClassifier(model_of("class"), Labels(tuple(NAMES), 1), Form(SIDE), DecodeConfig(search="greedy"))


def captioner() -> Predictor:
    writer = captioner_session().writer
    return replace(writer, decode=replace(writer.decode, minimum_length=0))


OPENED: dict[str, Callable[[], Any]] = {
    "gpt": gpt,
    "translator": lambda: open_run(translating(), "cpu"),
    "summarizer": summarizer,
    "responder": lambda: open_run(tiny_dialogues.trained("chat-single"), "cpu"),
    "retriever": lambda: open_run(tiny_dialogues.trained("chat-retrieval"), "cpu"),
    "classifier": tiny_labels.labeller,
    "pairs": pairs,
    "embedder": lambda: open_run(tiny_tags.trained(), "cpu", ["task.name=embedding"]),
    "tagger": tiny_tags.tagger,
    "filler": lambda: masked("bert"),
    "judge": lambda: masked("electra"),
    "answerer": answerer,
    "captioner": captioner,
    "images": image_classifier,
    "forecaster": lambda: open_run(tiny_series.trained("forecaster"), "cpu"),
    "asker": lambda: open_run(visual.trained(), "cpu"),
}


@cache
def opened(name: str) -> Any:
    torch.set_num_threads(1)
    return OPENED[name]()

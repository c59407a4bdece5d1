"""Prepare running text and a vocabulary of whole words for two tables that learn which words occur near each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from regard.core.errors import UserError
from regard.data.batching.token_cache import tokenise
from regard.data.batching.word_vectors import BlockSource, EntrySource, WordText, cooccurrences, word_text
from regard.data.sources.text import parts
from regard.data.sources.word_vectors import Pairs, Questions, read_word_test
from regard.families import family_of
from regard.families.base import Sizes
from regard.families.flops import Part
from regard.families.word2vec import Word2Vec
from regard.metrics.word_analogies import crowding
from regard.objectives.glove import GloVe, GloVeConfig
from regard.objectives.negative_sampling import NegativeSampling
from regard.runs.folder import Run, Say
from regard.runs.pretrained import VOCABULARY, vocabulary
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training import word_vectors
from regard.training.logging import RunLog, duration
from regard.training.progress import Interrupt, Progress

WHOLE = ("word", "spaced")
TRIED = 20  # steps that the estimate of a dry run is made from
CROWDED = 0.93  # the mean cosine of a word and its ten nearest above which neighbours mean nothing
FEWEST = 200  # words of which that can be said


@dataclass(frozen=True)
class Words:
    """Prepared text (see `runs/prepared.py`; what only the common loop asks for is not here)."""

    recipe: Recipe
    tokenizer: Tokenizer
    text: WordText
    sha256: str  # of the text's tokens
    test: tuple[Questions | Pairs, ...]

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {VOCABULARY: self.tokenizer}

    @property
    def counted(self) -> bool:
        return isinstance(self.recipe.objective, GloVeConfig)

    @property
    def unit(self) -> str:
        return "counts" if self.counted else "words"

    def model(self) -> Word2Vec:
        return Word2Vec(self.recipe.model, len(self.text.words), self.recipe.train.seed, counted=self.counted)

    def method(self) -> word_vectors.Method:
        objective, tables = self.recipe.objective, self.model()
        return GloVe(tables, objective) if isinstance(objective, GloVeConfig) else NegativeSampling(tables, objective)

    @cached_property
    def source(self) -> word_vectors.StepSource:
        o, train = self.recipe.objective, self.recipe.train
        if isinstance(o, GloVeConfig):
            counts = cooccurrences(self.text, o.window, symmetric=o.symmetric, by_distance=o.by_distance)
            return EntrySource(counts, batch=train.batch, seed=train.seed, part=o.part)
        return BlockSource(
            self.text,
            window=o.window,
            subsample=o.subsample,
            power=o.power,
            block=o.block,
            shared=o.shared,
            batch=train.batch,
            seed=train.seed,
            part=o.part,
        )

    def example(self) -> tuple[Part, int]:
        sizes = Sizes(vocabulary=len(self.text.words), word_biases=self.counted)
        return family_of(self.recipe.model).count(self.recipe.model, sizes, round(self.recipe.objective.products)), 1

    def amounts(self) -> dict[str, str]:
        return {"train": f"{self.text.amount}, {len(self.text.words):,} different"}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.sha256}


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Any:
    """Learn or take the vocabulary, number the text. Nothing is written but the cache of numbers."""
    data, text = recipe.data, recipe.text
    if recipe.task.init_from:
        raise UserError(f"task.init_from={recipe.task.init_from}: word vectors begin with chance; leave it out.")
    if text.vectors:
        raise UserError(f"text.vectors={text.vectors} is for models that read; word vectors begin with chance. Leave it out.")
    if text.tokenizer not in WHOLE:
        raise UserError(f"text.tokenizer={text.tokenizer} makes pieces of words; set text.tokenizer=spaced, or word.")
    if not data.train:
        raise UserError("data.train is empty; give a text file, a folder, a pattern such as 'books/*.txt', or hf:NAME.")
    test = read_test(recipe)
    tokenizer = vocabulary(recipe, folder, None, lambda: [part.text for part in parts(data.train, data.column)])
    tokens = tokenise(data.train, data.column, tokenizer, eos=None, say=say)
    found = word_text(tokens, tokenizer)
    say(f"train: {found.amount}; {len(found.words):,} different, each seen {text.minimum_count} times or more")
    return Words(recipe, tokenizer, found, tokens.sha256, test)


def read_test(recipe: Recipe) -> tuple[Questions | Pairs, ...]:
    return tuple(read_word_test(Path(where)) for where in recipe.data.test)


def train(prepared: Words, run: Run, say: Say, interrupt: Interrupt) -> Progress:
    """Train by a loop of its own (see `training/word_vectors.py`)."""
    config, store, method = prepared.recipe.train, run.store(say), prepared.method()
    progress, steps = word_vectors.resume(store, method), config.epochs * prepared.source.per_epoch
    if progress.step >= steps:
        say(f"{run.folder} is trained to step {progress.step:,}; nothing left to train, only to score")
        return progress
    if progress.step:
        say(f"continuing from step {progress.step:,} of {steps:,}")
    log = RunLog(run.folder, steps, progress.step, prepared.unit)
    progress = word_vectors.train(method, prepared.source, config, store, log, progress, interrupt)
    if progress.step >= steps:
        _warn_if_crowded(cast(Word2Vec, method.tables).vectors().numpy(), config.epochs, say)
    return progress


def _warn_if_crowded(vectors_VD: np.ndarray, epochs: int, say: Say) -> None:
    """Vectors that all point one way have neighbours with high scores that mean nothing."""
    if len(vectors_VD) >= FEWEST and (found := crowding(vectors_VD)) > CROWDED:
        say(
            f"warning: the vectors have hardly been told apart (a word and its ten nearest have a mean cosine of {found:.2f}): "
            f"there were too few steps. Continue with more epochs, such as train.epochs={4 * epochs}, or give more text."
        )


def estimate(prepared: Words) -> list[str]:
    """Estimate memory and time of a training from a few steps on this machine."""
    config, source, method = prepared.recipe.train, prepared.source, prepared.method()
    steps, part = config.epochs * source.per_epoch, prepared.example()[0]
    tried = min(TRIED, steps)
    began = time.perf_counter()
    with word_vectors.workers(config) as crew:
        for step in range(tried):
            word_vectors.take_step(method, source.parts(step), config.learning_rate, crew)
    seconds = (time.perf_counter() - began) / max(1, tried) * steps
    return [
        f"parameters        {part.parameters:,}",
        f"steps             {steps:,} in {config.epochs} epochs of {source.count(source.per_epoch):,} {prepared.unit}",
        f"time              about {duration(seconds)}, from {tried} steps on this machine's CPU",
    ]

"""The task `tagging`: sentences with a tag for each word, and a body that reads with a head that tags what it has read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.tagged import TaggedBatches, TaggedTexts, WordReader
from regard.data.config import describe_valid_fraction, split_valid
from regard.data.sources.tagged import TaggedSentence, read_tagged
from regard.data.tagset import Scheme, Tags, describe_tags, guess_scheme, repair_tags
from regard.families import build_model, count_model
from regard.families.flops import Part
from regard.metrics.classification import EntityScores
from regard.objectives.base import Objective
from regard.runs.folder import Run, Say
from regard.runs.prepared import Measured, PreparedText, read_split, warn_of_overlap
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, start_to_train, vocabulary
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.tagging.predict import LABELS, Marked, log_probabilities, marked, only_tags, scores_of, word_reader
from regard.training.loop import Validation

SAMPLES = 6
NO_TAG = "_"  # of a word without a tag


class Split(NamedTuple):
    sentences: list[TaggedSentence]
    scheme: Scheme
    repaired: int  # tags that broke it


@dataclass(frozen=True, kw_only=True)
class Sentences(PreparedText):
    """Sentences with their tags."""

    reader: WordReader
    tags: Tags
    train: TaggedTexts
    train_sentences: int
    valid: TaggedTexts
    valid_sentences: list[TaggedSentence]
    test: list[TaggedSentence]
    unit = "words"

    @property
    def metric(self) -> str:  # type: ignore[override]
        """Entities are judged by F1, single words by accuracy."""
        return "accuracy" if self.tags.scheme == "plain" else "f1"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.tokenizer, LABELS: self.tags}

    def build(self, seed: int) -> Any:
        return build_model(self.recipe.model, seed, vocabulary=self.vocabulary_size, heads=only_tags(self.tags))

    def begin(self, model: nn.Module) -> None:
        if self.start is not None:
            _with_same_tags(self.start, self.tags).fill(model)

    def source(self, *, packed: bool) -> TaggedBatches:
        return TaggedBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed, packed)

    def valid_batches(self) -> TaggedTexts:
        return self.valid

    def measure(self, model: nn.Module, objective: Objective, batches: TaggedTexts) -> Measured:
        logs_WC = log_probabilities(model, batches, self.recipe.train.tokens_per_batch)
        nll = -logs_WC[np.arange(len(logs_WC)), batches.tags.flat].mean()
        return Measured({"nll": float(nll) if np.isfinite(logs_WC).all() else float("nan")}, logs_WC)

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the scores on the validation sentences, and the tags of the first few of them."""
        said = marked(measured.found, [len(sentence.words) for sentence in self.valid_sentences], self.tags)
        scores = scores_of(self.tags, self.valid.tags.flat, measured.found, self.valid_sentences, said)
        metrics = {"nll": scores.nll, "accuracy": scores.accuracy}
        metrics |= {"f1": scores.f1} if isinstance(scores, EntityScores) else {"macro_f1": scores.macro_f1}
        return Validation(metrics, [_sample(*both) for both in zip(self.valid_sentences[:SAMPLES], said)])

    def example(self) -> tuple[Part, int]:
        """A window of average length, and the words that are asked of it."""
        length, words = self.train.ids.lengths.mean(), self.train.places.lengths.mean()
        return self.count(round(length), only_tags(self.tags)), max(1, round(words))

    def amounts(self) -> dict[str, str]:
        counts = {"train": (self.train_sentences, self.train), "valid": (len(self.valid_sentences), self.valid)}
        found = {split: f"{sentences:,} sentences of {data.words:,} words" for split, (sentences, data) in counts.items()}
        return found | {"train": f"{found['train']}, {len(self.tags)} tags"}

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data and of the tags' names, which are numbers in the data."""
        names = hashlib.sha256("\0".join((self.tags.scheme, *self.tags.names)).encode()).hexdigest()
        return {"train": f"{self.train.digest()}:{names}", "valid": self.valid.digest()}


def read_tagged_split(recipe: Recipe, split: str) -> Split:
    data = recipe.data

    def read(where: tuple[str, ...], limit: int | None) -> Split:
        found = read_tagged(where, data.columns, limit)
        scheme = guess_scheme([sentence.tags for sentence in found]) if data.scheme == "auto" else data.scheme
        sentences, repaired = repair_tags(found, scheme, data.repair)
        return Split(sentences, scheme, repaired)

    return read_split(recipe, split, read, "a file with a word and its tag on each line, a .jsonl file, or hf:NAME")


def read_splits(recipe: Recipe) -> dict[str, Split]:
    """Training, validation and, where there is any, the test; of a share that is held out, whole documents if files name them."""
    train, data = read_tagged_split(recipe, "train"), recipe.data
    if data.valid or not data.valid_fraction:
        valid = read_tagged_split(recipe, "valid")
    else:
        documents = len({sentence.group for sentence in train.sentences}) > 1  # of one alone, sentences are picked
        kept, held = split_valid(
            train.sentences, lambda sentence: sentence.group if documents else sentence.words, data.valid_fraction, "sentences"
        )
        train, valid = train._replace(sentences=kept), Split(held, train.scheme, 0)
    test = read_tagged_split(recipe, "test") if data.test else None
    return {"train": train, "valid": valid} | ({"test": test} if test and not _is_untagged(test.sentences) else {})


def _is_untagged(sentences: Sequence[TaggedSentence]) -> bool:
    """Says no word what it is, as in a treebank that is to be tagged?"""
    return all(tag == NO_TAG for sentence in sentences for tag in sentence.tags)


def _unscored(recipe: Recipe) -> str:
    where = " and ".join(recipe.data.test)
    return f"{where} has no tags, so there is nothing to score; 'regard predict RUN --input {recipe.data.test[0]}' gives it some."


def read_test(recipe: Recipe) -> list[TaggedSentence]:
    if _is_untagged(found := read_tagged_split(recipe, "test").sentences):
        raise UserError(f"data.test: {_unscored(recipe)}")
    return found


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Sentences:
    """Read and check the data, learn its tags, and take the vocabulary of the run, of the start, or of the training sentences."""
    start = start_to_train(recipe, folder)
    splits = read_splits(recipe)
    train, valid = splits["train"].sentences, splits["valid"].sentences
    test = splits["test"].sentences if "test" in splits else []
    if recipe.data.test and not test:
        say(f"test: {_unscored(recipe)}")
    tags = Tags.of(train, splits["train"].scheme)
    numbers = {split: tags.numbers(found.sentences, split) for split, found in splits.items()}
    for line in describe_valid_fraction(recipe.data):
        say(line)
    _tell(splits, say)
    tokenizer = vocabulary(recipe, folder, start, lambda: [" ".join(sentence.words) for sentence in train])
    reader = word_reader(recipe, tokenizer)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    encoded = {split: _encoded(reader, split, splits[split].sentences, numbers[split], say) for split in ("train", "valid")}
    return Sentences(
        recipe=recipe,
        tokenizer=tokenizer,
        start=start,
        reader=reader,
        tags=tags,
        train=encoded["train"],
        train_sentences=len(train),
        valid=encoded["valid"],
        valid_sentences=valid,
        test=test,
    )


def _tell(splits: Mapping[str, Split], say: Say) -> None:
    for split, (sentences, scheme, repaired) in splits.items():
        first, *others = describe_tags(sentences, scheme)
        say(f"{split}: {len(sentences):,} sentences, {first}")
        for line in others if split == "train" else []:
            say(f"  {line}")
        if repaired:
            say(f"  warning: {repaired:,} tags broke {scheme} and have been repaired (data.repair=true).")
    words = {split: [sentence.words for sentence in found.sentences] for split, found in splits.items()}
    warn_of_overlap(words["train"], words.get("test", []), "sentences", say)


def _encoded(
    reader: WordReader, split: str, sentences: Sequence[TaggedSentence], numbers: Sequence[Sequence[int]], say: Say
) -> TaggedTexts:
    ids, places = reader.encode([sentence.words for sentence in sentences])
    if len(ids) > len(sentences):
        say(f"{split}: {len(sentences):,} sentences are read in {len(ids):,} windows of at most {reader.window} tokens")
    return TaggedTexts.of(ids, places, np.concatenate([np.array(row) for row in numbers]))


def _with_same_tags(start: InitCheckpoint, tags: Tags) -> InitCheckpoint:
    """A head that came along is kept if it is for just these tags; else a new one is learned."""
    if start.labels == tags.names:
        return start
    return replace(start, weights={name: w for name, w in start.weights.items() if not name.startswith("tags.")})


def _sample(sentence: TaggedSentence, said: Marked) -> str:
    lines = [f"{name:<9}  {' '.join(tags)}" for name, tags in (("tags", sentence.tags), ("model", said.tags))]
    return "\n  ".join([" ".join(sentence.words)[:200], *lines])


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    (vocabulary,) = run.vocabulary_sizes()
    return count_model(recipe.model, tokens, vocabulary=vocabulary, heads=only_tags(Tags.load(run.folder / LABELS)))

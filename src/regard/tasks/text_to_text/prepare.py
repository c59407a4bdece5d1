"""The task `text_to_text`: inputs and the texts to write for them, from one file or several that are mixed.

Raffel et al. 2020: every task is text in and text out, and a prefix says which one it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.mixture import Mixture
from regard.data.batching.pairs import EncodedPairs, Ragged, cuts, make_batch
from regard.data.config import describe_valid_fraction, split_valid
from regard.data.sources.text_pairs import TextPair, describe_columns
from regard.families import build_model, count_model
from regard.families.flops import Part
from regard.metrics.text_to_text import METRIC, score_texts
from regard.runs.folder import Say
from regard.runs.prepared import Measured, PreparedText, warn_of_overlap, with_perplexity
from regard.runs.pretrained import start_to_train, vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.generated_text import shown
from regard.tasks.output_marks import greedy_as, pair_marks
from regard.tasks.text_to_text.predict import TextWriter, room_of
from regard.tasks.text_to_text.reader import encode_inputs, read_files
from regard.text.specials import PairMarks
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

SAMPLES = 3  # validation pairs that are shown
SHOWN = 2  # pairs of each file, as they are read
WRITTEN = 300  # validation pairs that outputs are written for: the first of each file, as many of each


@dataclass(frozen=True, kw_only=True)
class TextToText(PreparedText):
    """Inputs and targets of each file."""

    train: Sequence[EncodedPairs]
    valid: EncodedPairs
    written: Sequence[TextPair]  # of the validation data, what outputs are written for
    test: list[TextPair]
    unit = "target tokens"

    @property
    def metric(self) -> str:  # type: ignore[override]
        return METRIC[self.recipe.data.answers]

    def build(self, seed: int) -> Any:
        size = self.vocabulary_size
        return build_model(self.recipe.model, seed, vocabulary=size, target_vocabulary=size)

    def source(self, *, packed: bool) -> Mixture:
        recipe = self.recipe
        return Mixture(self.train, recipe.data.weights, recipe.train.tokens_per_batch, recipe.train.seed, packed)

    def valid_batches(self) -> list[Any]:
        longest = self.valid.longest()
        order = np.argsort(longest, kind="stable")
        return [make_batch(self.valid, order[a:b]) for a, b in cuts(longest[order], self.recipe.train.tokens_per_batch)]

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss, the score of greedy outputs, and a few of them."""
        writer = TextWriter(model, self.tokenizer, self.recipe, greedy_as(self.recipe.decode))
        outputs = writer([pair.input for pair in self.written])
        scores = score_texts(outputs, [pair.targets for pair in self.written], self.recipe.data.answers).as_dict()
        lines = [
            f"{pair.input}\n  reference  {pair.targets[0]}\n  model      {output}"
            for pair, output in zip(self.written[:SAMPLES], outputs)
        ]
        return Validation({**with_perplexity(measured.means), self.metric: scores[self.metric]}, lines)

    def example(self) -> tuple[Part, int]:
        """A pair of average lengths."""
        pairs, size, marks = sum(map(len, self.train)), self.vocabulary_size, self.valid.marks
        source = round(sum(p.source.flat.size for p in self.train) / pairs) + marks.around_source
        target = round(sum(p.target.flat.size for p in self.train) / pairs) + marks.around_target
        return count_model(self.recipe.model, target, source, vocabulary=size, target_vocabulary=size), target

    def amounts(self) -> dict[str, str]:
        return {"train": f"{sum(map(len, self.train)):,} pairs", "valid": f"{len(self.valid):,} pairs"}

    def fingerprints(self) -> dict[str, str]:
        return {"train": "+".join(pairs.digest() for pairs in self.train), "valid": self.valid.digest()}


def read_test(recipe: Recipe) -> list[TextPair]:
    return [pair for pairs in read_files(recipe, "test") for pair in pairs]


def read_to_learn(recipe: Recipe) -> tuple[list[list[TextPair]], list[list[TextPair]]]:
    """Return training and validation pairs of each file; of a share that is held out, equal inputs are on one side."""
    train = read_files(recipe, "train")
    if recipe.data.valid or not recipe.data.valid_fraction:
        return train, read_files(recipe, "valid")
    halves = [split_valid(pairs, lambda pair: pair.input, recipe.data.valid_fraction, "pairs") for pairs in train]
    return [kept for kept, _ in halves], [held for _, held in halves]


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> TextToText:
    """Read the files, then take the vocabulary of the run's folder or of what it starts from, or learn it. Nothing is written."""
    train, valid = read_to_learn(recipe)
    test = read_test(recipe) if recipe.data.test else []
    for line in describe_valid_fraction(recipe.data):
        say(line)
    _say_files(recipe, train, say)
    warn_of_overlap((pair.input for pairs in train for pair in pairs), [pair.input for pair in test], "inputs", say)
    start = start_to_train(recipe, folder)
    tokenizer = vocabulary(recipe, folder, start, lambda: _texts(train))
    marks = pair_marks(tokenizer, recipe.decode)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    encoded = [training_pairs(recipe, tokenizer, marks, where, pairs, say) for where, pairs in zip(recipe.data.train, train)]
    if recipe.data.weights:
        mixture = Mixture(encoded, recipe.data.weights, recipe.train.tokens_per_batch, recipe.train.seed)
        told = ", ".join(f"{share:,} of {where}" for where, share in zip(recipe.data.train, mixture.shares))
        say(f"mixed: batches of an epoch: {told}")
    held = [pair for pairs in valid for pair in pairs]
    sources, cut = encode_inputs(tokenizer, [pair.input for pair in held], room_of(recipe) - marks.around_source)
    if cut:
        say(f"valid: {cut:,} of {len(held):,} inputs are cut to data.maximum_input={room_of(recipe):,} tokens")
    targets = tokenizer.encode_batch([pair.targets[0] for pair in held])
    must_fit(recipe, targets, marks)
    few = WRITTEN // len(valid)
    return TextToText(
        recipe=recipe,
        tokenizer=tokenizer,
        start=start,
        train=encoded,
        valid=EncodedPairs(Ragged(sources), Ragged(targets), marks=marks),
        written=[pair for pairs in valid for pair in pairs[:few]],
        test=test,
    )


def _say_files(recipe: Recipe, train: Sequence[Sequence[TextPair]], say: Say) -> None:
    for where, pairs in zip(recipe.data.train, train):
        for line in describe_columns(where, recipe.data.columns):
            say(line)
        say(f"train: {len(pairs):,} pairs of {where}")
        for pair in pairs[:SHOWN] if not where.startswith("builtin:") else ():
            say(f"  {shown(pair.input)!r} is {shown(pair.targets[0])!r}")


def _texts(train: Sequence[Sequence[TextPair]]) -> list[str]:
    return [text for pairs in train for pair in pairs for text in (pair.input, pair.targets[0])]


def training_pairs(
    recipe: Recipe, tokenizer: Tokenizer, marks: PairMarks, where: str, pairs: Sequence[TextPair], say: Say
) -> EncodedPairs:
    """Return the pairs of a file to train on: inputs are cut, pairs with a longer target are left out, and both are counted."""
    room, most = room_of(recipe), recipe.data.maximum_target
    sources, cut = encode_inputs(tokenizer, [pair.input for pair in pairs], room - marks.around_source)
    targets = tokenizer.encode_batch([pair.targets[0] for pair in pairs])
    kept = [n for n, ids in enumerate(targets) if len(ids) + marks.around_target <= most]
    if not kept:
        raise UserError(f"{where}: all {len(pairs):,} targets are longer than data.maximum_target={most:,} tokens; raise it.")
    if cut:
        say(f"train: {cut:,} of {len(pairs):,} inputs of {where} are cut to data.maximum_input={room:,} tokens")
    if dropped := len(pairs) - len(kept):
        say(f"train: {dropped:,} of {len(pairs):,} targets of {where} are longer than data.maximum_target={most:,}: left out")
    return EncodedPairs(Ragged([sources[n] for n in kept]), Ragged([targets[n] for n in kept]), dropped, marks)


def must_fit(recipe: Recipe, targets: Sequence[Sequence[int]], marks: PairMarks) -> None:
    """Refuse validation targets that a model with learned positions cannot be scored on."""
    most, room = max(map(len, targets)) + marks.around_target, recipe.model.context
    if room is not None and most > room:
        raise UserError(
            f"data.valid: a target has {most:,} tokens, its end counted, but model.position=learned has "
            f"model.maximum_length={room:,}; set model.maximum_length={most} or more, or take it out."
        )

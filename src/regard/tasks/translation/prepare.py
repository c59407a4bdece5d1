"""The task `translation`: pairs of sentences, vocabularies, and a model that reads the one and writes the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.pairs import EncodedPairs, PairBatches, cuts, encode_pairs, make_batch
from regard.data.config import describe_valid_fraction
from regard.data.sources import Pair
from regard.data.sources.parallel import Columns, check_pairs, describe_columns, read_pairs
from regard.families import count_model
from regard.families.flops import Part
from regard.runs.folder import Say
from regard.runs.prepared import Measured, PreparedText, read_split, train_and_valid, warn_of_overlap, with_perplexity
from regard.runs.pretrained import InitCheckpoint, learn_vocabulary, start_to_train
from regard.runs.recipe import Recipe
from regard.tasks.generated_text import shown
from regard.tasks.output_marks import greedy_as, pair_marks
from regard.tasks.translation.predict import Tokenizers, Translator, build_translator, longest, vocabulary_sizes
from regard.text.specials import OWN_MARKS, PairMarks
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

SAMPLES = 4
SHOWN = 3  # pairs, as they are read


@dataclass(frozen=True, kw_only=True)
class Pairs(PreparedText):
    """Sentence pairs."""

    tokenizers: Tokenizers
    train: EncodedPairs
    valid: EncodedPairs
    valid_pairs: Sequence[Pair]
    test: Sequence[Pair]
    unit = "target tokens"
    examples = "pairs"

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return dict(zip(Tokenizers.files(self.recipe.text.joint), self.tokenizers))

    def build(self, seed: int) -> Any:
        return build_translator(self.recipe, self.tokenizers)

    def source(self, *, packed: bool) -> PairBatches:
        return PairBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed, packed)

    def valid_batches(self) -> list[Any]:
        longest = self.valid.longest()
        order = np.argsort(longest, kind="stable")
        return [make_batch(self.valid, order[a:b]) for a, b in cuts(longest[order], self.recipe.train.tokens_per_batch)]

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss on the validation pairs, and translate the first few of them."""
        samples, greedy = self.valid_pairs[:SAMPLES], greedy_as(self.recipe.decode, 128)
        outputs = Translator(model, self.tokenizers, greedy)([pair.source for pair in samples])
        lines = [f"{pair.source}\n  reference  {pair.target}\n  model      {out}" for pair, out in zip(samples, outputs)]
        return Validation(with_perplexity(measured.means), lines)

    def example(self) -> tuple[Part, int]:
        marks, train = self.train.marks, self.train
        source = round(train.source.lengths.mean() + marks.around_source)
        target = round(train.target.lengths.mean() + marks.around_target)
        return count_model(self.recipe.model, target, source, **vocabulary_sizes(self.recipe, self.tokenizers)), target


def _columns(recipe: Recipe) -> Columns | None:
    return (recipe.data.columns[0], recipe.data.columns[1]) if recipe.data.columns else None


def read_pair_split(recipe: Recipe, split: str) -> list[Pair]:
    return read_split(recipe, split, lambda where, limit: read_pairs(where, _columns(recipe), limit))


def read_to_learn(recipe: Recipe) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """Training and validation; of a share that is held out, all translations of a sentence are on one side."""
    recipe.data.check_complete()
    return train_and_valid(recipe, read_pair_split(recipe, "train"), read_pair_split, lambda pair: pair.source, "pairs")


def read_test(recipe: Recipe) -> list[Pair]:
    return read_pair_split(recipe, "test")


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Pairs:
    """Read and check the data, then take the vocabularies of the run's folder or start, or learn them. Nothing is written."""
    train, valid = read_to_learn(recipe)
    test = read_test(recipe) if recipe.data.test else []
    for line in describe_valid_fraction(recipe.data):
        say(line)
    for name, pairs in (("train", train), ("valid", valid), ("test", test)):
        if pairs:
            for line in check_pairs(pairs, name).lines():
                say(line)
    _show(recipe, train, say)
    warn_of_overlap(train, test, "pairs", say)
    start = start_to_train(recipe, folder)
    tokenizers = _tokenizers(recipe, train, folder, start)
    marks = pair_marks(tokenizers.target, recipe.decode, tokenizers.source)
    sizes = f"{len(tokenizers.source):,}" + ("" if recipe.text.joint else f" and {len(tokenizers.target):,}")
    say(f"text: {recipe.text.tokenizer}, {sizes} tokens in the {'joint vocabulary' if recipe.text.joint else 'two vocabularies'}")
    encode = tokenizers.source.encode_batch, tokenizers.target.encode_batch
    validation = encode_pairs(valid, *encode, marks=marks)
    must_fit(recipe, "valid", validation.longest())
    if test:
        lengths = np.array([len(ids) for ids in encode[0]([pair.source for pair in test])])
        must_fit(recipe, "test", lengths + marks.around_source)
    return Pairs(
        recipe=recipe,
        start=start,
        tokenizer=tokenizers.source,
        tokenizers=tokenizers,
        train=training_pairs(recipe, train, tokenizers, say, marks),
        valid=validation,
        valid_pairs=valid,
        test=test,
    )


def _show(recipe: Recipe, train: Sequence[Pair], say: Say) -> None:
    """Report what was read of a person's own files: the columns, and the first few pairs."""
    for line in describe_columns(recipe.data.train, _columns(recipe)):
        say(line)
    for pair in train[:SHOWN] if not recipe.data.train[0].startswith("builtin:") else ():
        say(f"  {shown(pair.source)!r} is {shown(pair.target)!r}")


def training_pairs(
    recipe: Recipe, train: Sequence[Pair], tokenizers: Tokenizers, say: Say, marks: PairMarks = OWN_MARKS
) -> EncodedPairs:
    """Return the pairs that are not too long to train on, their marks counted."""
    room, setting = min(
        (recipe.data.maximum_tokens, f"data.maximum_tokens={recipe.data.maximum_tokens}"),
        (longest(recipe.model), f"model.maximum_length={longest(recipe.model)}"),
    )
    encoded = encode_pairs(train, tokenizers.source.encode_batch, tokenizers.target.encode_batch, room, marks)
    if not len(encoded):
        raise UserError(f"all {len(train):,} training pairs have a side longer than {setting}; raise it, or check data.train.")
    if encoded.dropped:
        say(f"train: {encoded.dropped:,} of {len(train):,} pairs have a side longer than {setting} and are left out")
    return encoded


def must_fit(recipe: Recipe, split: str, lengths: np.ndarray) -> None:
    """A score over what happens to be short would mislead, so here nothing is left out; lengths count the marks."""
    room, most = longest(recipe.model), int(lengths.max())
    if most > room:
        raise UserError(
            f"data.{split}, pair {int(lengths.argmax()) + 1:,}: {most:,} tokens, the end counted, but model.position=learned has "
            f"model.maximum_length={room:,}; set model.maximum_length={most} or more, or take that pair out."
        )


def _tokenizers(recipe: Recipe, train: Sequence[Pair], folder: Path | None, start: InitCheckpoint | None) -> Tokenizers:
    text = recipe.text
    if folder is not None and all((folder / name).exists() for name in Tokenizers.files(text.joint)):
        return Tokenizers.load(folder, text.joint, foreign=text.tokenizer == "public")
    if start is not None:
        return Tokenizers(start.tokenizer, start.target_tokenizer or start.tokenizer)
    sources, targets = [pair.source for pair in train], [pair.target for pair in train]
    if text.joint:
        joint = learn_vocabulary(text, lambda: [*sources, *targets])
        return Tokenizers(joint, joint)
    return Tokenizers(learn_vocabulary(text, lambda: sources), learn_vocabulary(text, lambda: targets))

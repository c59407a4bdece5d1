"""The task `dialogue`: dialogues, one vocabulary, and a model that reads the last turns and writes the next.

It is `translate` but for its data: what is read are turns with __eou__ between them, which is a piece of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.data.batching.pairs import encode_pairs
from regard.data.config import describe_valid_fraction, split_valid
from regard.data.sources import Pair
from regard.data.sources.dialogues import Dialogue, Exchange, exchanges, read_dialogues
from regard.data.sources.parallel import overlap
from regard.runs.folder import Say
from regard.runs.prepared import read_split
from regard.runs.pretrained import has_vocabulary, learn_vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.dialogue.predict import Fit
from regard.tasks.translation.predict import Tokenizers
from regard.tasks.translation.prepare import Pairs, must_fit, training_pairs

EXPECTED = "a .jsonl file with turns, a text file with __eou__ between them, builtin:smalltalk/SPLIT or hf:NAME"


def read_dialogue_split(recipe: Recipe, split: str) -> list[Dialogue]:
    return read_split(recipe, split, read_dialogues, EXPECTED)


def read_splits(recipe: Recipe, say: Say) -> tuple[list[Dialogue], dict[str, list[Exchange]]]:
    """The training dialogues, and of every split, test included if there is one, who replied what to what."""
    train, data = read_dialogue_split(recipe, "train"), recipe.data
    if data.valid or not data.valid_fraction:
        valid = read_dialogue_split(recipe, "valid")
    else:
        train, valid = split_valid(train, lambda dialogue: dialogue.turns, data.valid_fraction, "dialogues")
        if not any(len(dialogue.turns) > 1 for dialogue in valid):
            raise UserError("data.valid_fraction: the held-out part of data.train has no replies; raise it, or give data.valid.")
    splits = {"train": train, "valid": valid} | ({"test": read_dialogue_split(recipe, "test")} if data.test else {})
    for line in describe_valid_fraction(recipe.data):
        say(line)
    found = {split: exchanges_of(recipe, dialogues) for split, dialogues in splits.items()}
    for split, some in found.items():
        words = np.mean([len(exchange.reply.split()) for exchange in some])
        say(f"{split}: {len(splits[split]):,} dialogues, {len(some):,} replies of {words:.1f} words")
    pairs = {split: [exchange.pair for exchange in some] for split, some in found.items()}
    if shared := overlap(pairs["train"], pairs.get("test", [])):
        say(f"warning: {shared:,} of {len(pairs['test']):,} replies of the test are also in train after the same turns.")
    return splits["train"], found


def exchanges_of(recipe: Recipe, dialogues: Sequence[Dialogue]) -> list[Exchange]:
    return exchanges(dialogues, recipe.data.turns, recipe.data.replies == "every")


def read_test(recipe: Recipe) -> list[Pair]:
    return [exchange.pair for exchange in exchanges_of(recipe, read_dialogue_split(recipe, "test"))]


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Pairs:
    """Read and check the data, then take the vocabulary of the run's folder or learn it. Nothing is written."""
    if not recipe.text.joint:
        raise UserError("text.joint=false keeps two languages apart, but people who talk share one; leave it out.")
    dialogues, splits = read_splits(recipe, say)
    tokenizers = _tokenizers(recipe, dialogues, folder)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizers.source):,} tokens in the vocabulary")
    fit = Fit.of(recipe, tokenizers.source)
    pairs = {split: fit([exchange.pair for exchange in some]) for split, some in splits.items()}
    encode = tokenizers.source.encode_batch
    valid = encode_pairs(pairs["valid"], encode, encode)
    must_fit(recipe, "valid", valid.longest())
    if test := pairs.get("test", []):
        must_fit(recipe, "test", np.array([len(ids) + 1 for ids in encode([pair.source for pair in test])]))
    return Pairs(
        recipe=recipe,
        tokenizer=tokenizers.source,
        tokenizers=tokenizers,
        train=training_pairs(recipe, pairs["train"], tokenizers, say),
        valid=valid,
        valid_pairs=pairs["valid"],
        test=test,
    )


def _tokenizers(recipe: Recipe, dialogues: Sequence[Dialogue], folder: Path | None) -> Tokenizers:
    if folder is not None and has_vocabulary(folder):
        return Tokenizers.load(folder, joint=True)
    made = learn_vocabulary(recipe.text, lambda: [turn for dialogue in dialogues for turn in dialogue.turns])
    return Tokenizers(made.with_turns(), made.with_turns())

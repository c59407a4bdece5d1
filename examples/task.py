"""A task of your own: reverse the words of a sentence, from a text file with one sentence a line.

    regard train translate task.name=reversal data.train=lines.txt data.valid=held.txt data.test=held.txt \\
        --plugin examples/task.py --out runs/reversal
    regard predict runs/reversal "the cat sleeps" --plugin examples/task.py

A task says how data is prepared, how a test set is read and how a trained run is opened. This one prepares pairs and leaves the
rest to translation; training, resuming, costs, the model card, `predict`, `evaluate` and `lens` come with it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import regard
from regard.core.errors import UserError
from regard.core.files import read_text
from regard.data.batching.pairs import encode_pairs
from regard.data.sources import Pair
from regard.runs.recipe import Recipe
from regard.runs.task import TASKS
from regard.tasks.translation.predict import Tokenizers
from regard.tasks.translation.prepare import Pairs
from regard.text.tokenizer import Tokenizer, train_tokenizer


def read(files: tuple[str, ...], setting: str) -> list[Pair]:
    """Return every line with its words in reverse order."""
    if not files:
        raise UserError(f"{setting} is empty; give a text file with one sentence a line.")
    lines = [line for name in files for line in read_text(Path(name)).splitlines() if line.strip()]
    return [Pair(line, " ".join(reversed(line.split()))) for line in lines]


def read_test(recipe: Recipe) -> list[Pair]:
    """Return the test pairs."""
    return read(recipe.data.test, "data.test")


def prepare(recipe: Recipe, folder: Path | None, say: Callable[[str], None]) -> Pairs:
    """Read the data and take the vocabulary of the run's folder, or train one. Writes nothing."""
    train, valid = read(recipe.data.train, "data.train"), read(recipe.data.valid, "data.valid")
    if folder is not None and (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
    else:
        tokenizer = train_tokenizer(recipe.text.tokenizer, [pair.source for pair in train], recipe.text.size)
    encode = tokenizer.encode_batch
    say(f"reversal: {len(train):,} sentences to train on, {len(valid):,} to validate with")
    encoded = [encode_pairs(pairs, encode, encode) for pairs in (train, valid)]
    test = read_test(recipe) if recipe.data.test else []
    return Pairs(
        recipe=recipe,
        tokenizer=tokenizer,
        tokenizers=Tokenizers(tokenizer, tokenizer),
        train=encoded[0],
        valid=encoded[1],
        valid_pairs=valid,
        test=test,
    )


regard.register.task(replace(TASKS["translation"], name="reversal", prepare=prepare, read_test=read_test))

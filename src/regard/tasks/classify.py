"""The task `classify`: texts, or pairs of texts, with a label each, and a body that reads with a head that tells.

With objective.name=regression labels are numbers, and what is told is a number too. With objective.name=distillation a trained
classifier teaches a smaller one, with labels or without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from regard.data.arena.sequences import Sequences
from regard.data.classes import Labels
from regard.data.columns import listed
from regard.data.held_out import held_out, hint, rows_held_out, told_held_out
from regard.data.labelled import Example, chosen, lacks_labels, read_labelled, told_columns
from regard.data.labels import UNLABELLED, LabelledTexts
from regard.data.scale import Scale
from regard.data.unlabelled import read_unlabelled
from regard.errors import UserError
from regard.families.classifier import count
from regard.families.gpt import GPTConfig
from regard.model.count import Part
from regard.objective.distillation import DistillationConfig
from regard.recipe import Recipe
from regard.tasks.answered import Answered
from regard.tasks.classifier import LABELS, VOCABULARY, Labeller
from regard.tasks.distil import Teacher
from regard.tasks.distil_report import beside
from regard.tasks.labelled import KINDS, Kind, Labelled, called
from regard.tasks.rater import Rater
from regard.tasks.reading import Reader
from regard.tasks.run import Run, Say
from regard.tasks.start import Start, start_of, vocabulary
from regard.tasks.task import Result, Task
from regard.tasks.telling import shown

SHOWN = 3  # rows, as they are read


def read_split(recipe: Recipe, split: str) -> Sequence[Example]:
    limit = recipe.data.limit or None if split == "train" else None
    if not getattr(recipe.data, split):
        raise UserError(
            f"data.{split} is empty; give a .tsv, .csv or .jsonl file with texts and labels, or hf:NAME.{hint(split)}"
        )
    try:
        return read_labelled(getattr(recipe.data, split), recipe.data.columns, limit)
    except UserError as error:
        raise UserError(f"data.{split}: {error}{hint(split, error)}") from None


def read_test(recipe: Recipe) -> Sequence[Example]:
    if lacks_labels(recipe.data.test, recipe.data.columns):
        raise UserError(f"data.test: {_unscored(recipe)}")
    return read_split(recipe, "test")


def _unscored(recipe: Recipe) -> str:
    where = " and ".join(recipe.data.test)
    return f"{where} has no labels, so there is nothing to score; 'regard predict RUN --input {recipe.data.test[0]}' answers it."


def read_to_learn(recipe: Recipe) -> tuple[Sequence[Example], Sequence[Example]]:
    """Training and validation; where there is nothing to validate with, a share of training, picked by a seed of its own."""
    data = recipe.data
    train = read_split(recipe, "train") if data.train or not data.unlabelled else []
    if data.valid or not data.held_out:
        return train, read_split(recipe, "valid")
    if isinstance(train, Sequences):
        rows = rows_held_out(range(len(train)), data.held_out, "texts")
        return train.take(rows.kept), train.take(rows.held)
    return held_out(train, lambda example: example.key, data.held_out, "texts")


def words_of(examples: Sequence[Example]) -> list[str]:
    """What a vocabulary is learned from: of symbols, one of each."""
    if isinstance(examples, Sequences):
        return [" ".join(examples.symbols)]
    return [text for example in examples for text in example.texts]


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Labelled:
    """Read and check the data, learn its labels, and take the vocabulary of the run, of the start, or of the training texts.

    Labels and vocabulary of a student are its teacher's.
    """
    _must_make_sense(recipe)
    begun = folder is not None and (folder / VOCABULARY).exists()
    start = start_of(recipe.task.start) if recipe.task.start and not begun else None
    teacher = Teacher.of(recipe.objective.teacher) if isinstance(recipe.objective, DistillationConfig) else None
    train, valid = read_to_learn(recipe)
    unscored = lacks_labels(recipe.data.test, recipe.data.columns)
    test = read_split(recipe, "test") if recipe.data.test and not unscored else []
    if unscored:
        say(f"test: {_unscored(recipe)}")
    labels = teacher.labels_of(train or valid) if teacher else KINDS[recipe.objective.name].labels.of(train)
    for line in told_held_out(recipe.data):
        say(line)
    _tell(KINDS[recipe.objective.name], labels, {"train": train, "valid": valid, "test": test}, say)
    _show(recipe, train, say)
    if teacher and not (start or begun):
        tokenizer = teacher.reader.tokenizer
    else:
        tokenizer = vocabulary(recipe, folder, start, lambda: words_of(train))
    reader = Reader.of(recipe, tokenizer)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    encoded = {split: _encoded(reader, labels, split, found, say) for split, found in (("train", train), ("valid", valid))}
    if test:
        _encoded(reader, labels, "test", test, say)  # refuses texts that will not fit
    if recipe.data.unlabelled:
        encoded["train"] += _unlabelled(recipe, reader, labels, say)
    found = Labelled(recipe, reader, labels, encoded["train"], encoded["valid"], valid, test, start, teacher)
    if teacher:
        longest = max(int(part.ids.lengths.max()) for part in (found.train, found.valid))
        teacher.must_suit(recipe, reader, longest, found.example()[0].parameters)
    return found


def _must_make_sense(recipe: Recipe) -> None:
    if recipe.objective.language and not isinstance(recipe.model, GPTConfig):
        raise UserError(
            f"objective.language={recipe.objective.language} is for model.family=gpt, which reads forwards; others see the words "
            "that they would predict. Set objective.language=0."
        )
    taught = isinstance(recipe.objective, DistillationConfig)
    if recipe.data.unlabelled and not taught:
        raise UserError(
            "data.unlabelled is for a student, who asks a teacher what they are; take recipe distil, or leave it out."
        )
    if taught and recipe.task.start and recipe.objective.inherit:
        raise UserError(
            f"task.start={recipe.task.start} and objective.inherit=true both say what the student begins with; leave task.start "
            "out, or set objective.inherit=false."
        )


def _tell(kind: Kind, labels: Labels | Scale, splits: Mapping[str, Sequence[Example]], say: Say) -> None:
    """What the data is like; a label that training does not have is refused."""
    for split, examples in splits.items():
        if examples:
            labels.numbers(examples, split)
            say(f"{split}: {len(examples):,} {called(labels)}: {kind.described(examples)[0]}")
    for line in kind.described(splits["train"])[1:] if splits["train"] else ():
        say(f"  {line}")
    if shared := _overlap(splits["train"], splits["test"]):
        say(f"warning: {shared} of {len(splits['test'])} test texts are also in train, so the score will flatter.")


def _show(recipe: Recipe, train: Sequence[Example], say: Say) -> None:
    """What was read of the files that somebody brought: which columns, and the first few rows."""
    data = recipe.data
    for line in told_columns(data.train + data.valid, data.columns):
        say(line)
    if isinstance(train, Sequences) or not train or all(entry.startswith("builtin:") for entry in data.train):
        return
    if train[0].second is not None:
        columns = next(
            (found.called for entry in data.train if (found := chosen(entry, data.columns))), ("first", "second", "label")
        )
        say(
            f"each example is a PAIR of texts, {listed(columns[:-1])} (recipe finetune-pair is for these); for one text, name "
            "two columns: data.columns=TEXT,LABEL"
        )
    for example in train[:SHOWN]:
        texts = " and ".join(repr(shown(text)) for text in example.shown)
        say(f"  {texts} is {example.label!r}")


def _unlabelled(recipe: Recipe, reader: Reader, labels: Labels | Scale, say: Say) -> LabelledTexts:
    try:
        found = read_unlabelled(recipe.data.unlabelled, recipe.data.columns, labels.texts)
    except UserError as error:
        raise UserError(f"data.unlabelled: {error}") from None
    say(f"unlabelled: {len(found):,} {called(labels)}")
    return _encoded(reader, None, "unlabelled", found, say)


def _encoded(reader: Reader, labels: Labels | Scale | None, split: str, examples: Sequence[Example], say: Say) -> LabelledTexts:
    ids, seconds, cut = reader.encode_examples(examples, split)
    if cut:
        say(f"{split}: {cut:,} of {len(examples):,} texts are longer than data.maximum_tokens={reader.cut} and are cut")
    numbers = np.full(len(examples), UNLABELLED) if labels is None else labels.numbers(examples, split)
    return LabelledTexts(ids, seconds, numbers, reader.marks.apart)


def _overlap(train: Sequence[Example], test: Sequence[Example]) -> int:
    seen = {example.key for example in train}
    return sum(example.key in seen for example in test)


def open_answers(run: Run, recipe: Recipe, device: torch.device) -> Labeller | Rater:
    return KINDS[recipe.objective.name].answers.of(run, recipe, device)


def adopt(start: Start, recipe: Recipe, device: torch.device) -> Labeller | Rater:
    """A public folder with one score a text gives numbers, whatever it calls them."""
    return (Rater if start.heads.classes == 1 else Labeller).of_start(start, recipe, device)


def compare(prepared: Labelled, answers: Labeller | Rater, result: Result, device: torch.device) -> Result:
    """A student with its teacher."""
    if prepared.teacher is None or not isinstance(answers, Labeller) or not isinstance(result, Answered):
        return result
    return beside(prepared.teacher, answers, result, prepared.test, device)


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    """With a score for each of the run's own labels, and without those of words."""
    labels = KINDS[recipe.objective.name].labels.load(run.folder / LABELS)
    (vocabulary,) = run.vocabulary_sizes()
    return count(recipe.model, vocabulary, tokens, len(labels), bool(recipe.objective.language))


TASK = Task(prepare, read_test, open_answers, adopt=adopt, parts=parts, compare=compare)

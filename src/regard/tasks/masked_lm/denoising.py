"""The task `denoise`: what a classifier will learn from, with symbols taken out, to be filled in; labels are not looked at.

Amos et al. 2024, Never train from scratch: before it is told any label, a model learns the task's own inputs by filling them in
(they mask 50% of pixels, 15% of text, 10% of ListOps). Then `task.init_from` begins with it:

    regard train lra-listops task.name=denoise objective.mask_rate=0.1 --out runs/denoised
    regard train lra-listops task.init_from=runs/denoised

Where examples are pairs, each of the two texts is one to fill in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import torch
from torch import nn

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.masked import MaskedPassages, Masking, WholeTexts
from regard.data.batching.pairs import Ragged
from regard.data.lra.sequences import Sequences
from regard.data.sources.labelled import Example
from regard.families import bert, encoder
from regard.families.bert import BERT, BERTConfig
from regard.families.encoder import Encoder
from regard.metrics.masked_lm import FillScores, score_filling
from regard.model.flops import Part
from regard.objectives.base import Objective
from regard.objectives.masked_lm import MaskedLMLoss
from regard.runs.folder import Run, Say
from regard.runs.load import must_be_as_trained, ready, vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, start_of, vocabulary
from regard.runs.protocols import Task
from regard.runs.recipe import Recipe
from regard.tasks.classification.prepare import read_split, read_to_learn, words_of
from regard.tasks.classification.reader import Reader
from regard.tasks.masked_lm.masking import SCORED, words
from regard.tasks.masked_lm.predict import FillMask
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation


def built(recipe: Recipe, size: int, seed: int = 0) -> BERT | Encoder:
    """With a head for words, and no other."""
    return (BERT if isinstance(recipe.model, BERTConfig) else Encoder)(recipe.model, size, seed)


@dataclass(frozen=True)
class Denoised:
    """Prepared texts (see `task.Prepared`)."""

    recipe: Recipe
    reader: Reader
    train: Ragged
    valid: Ragged
    test: Sequence[Example]
    start: InitCheckpoint | None
    unit = "masked words"
    metric = "nll"

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {VOCABULARY: self.reader.tokenizer}

    @property
    def _vocabulary(self) -> int:
        return self.start.vocabulary if self.start else vocabulary_of(self.recipe, self.reader.tokenizer)

    def model(self) -> BERT | Encoder:
        model = built(self.recipe, self._vocabulary, self.recipe.train.seed)
        if self.start is not None:
            self.start.fill(model)
        return model

    def objective(self) -> MaskedLMLoss:
        return MaskedLMLoss(self.recipe.objective)

    def source(self, *, packed: bool) -> MaskedPassages:
        return masked(self.recipe, self.reader.tokenizer, self.train, self.recipe.train.seed, packed)

    def validator(self, objective: Objective) -> Callable[[nn.Module], Validation]:
        """Scores on the validation texts, whose masks are always the same."""
        source = masked(self.recipe, self.reader.tokenizer, self.valid, SCORED)
        return lambda model: Validation(score_filling(model, objective, source.in_order()).metrics(), [])

    def example(self) -> tuple[Part, int]:
        """A text of average length, with its masked words."""
        model, length = self.recipe.model, round(self.train.lengths.mean())
        scored = max(1, round(self.recipe.objective.mask_rate * length))
        if isinstance(model, BERTConfig):
            return bert.count(model, self._vocabulary, length, scored), scored
        return encoder.count(replace(model, pairs="joined"), self._vocabulary, length, scored), scored

    def amounts(self) -> dict[str, str]:
        return {split: f"{len(ids):,} texts" for split, ids in (("train", self.train), ("valid", self.valid))}

    def fingerprints(self) -> dict[str, str]:
        return {split: _digest(ids) for split, ids in (("train", self.train), ("valid", self.valid))}


def _digest(ids: Ragged) -> str:
    return sha256(ids.offsets.tobytes() + ids.flat.tobytes()).hexdigest()


def masked(recipe: Recipe, tokenizer: Tokenizer, ids: Ragged, seed: int, packed: bool = False) -> MaskedPassages:
    assert tokenizer.roles.mask is not None
    continues = tokenizer.continuing() if recipe.objective.whole_words else None
    masking = Masking(seed, tokenizer.roles.mask, words(tokenizer), recipe.objective.mask_rate, continues=continues)
    return MaskedPassages(WholeTexts(ids, seed), recipe.train.tokens_per_batch, masking, packed)


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Denoised:
    if recipe.objective.next_sentence:
        raise UserError("objective.next_sentence=true is for running text, as in recipe bert; here every text stands alone.")
    begun = folder is not None and (folder / VOCABULARY).exists()
    start = start_of(recipe.task.init_from) if recipe.task.init_from and not begun else None
    train, valid = read_to_learn(recipe)
    test = read_split(recipe, "test") if recipe.data.test else []
    tokenizer = vocabulary(recipe, folder, start, lambda: words_of(train))
    tokenizer = tokenizer if begun or start else tokenizer.with_mask()
    if tokenizer.roles.mask is None:
        raise UserError(
            f"task.init_from={recipe.task.init_from}: its vocabulary has no <mask>; start from a run that fills in, or none."
        )
    reader = alone(Reader.of(recipe, tokenizer))
    to_train, to_validate = _encoded(reader, "train", train, say), _encoded(reader, "valid", valid, say)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary; labels are not looked at")
    return Denoised(recipe, reader, to_train, to_validate, test, start)


def alone(reader: Reader) -> Reader:
    """For texts that stand alone, whatever they will be compared with."""
    return replace(reader, marks=reader.marks._replace(apart=False))


def _encoded(reader: Reader, split: str, examples: Sequence[Example], say: Say) -> Ragged:
    if not isinstance(examples, Sequences):
        examples = [Example(text, None, e.label, e.place) for e in examples for text in e.texts]
    ids, _, cut = reader.encode_examples(examples, split)
    told = f", {cut:,} of them cut to data.maximum_tokens={reader.cut}" if cut else ""
    say(f"{split}: {len(ids):,} texts of {round(ids.lengths.mean()):,} tokens{told}")
    return ids


@dataclass
class Denoiser:
    """It fills in blanks, typed as <mask>, and can be scored on texts."""

    model: BERT | Encoder
    filler: FillMask
    reader: Reader

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        self.filler.predict(texts, first, as_json, emit)

    def evaluate(self, test: Sequence[Example]) -> FillScores:
        recipe = self.filler.recipe
        ids = _encoded(self.reader, "test", test, lambda line: None)
        objective = MaskedLMLoss(recipe.objective)
        return score_filling(self.model, objective, masked(recipe, self.reader.tokenizer, ids, SCORED).in_order())


def open_run(run: Run, recipe: Recipe, device: torch.device) -> Denoiser:
    must_be_as_trained(run, recipe)
    start = start_of(str(run.folder))
    model = built(recipe, start.vocabulary)
    start.fill(model)
    model = ready(model, recipe.decode.weights, device)
    filler = FillMask(model, start.tokenizer, recipe)  # type: ignore[arg-type]  # which asks it for no more than both have
    return Denoiser(model, filler, alone(Reader.of(recipe, start.tokenizer)))


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    (vocabulary,) = run.vocabulary_sizes()
    if isinstance(recipe.model, BERTConfig):
        return bert.count(recipe.model, vocabulary, tokens)
    return encoder.count(replace(recipe.model, pairs="joined"), vocabulary, tokens)


TASK = Task(prepare, read_test=lambda recipe: read_split(recipe, "test"), open=open_run, says=False, parts=parts)

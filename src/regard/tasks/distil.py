"""A teacher and how a student begins: with the teacher's vocabulary, its labels and, if asked, every so-manieth of its layers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.data.classes import Labels
from regard.data.labelled import Example
from regard.errors import UserError, nearest
from regard.families.classifier import Classifier, count
from regard.families.sizes import context
from regard.model.count import Part
from regard.model.prune import restored_weights
from regard.recipe import Recipe
from regard.tasks.adopting import recipe_of
from regard.tasks.classifier import LABELS, Labeller, filled
from regard.tasks.reading import EITHER, Reader
from regard.tasks.run import Run
from regard.tasks.start import start_of

BLOCK = re.compile(r"\.blocks\.(\d+)\.")  # in the name of a weight


@dataclass(frozen=True, eq=False)
class Teacher:
    name: str
    recipe: Recipe  # its own, or that of a public folder opened as it is
    model: Classifier
    reader: Reader
    labels: Labels

    @classmethod
    def of(cls, name: str) -> Teacher:
        start, run = start_of(name), _run(name)
        classifies = start.heads.classes > 1 if run is None else _classifies(run.recipe)
        if not classifies:
            raise UserError(
                f"objective.teacher={name} does not sort texts into classes, so it cannot teach how to; train a classifier from "
                f"it with 'regard train finetune-classify task.start={name} ...', and give that."
            )
        recipe = recipe_of(start) if run is None else run.recipe
        labels = Labels(start.labels, EITHER) if run is None else Labels.load(run.folder / LABELS)
        return cls(name, recipe, filled(start, recipe, len(labels)), Reader.of(recipe, start.tokenizer), labels)

    def opened(self, device: torch.device) -> Labeller:
        """As it answers people, in the form that it computes fastest in."""
        if (run := _run(self.name)) is not None:
            return Labeller.of(run, self.recipe, device)
        return Labeller.of_start(start_of(self.name), self.recipe, device)

    def digest(self) -> str:
        """Of its weights: another teacher teaches something else."""
        found = hashlib.sha256()
        for name, weights in sorted(self.model.state_dict().items()):
            found.update(name.encode())
            found.update(weights.cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    def labels_of(self, examples: Sequence[Example]) -> Labels:
        """Its own, in its own order, once they are those of the data."""
        texts = len(examples[0].texts)
        if self.labels.texts not in (EITHER, texts):
            kinds = ("", "single texts", "pairs of texts")
            raise UserError(
                f"objective.teacher={self.name} was trained on {kinds[self.labels.texts]}, and the data has {kinds[texts]}; "
                "choose with data.columns, or give another teacher."
            )
        for example in examples:
            if example.label not in self.labels.names:
                raise UserError(
                    f"{example.place}: the label {example.label!r} is not one that objective.teacher={self.name} knows"
                    f"{nearest(example.label, self.labels.names)}"
                )
        return replace(self.labels, texts=texts)

    def must_suit(self, recipe: Recipe, reader: Reader, longest: int, size: int) -> None:
        """A student of this recipe and of this size: the teacher reads the very batches that are made for it."""
        if reader.tokenizer.fingerprint() != self.reader.tokenizer.fingerprint() or reader.marks != self.reader.marks:
            raise UserError(
                f"objective.teacher={self.name} has another vocabulary than its student, or other marks around a text; leave "
                "task.start out, or start from a model of the teacher's own kind."
            )
        room, width = context(self.recipe.model), self.recipe.model.width
        if room is not None and longest > room:
            raise UserError(
                f"a text is {longest:,} tokens long, its marks counted, but objective.teacher={self.name} has {room:,} positions;"
                f" set data.maximum_tokens={room}."
            )
        if recipe.objective.cosine and recipe.model.width != width:
            raise UserError(
                f"objective.cosine={recipe.objective.cosine} compares vectors of one width, but the student's is "
                f"{recipe.model.width} and that of its teacher {width}; set objective.cosine=0."
            )
        if size > (own := parameters(self.model)):
            raise UserError(
                f"the student has {size:,} parameters, its teacher, {self.name}, {own:,}; a student is to be "
                "smaller. Lower model.width, model.feedforward or model.layers."
            )

    def begin(self, student: Classifier) -> None:
        """With its embeddings, some of its layers, and its head."""
        chosen = layers(self.recipe.model.layers, student.body.config.layers)
        own = restored_weights(self.model.state_dict(), self.recipe.model)
        student.load_state_dict({name: own[_taken(name, chosen)] for name in student.state_dict()})

    def beside(self, student: Part, tokens: int) -> Part:
        """The student with its teacher's pass over a text, which is one: a model that learns is counted for three."""
        whole = count(self.recipe.model, len(self.model.body.embed.tokens.weight), tokens, len(self.labels))
        once = Part("teacher", "its forward pass, a third of it", "tasks/distil.py", own_flops=whole.flops // 3)
        return replace(student, children=(*student.children, once))


def parameters(model: Classifier) -> int:
    return sum(weights.numel() for weights in model.parameters())


def _run(name: str) -> Run | None:
    """None for a public folder or a name on the hub."""
    return Run.open(name) if (Path(name) / "recipe.toml").is_file() else None


def _classifies(recipe: Recipe) -> bool:
    return recipe.task.name == "classify" and recipe.objective.name != "regression"


def layers(teacher: int, student: int) -> list[int]:
    """Which of the teacher's layers a student of so many begins with: evenly spaced, first and last among them.

    Sanh et al. 2019 take 0, 2, 4, 7, 9 and 11 of BERT's twelve. A student of one layer takes the first.
    """
    return [round(n * (teacher - 1) / max(1, student - 1)) for n in range(student)]


def _taken(name: str, chosen: Sequence[int]) -> str:
    """Of a student's weight, what it is called in the teacher."""
    return BLOCK.sub(lambda found: f".blocks.{chosen[int(found[1])]}.", name)

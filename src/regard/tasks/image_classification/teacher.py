"""The teacher of an image classifier: a run or a public folder that classifies images, of any family."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.core.errors import UserError
from regard.data.labels import Labels
from regard.data.sources.image_sets import Form
from regard.families import count_model, family_of
from regard.families.base import Heads
from regard.families.flops import Part
from regard.runs.folder import Run
from regard.runs.pretrained import recipe_of, start_of
from regard.runs.recipe import HUB, Recipe, builtin_names
from regard.tasks.image_classification.predict import form_of, open_classifier


@dataclass(frozen=True, eq=False)
class Teacher:
    name: str
    config: Any  # of its model
    model: Any
    labels: Labels
    form: Form

    @classmethod
    def of(cls, name: str) -> Teacher:
        if not (name.startswith(HUB) or Path(name).is_dir()):
            known = next((recipe for recipe in builtin_names() if Path(name) == Path("runs", recipe)), None)
            cure = f"train it first, 'regard train {known}'" if known else "give a run that classifies images, or a public folder"
            raise UserError(f"objective.teacher={name} does not exist; {cure}, or name a model on the hub as hf:NAME.")
        source: Any = Run.open(name) if (Path(name) / "recipe.toml").is_file() else start_of(name)
        recipe = source.recipe if isinstance(source, Run) else recipe_of(source)
        if recipe.task.name != "image_classification":
            raise UserError(
                f"objective.teacher={name} does not sort images into classes (it is of task {recipe.task.name}), so it cannot "
                "teach how to; give a run that does, such as 'regard train convnet-shapes' makes."
            )
        model, labels = open_classifier(source, recipe)  # not in a form for one device: it follows its student
        return cls(name, recipe.model, model.eval(), labels, form_of(recipe))

    def labels_of(self, own: Labels) -> Labels:
        """Return the teacher's labels, in its order; other ones than the student's are refused."""
        if set(own.names) - set(self.labels.names):
            other = min(set(own.names) - set(self.labels.names))
            raise UserError(
                f"data.train has the label {other!r}, and objective.teacher={self.name} knows {len(self.labels)} others, such as "
                f"{self.labels.names[0]!r}; give a teacher of the same classes."
            )
        return replace(self.labels, texts=1)

    def must_suit(self, recipe: Recipe) -> None:
        """Refuse a student that reads images of another size or colour: both read the very same augmented images."""
        wanted = form_of(recipe)
        if (self.form.size, self.form.colours) != (wanted.size, wanted.colours):
            raise UserError(
                f"objective.teacher={self.name} reads images of {self.form.size} pixels and {self.form.colours} colours, the "
                f"student of {wanted.size} and {wanted.colours}; set model.image_size={self.form.size} and model.colours="
                f"{self.form.colours}, or give another teacher."
            )

    def beside(self, student: Part) -> Part:
        """Return the student's parts with its teacher's pass over an image."""
        heads = Heads(words=False, classes=len(self.labels))
        whole = count_model(self.config, 1, vocabulary=0, heads=heads)
        what = f"{family_of(self.config).name}: its forward pass, a third of it"
        once = Part("teacher", what, "tasks/image_classification/teacher.py", own_flops=whole.flops // 3)
        return replace(student, children=(*student.children, once))

    def digest(self) -> str:
        """Return a hash of the teacher's weights."""
        found = hashlib.sha256()
        for name, weights in sorted(self.model.state_dict().items()):
            found.update(name.encode())
            found.update(weights.cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

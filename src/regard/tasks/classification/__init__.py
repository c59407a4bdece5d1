"""Classification: texts, or pairs of texts, with a label or a number each."""

from regard.data.config import LabelledConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="classification",
    data=LabelledConfig,
    family="gpt",
    needs=({"pooled_vector"},),
    objectives=("classification", "regression", "distillation"),
    freezes=True,
    prepare=lazy("regard.tasks.classification.prepare:prepare"),
    read_test=lazy("regard.tasks.classification.prepare:read_test"),
    open=lazy("regard.tasks.classification.predict:open_scorer"),
    adopt=lazy("regard.tasks.classification.predict:open_scorer"),
    adopted_settings=lazy("regard.tasks.classification.predict:adopted_settings"),
    heads=("classes",),
    parts=lazy("regard.tasks.classification.prepare:parts"),
    compare=lazy("regard.tasks.classification.prepare:compare"),
    metrics=("accuracy", "pearson"),
    lens="--show weights",
    scored_on="its own label",
)

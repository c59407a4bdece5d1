"""Tagging: sentences with a tag for each word, such as names of persons and places."""

from regard.data.config import TaggedConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="tagging",
    data=TaggedConfig,
    family="bert",
    needs=({"token_heads"},),
    objectives=("tagging",),
    freezes=True,
    prepare=lazy("regard.tasks.tagging.prepare:prepare"),
    read_test=lazy("regard.tasks.tagging.prepare:read_test"),
    open=lazy("regard.tasks.tagging.predict:Tagger.of"),
    adopt=lazy("regard.tasks.tagging.predict:Tagger.of"),
    heads=("tags",),
    parts=lazy("regard.tasks.tagging.prepare:parts"),
    metrics=("f1", "accuracy"),
    lens="--show weights",
    scored_on="its own tags",
)

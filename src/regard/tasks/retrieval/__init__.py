"""Retrieval: conversations, and two encoders that find the best of the replies of the training data."""

from regard.data.config import RetrievalConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="retrieval",
    data=RetrievalConfig,
    family="encoder",
    needs=({"tower"},),
    objectives=("contrastive",),
    prepare=lazy("regard.tasks.retrieval.prepare:prepare"),
    read_test=lazy("regard.tasks.dialogue.prepare:read_test"),
    open=lazy("regard.tasks.retrieval.predict:Retriever.of"),
    adopt=lazy("regard.tasks.retrieval.prepare:adopt"),
    adopted_settings=lazy("regard.tasks.retrieval.prepare:adopted_settings"),
)

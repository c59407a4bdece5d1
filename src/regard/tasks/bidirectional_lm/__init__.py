"""Bidirectional language modelling: running text, and two LSTMs that predict the next and the previous word."""

from regard.data.config import TextsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="bidirectional_lm",
    data=TextsConfig,
    family="elmo",
    needs=({"bidirectional_lm"},),
    objectives=("bidirectional_lm",),
    prepare=lazy("regard.tasks.bidirectional_lm.prepare:prepare"),
    read_test=lazy("regard.tasks.language_model.prepare:read_test"),
    open=lazy("regard.tasks.bidirectional_lm.prepare:BidirectionalLM.of"),
    heads=("head",),
    has_outputs=False,
    single_texts=False,
)

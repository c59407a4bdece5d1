"""Text to text: summaries, answers, labels or numbers written as text, for one task or several told apart by prefixes."""

from __future__ import annotations

from regard.data.config import TextToTextConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="text_to_text",
    data=TextToTextConfig,
    family="transformer",
    needs=({"seq2seq"},),
    excludes={"dialogue_context"},
    objectives=("seq2seq",),
    prepare=lazy("regard.tasks.text_to_text.prepare:prepare"),
    read_test=lazy("regard.tasks.text_to_text.prepare:read_test"),
    open=lazy("regard.tasks.text_to_text.predict:TextWriter.of"),
    metrics=("rouge_l", "accuracy", "pearson"),
    lens="",
    scored_on="its own output",
)

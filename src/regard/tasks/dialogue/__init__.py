"""Dialogue: conversations, and models that write a reply to the last turns."""

from regard.data.config import DialoguesConfig
from regard.runs.task import Task, lazy
from regard.text.config import PairTextConfig

TASK = Task(
    name="dialogue",
    data=DialoguesConfig,
    text=PairTextConfig,
    family="transformer",
    needs=({"seq2seq"},),
    objectives=("seq2seq",),
    prepare=lazy("regard.tasks.dialogue.prepare:prepare"),
    read_test=lazy("regard.tasks.dialogue.prepare:read_test"),
    open=lazy("regard.tasks.dialogue.predict:Responder.of"),
    lens="",
    scored_on="its own reply",
)

"""Question answering: a question, a text, and the span of the text that answers it."""

from regard.data.config import QuestionsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="question_answering",
    data=QuestionsConfig,
    family="bert",
    needs=({"span_head"},),
    objectives=("span",),
    prepare=lazy("regard.tasks.question_answering.prepare:prepare"),
    read_test=lazy("regard.tasks.question_answering.prepare:read_test"),
    open=lazy("regard.tasks.question_answering.predict:QuestionAnswerer.of"),
    adopt=lazy("regard.tasks.question_answering.predict:QuestionAnswerer.of"),
    heads=("span",),
    parts=lazy("regard.tasks.question_answering.prepare:parts"),
    metrics=("f1",),
    prompt="$'QUESTION\\tTEXT'",
    lens="--show weights",
    scored_on="its own answer",
)

"""Visual questions: an image and a question about it, and models that answer and show where they attended."""

from regard.data.image_config import VisualQuestionsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="visual_questions",
    data=VisualQuestionsConfig,
    family="vqa",
    needs=({"visual_questions"},),
    objectives=("answering",),
    prepare=lazy("regard.tasks.visual_questions.prepare:prepare"),
    read_test=lazy("regard.tasks.visual_questions.prepare:read_test"),
    open=lazy("regard.tasks.visual_questions.predict:VisualAnswerer.of"),
    metrics=("accuracy",),
    single_texts=False,
    prompt='IMAGE.png "what colour is the circle?"',
    lens="",
    scored_on="its own answer",
)

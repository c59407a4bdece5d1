"""Captioning: images, and models that write a sentence about each."""

from regard.data.config import CaptionsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="captioning",
    data=CaptionsConfig,
    family="captioner",
    needs=({"captioning"},),
    objectives=("captioning",),
    prepare=lazy("regard.tasks.captioning.prepare:prepare"),
    read_test=lazy("regard.tasks.captioning.prepare:read_test"),
    open=lazy("regard.tasks.captioning.predict:CaptionGenerator.of"),
    single_texts=False,
    prompt="IMAGE.png",
    lens="",
    scored_on="its own caption",
)

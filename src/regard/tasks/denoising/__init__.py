"""Denoising: the texts of a labelled data set without their labels, as masked language modelling (Amos et al. 2024)."""

from regard.data.config import LabelledConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="denoising",
    data=LabelledConfig,
    family="encoder",
    needs=({"masked_lm"},),
    objectives=("masked_lm",),
    prepare=lazy("regard.tasks.denoising.prepare:prepare"),
    read_test=lazy("regard.tasks.denoising.prepare:read_test"),
    open=lazy("regard.tasks.denoising.prepare:Denoiser.of"),
    parts=lazy("regard.tasks.denoising.prepare:parts"),
    has_outputs=False,
    single_texts=False,
    prompt='"... [MASK] ..."',
)

"""Masked language modelling: running text, and models that fill in masked words or detect replaced ones."""

from regard.data.config import TextsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="masked_lm",
    data=TextsConfig,
    family="bert",
    needs=({"masked_lm"}, {"replaced_token"}),
    objectives=("masked_lm", "replaced_token"),
    prepare=lazy("regard.tasks.masked_lm.prepare:prepare"),
    read_test=lazy("regard.tasks.masked_lm.prepare:read_test"),
    open=lazy("regard.tasks.masked_lm.predict:open_run"),
    adopt=lazy("regard.tasks.masked_lm.predict:adopt"),
    adopted_settings=lazy("regard.tasks.masked_lm.predict:adopted_settings"),
    heads=("replaced", "head"),
    parts=lazy("regard.tasks.masked_lm.prepare:parts"),
    metrics=("nll",),
    lower_is_better=True,
    has_outputs=False,
    single_texts=False,
    prompts={"masked_lm": '"... [MASK] ..."'},
    lens="--show weights",
    scored_on="its own words",
)

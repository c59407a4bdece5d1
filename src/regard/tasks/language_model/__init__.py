"""Causal language modelling: running text, and models that continue it."""

from regard.data.config import ContinuedTextsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="language_model",
    data=ContinuedTextsConfig,
    family="gpt",
    needs=({"causal_lm"},),
    objectives=("causal_lm",),
    prepare=lazy("regard.tasks.language_model.prepare:prepare"),
    read_test=lazy("regard.tasks.language_model.prepare:read_test"),
    open=lazy("regard.tasks.language_model.predict:TextGenerator.of"),
    adopt=lazy("regard.tasks.language_model.predict:TextGenerator.of"),
    adopted_settings=lambda start: {"decode": {"search": "sample"} | dict(start.decode)},
    heads=("decoder",),
    metrics=("perplexity",),
    lower_is_better=True,
    has_outputs=False,
    single_texts=False,
    continues=True,
    lens="",
    scored_on="only the text itself",
    exports=("gpt", "llama"),
)

"""Denoising by models that read and write: running text under noise, by which T5 and BART are pre-trained."""

from __future__ import annotations

from regard.data.config import TextsConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="seq2seq_denoising",
    data=TextsConfig,
    family="transformer",
    needs=({"seq2seq"},),
    excludes={"dialogue_context"},
    objectives=("denoising",),
    prepare=lazy("regard.tasks.seq2seq_denoising.prepare:prepare"),
    read_test=lazy("regard.tasks.masked_lm.prepare:read_test"),
    open=lazy("regard.tasks.seq2seq_denoising.predict:Restorer.of"),
    metrics=("nll",),
    lower_is_better=True,
    has_outputs=False,
    single_texts=False,
    prompt='"... [MASK] ..."',
    lens="",
    scored_on="its own text",
)

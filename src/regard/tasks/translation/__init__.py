"""Translation: sentence pairs in two languages, and models that write the one from the other."""

from regard.data.config import PairsConfig
from regard.runs.task import Task, lazy
from regard.text.config import PairTextConfig

TASK = Task(
    name="translation",
    data=PairsConfig,
    text=PairTextConfig,
    family="transformer",
    needs=({"seq2seq"},),
    excludes={"dialogue_context"},
    objectives=("seq2seq",),
    prepare=lazy("regard.tasks.translation.prepare:prepare"),
    read_test=lazy("regard.tasks.translation.prepare:read_test"),
    open=lazy("regard.tasks.translation.predict:Translator.of"),
    adopt=lazy("regard.tasks.translation.predict:Translator.of_start"),
    adopted_settings=lambda start: {"decode": dict(start.decode)},
    heads=("head",),
    exports=("t5", "bart", "marian"),
    metrics=("bleu",),
    test_hint=", or two aligned files as a,b",
    lens="",
    scored_on="its own translation",
)

"""Embedding: vectors of texts, from a model that was trained for another task. It is never trained itself."""

from regard.data.config import SentencesConfig
from regard.runs.task import Task, lazy

TASK = Task(
    name="embedding",
    data=SentencesConfig,
    family="bert",
    needs=({"token_vectors", "token_heads"},),
    objectives=("vectors",),
    prepare=lazy("regard.tasks.embedding.predict:prepare"),
    read_test=lazy("regard.tasks.embedding.predict:read_test"),
    open=lazy("regard.tasks.embedding.predict:Embedder.of"),
    adopt=lazy("regard.tasks.embedding.predict:Embedder.of"),
    adopted_settings=lazy("regard.runs.pretrained:pooled_settings"),
    has_outputs=False,
    single_texts=False,
    export_files=lazy("regard.tasks.embedding.predict:export_files"),
)

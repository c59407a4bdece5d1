"""Word vectors: running text, and tables of vectors that predict which words occur near each other."""

from regard.data.config import WordsDataConfig
from regard.runs.task import Task, Trainer, lazy
from regard.training.config import WordVectorTrainConfig

TASK = Task(
    name="word_vectors",
    data=WordsDataConfig,
    train=WordVectorTrainConfig,
    family="word2vec",
    needs=({"word_vectors"},),
    objectives=("skipgram", "cbow", "glove"),
    prepare=lazy("regard.tasks.word_vectors.prepare:prepare"),
    read_test=lazy("regard.tasks.word_vectors.prepare:read_test"),
    open=lazy("regard.tasks.word_vectors.predict:WordVectorModel.of"),
    trainer=Trainer(lazy("regard.tasks.word_vectors.prepare:train"), lazy("regard.tasks.word_vectors.prepare:estimate")),
    has_outputs=False,
    single_texts=False,
    prompt="WORD",
)

"""Word vectors: skip-gram and CBOW against gensim, same text, same settings, 2 threads; and what the vectors know.

    REGARD_DATA=FOLDER regard bench words

The clock is for an epoch, from the text in memory to steps taken, in turns. The scores are of whole trainings, of both by the
same code: Google's analogies and WordSim-353, which nothing was chosen by. What was chosen here (negatives of a block, words of a
batch, how far the steps of one word may go) was chosen by the loss on held-out text and by the ratings of rare words.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from statistics import mean

from benchmarks.measure import Row, Table, alternate, row, versions, write
from benchmarks.peers import gensim
from benchmarks.peers.apart import Abroad
from benchmarks.real import DATA, folder
from regard.core.errors import UserError
from regard.data.sources.word_vectors import Questions, WordVectors, read_vectors, read_word_test
from regard.metrics.correlation import PairScores, score_pairs
from regard.metrics.word_analogies import AnalogyScores, WordSpace, score_analogies
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.word_vectors.prepare import Words, prepare
from regard.training import word_vectors

THREADS, EPOCHS, SEEDS = 2, 5, (1, 2, 3)
GLOVE_EPOCHS = 10
BAR = {"regard / gensim": {"floor": 0.6, "goal": 1.2}}
COLUMNS = ["vectors", "analogies, all", "in vocabulary", "30,000 words", "WordSim-353"]


def recipe(name: str, text: Path, *settings: str) -> Recipe:
    given = [f"data.train={text}", "text.tokenizer=spaced", "text.lowercase=false", f"train.threads={THREADS}"]
    return load_recipe(name, [*given, *settings])


def prepared(name: str, text: Path, *settings: str) -> Words:
    found: Words = prepare(recipe(name, text, *settings), None, lambda line: None)
    return found


def epoch(words: Words) -> Callable[[], None]:
    """Each call is the next one, with words left out and drawn anew, on tables that the one before has left."""
    method, source, config = words.method(), words.source, words.recipe.train
    epochs = count()

    def run() -> None:
        begin = next(epochs) * source.per_epoch
        with word_vectors.workers(config) as crew:
            for step in range(begin, begin + source.per_epoch):
                word_vectors.take_step(method, source.parts(step), config.learning_rate, crew)

    return run


def trained(words: Words) -> WordVectors:
    method, config = words.method(), words.recipe.train
    steps = config.epochs * words.source.per_epoch
    with word_vectors.workers(config) as crew:
        for step in range(steps):
            word_vectors.take_step(method, words.source.parts(step), word_vectors.learning_rate(config, step + 1, steps), crew)
    return WordVectors(words.text.words, method.tables.vectors().numpy())  # type: ignore[operator]


def scores(vectors: WordVectors) -> list[float]:
    """In %: analogies of all questions, of those in the vocabulary, with 30,000 words; Spearman's correlation."""
    space = WordSpace(vectors)
    found: list[float] = []
    for file in ("questions-words.txt.gz", "wordsim353_combined.tab"):
        test = read_word_test(folder(DATA, "word_eval", file))
        score: AnalogyScores | PairScores
        if isinstance(test, Questions):
            score = score_analogies(space, test)
            found += [score.total.of_all, score.total.of_known, score.restricted_total.of_known]
        else:
            score = score_pairs(space, test)
            found.append(score.spearman)
    return [100 * each for each in found]


def race(name: str, text: Path, peer: Abroad) -> Row:
    contenders = {"regard": epoch(prepared(name, text)), "gensim": partial(peer.ask, "epoch")}
    words = len(text.read_text("utf-8").split())
    return row(name, "words/s", words, alternate(contenders, rounds=5, warm_up=1), bars=BAR)  # type: ignore[arg-type]


def known(name: str, text: Path, peer: Abroad, into: Path) -> list[list[str]]:
    """Means over the seeds, ours and theirs."""
    ours, theirs = [], []
    for seed in SEEDS:
        ours.append(scores(trained(prepared(name, text, f"train.seed={seed}", f"train.epochs={EPOCHS}"))))
        peer.ask("train", EPOCHS, seed, str(into / "gensim.vec"))
        theirs.append(scores(read_vectors(into / "gensim.vec")))
    return [_told(f"{who}, {name}", runs) for who, runs in (("regard", ours), ("gensim", theirs))]


def _told(name: str, runs: list[list[float]]) -> list[str]:
    return [name, *(f"{mean(column):.2f}" for column in zip(*runs))]


def main() -> None:
    if not gensim.ready():
        raise UserError("gensim is not there to compare with; 'make peers' installs it in an environment of its own.")
    rows, cells = list[Row](), list[list[str]]()
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "text8.txt"
        text.write_bytes(gzip.decompress(folder(DATA, "text8_style", "enwik8_clean_17MB.txt.gz").read_bytes()))
        for method in ("skipgram", "cbow"):
            peer = gensim.trainer(text, method == "skipgram", THREADS)
            rows.append(race(method, text, peer))
            cells += known(method, text, peer, Path(name))
        cells.append(_told("regard, glove", [scores(trained(prepared("glove", text, f"train.epochs={GLOVE_EPOCHS}")))]))
    table: Table = {"title": f"% right, and Spearman's correlation x 100; {EPOCHS} epochs", "columns": COLUMNS, "rows": cells}
    write(
        "words",
        title="Training word vectors",
        setting="17 MB of Wikipedia text, 2.9 million words, 27,000 of them different; width 100, window 5, 5 negatives, words "
        f"seen 5 times or more, subsampling at 0.001, {THREADS} threads. Scores are means over {len(SEEDS)} seeds; GloVe: "
        f"{GLOVE_EPOCHS} epochs, window 10, one seed. gensim runs in a process and an environment of its own.",
        rows=rows,
        versions=versions("numpy") | gensim.version(),
        tables=[table],
    )


if __name__ == "__main__":
    main()

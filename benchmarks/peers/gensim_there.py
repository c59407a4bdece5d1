"""Runs in gensim's environment: trains its word2vec on a text of one long line, cut every 10,000 words as its own reader does.

python -m benchmarks.peers.gensim_there TEXT SKIPGRAM THREADS
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

from gensim.models import Word2Vec  # type: ignore[import-not-found]

from benchmarks.peers.apart import serve

SENTENCE = 10_000  # words
SETTINGS = {"vector_size": 100, "window": 5, "min_count": 5, "negative": 5, "sample": 1e-3, "alpha": 0.025}


def main(text: str, skipgram: str, threads: str) -> None:
    words = iter(Path(text).read_text("utf-8").split())
    sentences = list(iter(lambda: list(islice(words, SENTENCE)), []))

    def fresh(seed: int) -> Word2Vec:
        model = Word2Vec(sg=int(skipgram), workers=int(threads), seed=seed, **SETTINGS)
        model.build_vocab(sentences)
        return model

    warm = fresh(1)

    def epoch() -> None:
        warm.train(sentences, total_examples=len(sentences), epochs=1)

    def train(epochs: int, seed: int, file: str) -> None:
        model = fresh(seed)
        model.train(sentences, total_examples=len(sentences), epochs=epochs)
        model.wv.save_word2vec_format(file)

    serve({"epoch": epoch, "train": train})


if __name__ == "__main__":
    main(*sys.argv[1:])

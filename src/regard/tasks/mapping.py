"""`regard lens RUN --show map`: words of a run, or of a file of vectors, on a picture of two axes."""

from __future__ import annotations

import re

from regard.data.files import numbered_lines
from regard.errors import UserError
from regard.lens.word_map import WordMap, word_map
from regard.tasks.lexicon import Lexicon
from regard.tasks.show import Asked, Show
from regard.tasks.task import Answers

FREQUENT = 100  # words, where none are named


def mapped(answers: Answers, asked: Asked) -> WordMap:
    """The words that are typed, those of a file, or the most frequent ones."""
    if not isinstance(answers, Lexicon):
        raise UserError(f"--show map draws word vectors, and {asked.run} has none of its own; give a run of them, or a file.")
    if asked.text is not None and asked.data is not None:
        raise UserError(f"both words and --data {asked.data} were given; give one of them.")
    if asked.data is not None:
        lines = [line for _, line in numbered_lines(asked.data)]
    else:
        lines = [asked.text] if asked.text is not None else list(answers.vectors.words[:FREQUENT])
    words = list(dict.fromkeys(word for line in lines for word in re.split(r"[\s,]+", line) if word))
    return word_map(words, answers.vectors.vectors_VD[[answers.number(word) for word in words]])


MAPPED = {
    "map": Show(
        help="words of word vectors on two axes: those typed, those in a file, or the most frequent ones",
        compute=mapped,
        needs=(),
        takes=("text", "data"),
    )
}

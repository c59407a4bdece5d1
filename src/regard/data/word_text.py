"""Running text as the numbers of its words: what word vectors are learned from.

Words are numbered as they stand in the vocabulary, the most frequent first. What the vocabulary does not have is left out before
anything else, so that the words around a gap become neighbours, as in word2vec. Where a line ends (in `spaced` text) or a
document does, a sentence ends, and no window reaches beyond it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.data.token_file import Tokens
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
from regard.text.whole_words import LINE_END, whole_words

NO_WORD = -1


class WordText(NamedTuple):
    words: tuple[str, ...]
    counts: np.ndarray  # of each in the text
    ids: np.ndarray  # int32, of every word that is known
    starts: np.ndarray  # int64: where in `ids` each sentence begins

    @property
    def amount(self) -> str:
        return f"{len(self.ids):,} words in {len(self.starts):,} sentence{'s' if len(self.starts) > 1 else ''}"


def words_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Every word once, in the order of the vocabulary."""
    return tuple(dict.fromkeys(word for word in whole_words(tokenizer) if word is not None))


def word_text(tokens: Tokens, tokenizer: Tokenizer) -> WordText:
    """These tokens, read as words."""
    words = words_of(tokenizer)
    number = {word: n for n, word in enumerate(words)}
    number_of = np.array([NO_WORD if word is None else number[word] for word in whole_words(tokenizer)], np.int32)
    ids = np.asarray(tokens.ids)
    numbers = number_of[ids]
    known = numbers >= 0
    ends = np.zeros(len(ids), bool)
    ends[np.asarray(tokens.starts)] = True
    if (line_end := tokenizer.raw.token_to_id(LINE_END)) is not None:
        ends |= ids == line_end
    sentence = np.cumsum(ends, dtype=np.int64)[known]
    if len(sentence) < 2:
        raise UserError(
            f"the text has {len(sentence)} words that are in the vocabulary, too few to learn from; give more text, or lower "
            "text.minimum_count."
        )
    starts = np.flatnonzero(np.concatenate([[True], sentence[1:] != sentence[:-1]]))
    kept = numbers[known]
    return WordText(words, np.bincount(kept, minlength=len(words)), kept, starts)

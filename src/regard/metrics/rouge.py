"""ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum of summaries (Lin 2004), with the words and stems of the package `rouge-score`.

ROUGE-n      shared n-grams, each as often as in both texts
ROUGE-L      the longest common subsequence of words (section 3.1)
ROUGE-Lsum   the same by sentence, one a line: for each sentence of the reference, the union of what it shares with those of the
             output (section 3.2); no word of either counts twice

Each is the F1 of precision (of the output's words) and recall (of the reference's), averaged over texts. Of several references
the one with the best F1 counts, for each score by itself.

Words are runs of a-z and 0-9, stemmed if longer than three letters. That leaves little of other alphabets: where most letters of
the references are outside a-z, words are runs of letters and digits of any alphabet, without stems. The signature says which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from regard.core.errors import UserError
from regard.metrics.porter import stem

SHORT = 3  # letters of a word that is not stemmed
Words = Callable[[str], list[str]]


@dataclass(frozen=True, kw_only=True)
class Rouge:
    """Mean F1 scores of a corpus, from 0 to 100."""

    rouge1: float
    rouge2: float
    rougeL: float
    rougeLsum: float
    signature: str

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        scores = f"{self.rouge1:.2f} / {self.rouge2:.2f} / {self.rougeL:.2f} / {self.rougeLsum:.2f}"
        return [f"ROUGE-1/2/L/Lsum  {scores}  {self.signature}"]


def corpus_rouge(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Rouge:
    """Return the scores of outputs, each with one reference or several."""
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs came with references for {len(references)}; give references for every output.")
    if not outputs:
        raise UserError("There are no texts to score; give at least one output and its reference.")
    if empty := [n for n, texts in enumerate(references, 1) if not texts]:
        raise UserError(f"output {empty[0]} came without a reference; give at least one.")
    latin = _is_latin(references)
    words = words_of if latin else words_of_any_alphabet
    rows = [_best(output, texts, words) for output, texts in zip(outputs, references)]
    means = [100 * fmean(column) for column in zip(*rows)]
    most = max(map(len, references))
    signature = f"F1|refs:{most}|case:lc|words:{'a-z0-9|stems:porter' if latin else 'unicode|stems:no'}"
    return Rouge(rouge1=means[0], rouge2=means[1], rougeL=means[2], rougeLsum=means[3], signature=signature)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, stemmed."""
    return [stem(word) if len(word) > SHORT else word for word in re.findall("[a-z0-9]+", text.lower())]


def words_of_any_alphabet(text: str) -> list[str]:
    """Return runs of letters and digits in lower case."""
    return re.findall(r"[^\W_]+", text.lower())


def rouge_n(output: Sequence[str], reference: Sequence[str], n: int) -> float:
    """Return the F1 of shared n-grams."""
    grams = [Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (output, reference)]
    return _f1((grams[0] & grams[1]).total(), grams[0].total(), grams[1].total())


def rouge_l(output: Sequence[str], reference: Sequence[str]) -> float:
    """Return the F1 of the longest common subsequence."""
    return _f1(longest_common(output, reference), len(output), len(reference))


def rouge_l_sum(output: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> float:
    """Return the F1 of the longest common subsequences of sentences."""
    left = [Counter(word for sentence in text for word in sentence) for text in (output, reference)]
    sizes, hits = [counts.total() for counts in left], 0
    for sentence in reference:
        shared = {place for other in output for place in _common_places(sentence, other)}
        for word in (sentence[place] for place in sorted(shared)):
            if left[0][word] > 0 and left[1][word] > 0:
                hits += 1
                left[0][word] -= 1
                left[1][word] -= 1
    return _f1(hits, *sizes)


def longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    One row of the table is the bits of an integer (Hyyrö 2004): a zero where the length grows, so a row takes a few operations.
    """
    places = dict[str, int]()
    for n, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << n
    full = (1 << len(one)) - 1
    row = full
    for word in other:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & full
    return len(one) - row.bit_count()


def _common_places(one: Sequence[str], other: Sequence[str]) -> list[int]:
    """Return places in `one` of a longest common subsequence: the last ones, and of two ways back the one that shortens `one`."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, word in enumerate(one):
        for j, second in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if word == second else max(table[i][j + 1], table[i + 1][j])
    i, j, found = len(one), len(other), list[int]()
    while i and j:
        if one[i - 1] == other[j - 1]:
            found.append(i - 1)
            i, j = i - 1, j - 1
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found


def _best(output: str, references: Sequence[str], words: Words) -> tuple[float, ...]:
    """Return the four scores against the references, the best of each."""
    own, own_sentences = words(output), _sentences(output, words)
    rows = []
    for reference in references:
        said = words(reference)
        by_sentence = rouge_l_sum(own_sentences, _sentences(reference, words))
        rows.append((rouge_n(own, said, 1), rouge_n(own, said, 2), rouge_l(own, said), by_sentence))
    return tuple(map(max, zip(*rows)))


def _sentences(text: str, words: Words) -> list[list[str]]:
    return [words(line) for line in text.split("\n") if line]


def _f1(shared: int, output: int, reference: int) -> float:
    return 2 * shared / (output + reference) if shared else 0.0


def _is_latin(references: Sequence[Sequence[str]]) -> bool:
    """Return True if at least half of the letters are a to z, without accents, or if there are no letters."""
    letters = [letter for texts in references for text in texts for letter in text.lower() if letter.isalpha()]
    return 2 * sum("a" <= letter <= "z" for letter in letters) >= len(letters)

"""The built-in reviews: the same on every machine, splits that do not leak, and labels that a second reader agrees with."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import numpy as np
import pytest

from regard.text.offsets import sentences
from tools.corpora.reviews import BAD, GOOD, KINDS, ON_THE_WAY, SIZES, Review, held_out, reviews

ALL = {split: reviews(split) for split in SIZES}
FINGERPRINT = "73516cc9177898ba550af88040fc496d5158db4a7326f6224a30190db15b009b"
GOOD_WORDS = {*GOOD, *(word for kind in KINDS for word in kind.good)}
BAD_WORDS = {*BAD, *(word for kind in KINDS for word in kind.bad)}
PLACE = {thing: kind.place for kind in KINDS for thing in kind.things}
NEGATION = re.compile(r"\b(not|nobody|anything but)\b", re.IGNORECASE)


def words_in(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def verdict(review: Review) -> str:
    """The one sentence with an opinion of something other than the way there; it knows nothing of how reviews are made."""
    found = [
        sentence
        for sentence in sentences(review.text)
        if set(words_in(sentence)) & (GOOD_WORDS | BAD_WORDS) and not any(thing in sentence for thing in ON_THE_WAY)
    ]
    (sentence,) = found
    return sentence


def read(review: Review) -> str:
    words = set(words_in(verdict(review)))
    (place,) = {PLACE[word] for word in words & PLACE.keys()}
    good = bool(words & GOOD_WORDS) != bool(NEGATION.search(verdict(review)))
    return f"{'good' if good else 'bad'} {place}"


def test_the_reviews_are_those_recorded() -> None:
    lines = [f"{review.text}\t{review.label}\n" for split in SIZES for review in ALL[split]]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == FINGERPRINT
    assert {split: len(found) for split, found in ALL.items()} == SIZES


def test_a_second_reader_agrees_with_every_label() -> None:
    for found in ALL.values():
        for review in found:
            assert read(review) == review.label, review


def test_no_text_is_there_twice() -> None:
    texts = [review.text for found in ALL.values() for review in found]
    assert len(set(texts)) == len(texts)


def test_training_never_says_what_is_held_out() -> None:
    def new(review: Review) -> bool:
        words = words_in(verdict(review))
        (thing,) = set(words) & PLACE.keys()
        (word,) = set(words) & (GOOD_WORDS | BAD_WORDS)
        return held_out(thing, word)

    assert not any(map(new, ALL["train"]))
    assert sum(map(new, ALL["test"])) == len(ALL["test"]) // 2


@pytest.mark.parametrize("split", SIZES)
def test_the_classes_are_even_and_the_texts_have_several_sentences(split: str) -> None:
    counts = Counter(review.label for review in ALL[split])
    assert len(counts) == 6
    assert max(counts.values()) < 1.6 * min(counts.values())
    assert {len(sentences(review.text)) for review in ALL[split]} == {3, 4, 5, 6}


def test_a_bag_of_words_does_not_tell() -> None:
    """Softmax regression on which words are there, by plain gradient descent."""
    names = sorted({review.label for review in ALL["train"]})
    vocabulary = {w: n for n, w in enumerate(sorted({w for review in ALL["train"] for w in words_in(review.text)}))}

    def numbers(split: str) -> tuple[np.ndarray, np.ndarray]:
        x = np.zeros((len(ALL[split]), len(vocabulary) + 1))
        x[:, -1] = 1
        for row, review in zip(x, ALL[split]):
            row[[vocabulary[w] for w in words_in(review.text) if w in vocabulary]] = 1
        return x, np.array([names.index(review.label) for review in ALL[split]])

    (x, y), (test, true) = numbers("train"), numbers("test")
    weights = np.zeros((x.shape[1], 6))
    for _ in range(300):
        odds = np.exp(x @ weights - (x @ weights).max(1, keepdims=True))
        weights -= 0.5 * x.T @ (odds / odds.sum(1, keepdims=True) - np.eye(6)[y]) / len(x)
    assert 0.4 < (np.argmax(test @ weights, 1) == true).mean() < 0.65

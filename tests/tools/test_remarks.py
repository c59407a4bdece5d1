"""The built-in remarks: the same on every machine, splits that do not leak, and labels that a second reader agrees with."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import numpy as np
import pytest

from tools.corpora.remarks import KINDS, Remark, held_out, remarks

SIZES = {"train": 4_000, "valid": 500, "test": 1_000}
ALL = {split: remarks(split) for split in SIZES}
FINGERPRINT = "5fc2a7065e9a66584b4ead1adaf05279778bbb68900ff21edf2c12fcf57627de"
GOOD = {word for kind in KINDS for word in kind.good.split("|")}
BAD = {word for kind in KINDS for word in kind.bad.split("|")}
THINGS = {thing for kind in KINDS for thing in kind.things.split("|")}
NEGATION = re.compile(r"\b(not|never|nobody|far from|anything but)\b")


def comes_to(clause: str) -> bool:
    """Is it good? A reading of one clause that knows nothing of how it was made."""
    (word,) = GOOD & set(clause.split()) or BAD & set(clause.split())
    return (word in GOOD) != bool(NEGATION.search(clause))


def read(text: str) -> str:
    if " , but " in text:
        main = text.split(" , but ")[1]
    elif text.startswith("although "):
        main = text.split(" , ")[1]
    else:
        main = re.split(r" although | , even if ", text)[0]
    return "positive" if comes_to(main) else "negative"


def test_the_remarks_are_those_recorded() -> None:
    lines = [f"{remark.text}\t{remark.label}\n" for split in SIZES for remark in ALL[split]]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == FINGERPRINT
    assert {split: len(found) for split, found in ALL.items()} == SIZES


def test_a_second_reader_agrees_with_every_label() -> None:
    for found in ALL.values():
        for remark in found:
            assert read(remark.text) == remark.label, remark


def test_no_text_is_there_twice() -> None:
    texts = [remark.text for found in ALL.values() for remark in found]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("split", SIZES)
def test_the_classes_are_even(split: str) -> None:
    counts = Counter(remark.label for remark in ALL[split])
    assert set(counts) == {"positive", "negative"}
    assert max(counts.values()) < 0.55 * SIZES[split]


def combinations(remark: Remark) -> set[tuple[str, str]]:
    """Every thing with the next word of value behind it."""
    found, thing = set(), ""
    for word in remark.text.split():
        if word in THINGS:
            thing = word
        elif word in GOOD | BAD:
            found.add((thing, word))
    return found


def test_half_of_the_test_combines_words_as_training_never_does() -> None:
    assert not any(held_out(*pair) for remark in ALL["train"] for pair in combinations(remark))
    seen = {pair for remark in ALL["train"] for pair in combinations(remark)}
    for split in ("valid", "test"):
        unseen = sum(any(held_out(*pair) for pair in combinations(remark)) for remark in ALL[split])
        assert unseen == SIZES[split] // 2
        assert not any(held_out(*pair) for pair in seen)
    known = {word for remark in ALL["train"] for word in remark.text.split()}
    assert all(set(remark.text.split()) <= known for split in ("valid", "test") for remark in ALL[split])


def test_counting_words_is_close_to_guessing() -> None:
    """Naive Bayes on which words a remark has, fitted on train."""
    words = sorted({word for remark in ALL["train"] for word in remark.text.split()})
    counts = {label: Counter[str]() for label in ("negative", "positive")}
    for remark in ALL["train"]:
        counts[remark.label].update(set(remark.text.split()))
    weight = {word: np.log((counts["positive"][word] + 1) / (counts["negative"][word] + 1)) for word in words}
    said = [sum(weight[word] for word in set(remark.text.split())) > 0 for remark in ALL["test"]]
    right = np.mean([(remark.label == "positive") == answer for remark, answer in zip(ALL["test"], said)])
    assert 0.45 < right < 0.62

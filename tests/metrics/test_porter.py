"""Stems are those of NLTK, which published ROUGE scores use."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from regard.metrics import porter
from regard.metrics.porter import stem

ENDINGS = ("s", "es", "ies", "ed", "ied", "eed", "ing", "y", "ly", "ally", "fully", "ation", "ational", "izer", "bly", "ability")
ENDINGS += (
    "logy",
    "logi",
    "ousness",
    "iveness",
    "icate",
    "alize",
    "ement",
    "ment",
    "ion",
    "sion",
    "ism",
    "ize",
    "e",
    "ll",
    "lle",
    "er",
)


def words_to_try() -> list[str]:
    """Words of this repository's documents, and made-up ones whose endings meet every rule."""
    documents = Path(__file__).parents[2].joinpath("docs").rglob("*.md")
    read = {word for path in documents for word in re.findall("[a-z0-9]+", path.read_text("utf-8").lower())}
    dice = random.Random(3)
    made = {"".join(dice.choices("aeioubcdlnrstyzw", k=dice.randint(0, 5))) + dice.choice(ENDINGS) for _ in range(20_000)}
    return sorted({word for word in read | made | set(porter.IRREGULAR) if word})


def test_every_stem_is_that_of_nltk() -> None:
    nltk_porter = pytest.importorskip("nltk.stem.porter")
    reference, words = nltk_porter.PorterStemmer(), words_to_try()
    assert len(words) > 15_000
    assert [(word, stem(word)) for word in words] == [(word, reference.stem(word)) for word in words]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *[("caresses", "caress"), ("ponies", "poni"), ("flies", "fli"), ("died", "die"), ("hopping", "hop"), ("hoping", "hope")],
        *[
            ("relational", "relat"),
            ("happy", "happi"),
            ("enjoy", "enjoy"),
            ("controlled", "control"),
            ("sky", "sky"),
            ("at", "at"),
        ],
    ],
)
def test_examples_of_the_paper(word: str, expected: str) -> None:
    assert stem(word) == expected

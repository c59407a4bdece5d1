"""The built-in dispatches: the same on every machine, splits that do not leak, and entities that no list of words finds."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

import pytest

from regard.data.tagset import find_broken, spans, tags_of_spans
from regard.metrics.classification import EntityScores
from tools.corpora.dispatches import NAME, dispatches, held_out

SIZES = {"train": 3_000, "valid": 400, "test": 800}
ALL = {split: dispatches(split) for split in SIZES}
TYPES = ("DATE", "LOC", "ORG", "PER")
FINGERPRINT = "e49d89d801be23ca330396489d42a73f3c29d5b7259d288f70c77f6d72c94425"


def test_the_dispatches_are_those_recorded() -> None:
    lines = [f"{' '.join(found.words)}\t{' '.join(found.tags)}\n" for split in SIZES for found in ALL[split]]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == FINGERPRINT
    assert {split: len(found) for split, found in ALL.items()} == SIZES


def test_every_word_has_a_tag_and_every_row_obeys_iob2() -> None:
    for found in (one for split in SIZES for one in ALL[split]):
        assert len(found.words) == len(found.tags)
        assert find_broken(found.tags, "iob2") == []
        assert not any("[" in word or "{" in word for word in found.words)


def test_no_sentence_is_there_twice() -> None:
    words = [found.words for split in SIZES for found in ALL[split]]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("split", SIZES)
def test_all_types_are_there_often(split: str) -> None:
    counts = Counter(span.type for found in ALL[split] for span in spans(found.tags))
    assert sorted(counts) == list(TYPES)
    assert min(counts.values()) > 0.12 * counts.total()


def test_half_of_the_test_has_names_that_training_never_has() -> None:
    seen = {word for found in ALL["train"] for word in found.words if NAME.fullmatch(word)}
    assert not any(map(held_out, seen))
    for split in ("valid", "test"):
        assert sum(any(map(held_out, found.words)) for found in ALL[split]) == SIZES[split] // 2
    known = {word for found in ALL["train"] for word in found.words}
    new = {word for found in ALL["test"] for word in found.words} - known
    assert all(NAME.fullmatch(word) for word in new)


def test_a_name_may_be_anybodys() -> None:
    types: dict[str, set[str]] = defaultdict(set)
    for found in ALL["train"]:
        for word, tag in zip(found.words, found.tags):
            types[word].add(tag[2:])
    names = [found for word, found in types.items() if NAME.fullmatch(word)]
    assert sum(len(found) > 1 for found in names) > 0.6 * len(names)
    assert {"PER", "DATE"} <= types["June"]
    assert {"", "DATE"} <= types["1987"] | types["1945"] | types["1950"]
    assert any(b == "B-LOC" and a == "B-LOC" for found in ALL["train"] for a, b in zip(found.tags, found.tags[1:]))


def test_a_list_of_words_finds_few_entities() -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for found in ALL["train"]:
        for word, tag in zip(found.words, found.tags):
            counts[word][tag] += 1
    said = [[counts[w].most_common(1)[0][0] if w in counts else "O" for w in found.words] for found in ALL["test"]]
    mended = [tags_of_spans(spans(row), len(row), "iob2") for row in said]
    assert EntityScores.of(TYPES, [found.tags for found in ALL["test"]], mended, 0.0).f1 < 0.25

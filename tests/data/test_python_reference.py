"""The built-in text: English, each section once, and nothing in the test that was in training."""

from __future__ import annotations

import platform
import re
import sys
from pydoc_data.topics import topics
from types import ModuleType

import pytest

from regard.core.errors import UserError
from regard.data import builtin
from regard.data.builtin import SPLITS, describe_reference, python_reference

ALL = {split: python_reference(split) for split in SPLITS}


def rows(texts: list[str], words: int) -> set[str]:
    flat = [text.split() for text in texts]
    return {" ".join(text[n : n + words]) for text in flat for n in range(len(text) - words + 1)}


def test_splits_are_nine_to_a_half_to_a_half_and_the_same_again() -> None:
    sizes = {split: sum(map(len, texts)) for split, texts in ALL.items()}
    for split in ("valid", "test"):
        assert 0.045 < sizes[split] / sum(sizes.values()) <= 0.05
        assert len(ALL[split]) >= 8
    assert sum(sizes.values()) > 300_000
    builtin._splits.cache_clear()
    assert {split: python_reference(split) for split in SPLITS} == ALL


def test_no_ten_words_in_a_row_are_in_two_splits() -> None:
    train, valid, test = (rows(ALL[split], 10) for split in SPLITS)
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert len(train) > 40_000


def test_nothing_repeats_and_nothing_is_lost() -> None:
    texts = [text for split in SPLITS for text in ALL[split]]
    bodies = [text.split("\n\n", 1)[1] for text in texts]
    assert len(set(bodies)) == len(bodies)
    unheaded = [re.sub(r"^[*=~^\"-]{2,}$", "", topic, flags=re.MULTILINE) for topic in topics.values()]
    lost = rows(unheaded, 25) - rows(["\n".join(texts)], 25)
    assert len(lost) < 0.1 * len(rows(unheaded, 25))  # rows across two sections, and the shortest sections


def test_it_is_said_which_python_it_belongs_to() -> None:
    assert platform.python_version() in describe_reference()
    assert re.search(r"sha256 [0-9a-f]{12}$", describe_reference())


def test_unknown_split_and_no_pydoc_data(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"no split 'validation'.*did you mean 'valid'"):
        python_reference("validation")
    builtin._splits.cache_clear()
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", ModuleType("empty"))
    with pytest.raises(UserError, match="without pydoc_data"):
        python_reference("train")

"""How `bench bottleneck` cuts a test set by length, joins sentences and scores them; that its settings are recipes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bottleneck import grouped, scored
from benchmarks.bottleneck_runs import RECIPES, Made, joined, settings_of
from benchmarks.lines import draw
from regard.data.sources import Pair
from regard.runs.recipe import load_recipe
from tools.corpora.english_french import english_french


@given(st.lists(st.integers(1, 30), min_size=5, max_size=80))
@settings(max_examples=40)
def test_groups_part_the_test_set_by_length(lengths):
    groups = grouped([Pair("a " * length, "b") for length in lengths])
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    assert 1 <= len(groups) <= 5
    of = [sorted(lengths[row] for row in rows) for rows in groups]
    assert all(before[-1] < after[0] for before, after in pairwise(of))


def test_sentences_are_joined_once_each():
    texts, sentences = joined("valid", 4, 60), english_french("valid")
    assert len(texts) == 60
    assert " ".join(text.source for text in texts) == " ".join(pair.source for pair in sentences[:150])
    assert texts[3].target == " ".join(pair.target for pair in sentences[6:10])
    assert len(joined("valid", 4, 10_000)) < len(sentences)


def test_scores_are_sacrebleus_and_are_drawn(tmp_path: Path):
    test = [Pair("a " * n, f"le chat {n} voit le chien") for n in range(1, 11)]
    made = {"right": Made([pair.target for pair in test], 1, 1.0, 0.1), "wrong": Made(["non"] * 10, 1, 1.0, 2.0)}
    groups = scored(test, made)
    assert [group["bleu"]["right"] for group in groups] == pytest.approx([100.0] * 5)
    assert all(group["bleu"]["wrong"] < 1 for group in groups)
    rows = grouped(test)[0]
    expected = sacrebleu.corpus_bleu([test[row].target for row in rows], [[test[row].target for row in rows]], lowercase=True)
    assert groups[0]["bleu"]["right"] == pytest.approx(expected.score)
    draw({"right": ([1.0, 2.0], [3.0, 4.0])}, "a picture", "x", "y", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("large", [False, True])
def test_all_have_the_same_budget(large):
    recipes = [load_recipe(*settings_of(name, large)) for name in RECIPES]
    for key in ("steps", "tokens_per_batch", "precision", "seed"):
        assert len({getattr(recipe.train, key) for recipe in recipes}) == 1
    assert len({recipe.decode for recipe in recipes}) == 1
    assert len({(recipe.objective, recipe.text) for recipe in recipes}) == 1
    assert [getattr(recipe.model, "score", "-") for recipe in recipes] == ["", "dot", "bilinear", "additive", "-"]

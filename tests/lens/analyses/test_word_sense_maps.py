"""Senses side by side: the figures are means of cosines taken one by one, a static vector parts nothing, and all is drawn."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.commands.word_uses import find_uses, several, side_by_side
from regard.core.errors import UserError
from regard.data.sources.senses import typed_sentences
from regard.lens.analyses.word_map import SenseMaps, sense_maps
from regard.lens.analyses.word_senses import Use, WordUses
from regard.lens.result import html, save
from tests.tasks import tiny_labels

SENSES = ("river", "money", "river", "money", "river")


def uses(vectors: list[np.ndarray], model: str = "model") -> WordUses:
    found = tuple(Use(f"sentence {n} of bank here", 14, 18, ("bank",), sense) for n, sense in enumerate(SENSES))
    return WordUses("bank", model, found, tuple(vectors), np.zeros(len(vectors)))


def maps() -> SenseMaps:
    draw = np.random.default_rng(0)
    static = uses([np.tile(draw.normal(size=6), (5, 1))], "table")
    return sense_maps([static, uses([draw.normal(size=(5, 6)) for _ in range(3)], "reads")], [0, 2])


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_the_figures_are_means_of_cosines(seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(5, 4))
    (found,) = sense_maps([uses([vectors])], [0]).maps
    cosines = {
        (a, b): vectors[a] @ vectors[b] / np.sqrt((vectors[a] @ vectors[a]) * (vectors[b] @ vectors[b]))
        for a, b in combinations(range(5), 2)
    }
    within = [cosine for (a, b), cosine in cosines.items() if SENSES[a] == SENSES[b]]
    across = [cosine for (a, b), cosine in cosines.items() if SENSES[a] != SENSES[b]]
    assert found.within == pytest.approx(np.mean(within))
    assert found.across == pytest.approx(np.mean(across))
    assert found.nearer == pytest.approx(np.mean([w > a for w in within for a in across]))


def test_one_vector_parts_nothing() -> None:
    table, reads = maps().maps
    assert table.alike
    assert table.within == table.across == pytest.approx(1)
    assert table.nearer == 0.5
    assert not reads.alike
    assert reads.where == "layer 1"


def test_senses_that_lie_apart_are_told_apart() -> None:
    vectors = np.array([[1.0, 0.1 * n] if sense == "river" else [-0.1 * n, 1.0] for n, sense in enumerate(SENSES)])
    (found,) = sense_maps([uses([vectors])], [0]).maps
    assert found.within - found.across > 0.5
    assert found.nearer == 1.0


def test_it_is_told_drawn_and_kept(tmp_path: Path) -> None:
    found = maps()
    assert found.lines()[0] == "bank in 5 uses of 2 senses: river, money"
    assert "table" in found.lines()[2]
    assert "+0.000" in found.lines()[2]
    for suffix in (".png", ".svg", ".json"):
        save(found, tmp_path / f"bank{suffix}")
        assert (tmp_path / f"bank{suffix}").stat().st_size > 200
    told = json.loads((tmp_path / "bank.json").read_text())
    assert [model["name"] for model in told["models"]] == ["table", "reads"]
    assert np.array(told["models"][1]["points"]).shape == (5, 2)
    assert "<img" in html(found)


def test_runs_are_named_with_commas_unless_a_folder_has_one(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    assert several(f"{tmp_path}/a,b") == [f"{tmp_path}/a,b"]
    assert several("runs/a, runs/b") == ["runs/a", "runs/b"]


def asked(*sentences: str) -> list:
    return find_uses("cat", typed_sentences(sentences))


def test_a_table_and_a_model_that_reads_stand_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("2 3\ncat 1 0 1\ndog 0 1 0\n")
    senses = asked("the old cat is nice\tpet", "the wet cat is nice\tpet", "the big cat is not nice\tbeast")
    found = side_by_side([str(file), str(tiny_labels.trained("bert"))], "cat", senses, None, "cpu")
    assert [each.where for each in found.maps] == ["one vector", "layer 1"]
    assert found.maps[0].alike
    assert not found.maps[1].alike
    with pytest.raises(UserError, match="--layer 7"):
        side_by_side([str(file), str(tiny_labels.trained("bert"))], "cat", senses, 7, "cpu")
    with pytest.raises(UserError, match="end each sentence in a tab"):
        side_by_side([str(file)], "cat", asked("the old cat", "the wet cat"), None, "cpu")
    with pytest.raises(UserError, match="no vector for 'bird'"):
        side_by_side([str(file)], "bird", find_uses("bird", typed_sentences(["a bird\ta", "a bird\tb"])), None, "cpu")

"""Distances between uses are those of plain cosines, and senses are scored as by counting every comparison."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.lens.analyses.word_senses import UsesInLayer, WordUses, distances, mean_distance
from regard.lens.plots.word_senses import line
from tests.lens.some_uses import some, use

seeds = st.integers(0, 10_000)


@settings(max_examples=25)
@given(seeds, st.integers(2, 9), st.integers(1, 20))
def test_distance_is_one_minus_the_cosine_of_torch(seed: int, count: int, width: int) -> None:
    vectors_UD = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    as_torch = torch.from_numpy(vectors_UD).double()
    expected = 1 - torch.nn.functional.cosine_similarity(as_torch[:, None], as_torch[None], dim=-1)
    np.testing.assert_allclose(distances(vectors_UD), expected.numpy(), atol=1e-12)
    apart = expected[*torch.triu_indices(count, count, 1)]
    assert mean_distance(vectors_UD) == pytest.approx(float(apart.mean()), abs=1e-12)


@settings(max_examples=25)
@given(seeds, st.floats(0.01, 100))
def test_equal_vectors_are_exactly_0_apart_and_length_does_not_count(seed: int, scale: float) -> None:
    one_D = np.random.default_rng(seed).normal(size=30)
    assert (distances(np.stack([one_D] * 3)) == 0).all()
    assert distances(np.stack([one_D, scale * one_D]))[0, 1] == pytest.approx(0, abs=1e-15)


def test_nothing_is_nan_for_a_vector_of_zeros() -> None:
    assert np.isfinite(distances(np.zeros((3, 4)))).all()
    assert np.isnan(mean_distance(np.ones((1, 4))))


@settings(max_examples=25)
@given(seeds, st.integers(4, 12), st.integers(2, 3))
def test_the_score_of_senses_is_the_share_of_comparisons(seed: int, count: int, senses: int) -> None:
    found = some(count, senses=senses, seed=seed)
    scored = found.senses
    assert scored is not None
    for layer in range(len(found.layers)):
        apart = {pair: found.distances_LUU[layer][pair] for pair in combinations(range(count), 2)}
        within = [d for (a, b), d in apart.items() if found.uses[a].sense == found.uses[b].sense]
        between = [d for (a, b), d in apart.items() if found.uses[a].sense != found.uses[b].sense]
        share = np.mean([(w < b) + 0.5 * (w == b) for w, b in product(within, between)])
        assert scored.score_L[layer] == pytest.approx(share)
        assert (scored.within_L[layer], scored.between_L[layer]) == (
            pytest.approx(np.mean(within)),
            pytest.approx(np.mean(between)),
        )
    assert scored.score_L[0] == 0.5  # a static embedding knows one vector, and no sense


@pytest.mark.parametrize("senses", [("a", "a", "a"), ("a", "b", "c"), ("", "", "")])
def test_senses_that_cannot_be_compared(senses: tuple[str, ...]) -> None:
    uses = tuple(use("the bank", sense=sense) for sense in senses)
    found = WordUses("bank", "m", uses, (np.ones((3, 2)), np.eye(3)), np.ones(2))
    assert found.senses is None
    assert any("not compared" in line for line in UsesInLayer(found, 1).lines()) == bool(senses[0])


def test_uses_and_vectors_must_belong_together() -> None:
    with pytest.raises(ValueError, match="two uses"):
        WordUses("bank", "m", (use("the bank"),), (np.ones((1, 2)),), np.ones(1))
    with pytest.raises(ValueError, match="every layer needs 2"):
        WordUses("bank", "m", (use("the bank"), use("a bank")), (np.ones((3, 2)),), np.ones(1))


# ------------------------------------------------------------------------------------------------------------------ as text


def test_a_line_is_cut_at_spaces_around_its_word() -> None:
    sentence = "One two three four five, the bank of six seven eight nine."
    assert str(line(use(sentence), 100)) == sentence
    assert line(use(sentence), 14) == ("… five, the ", "bank", " of six …")
    assert line(use("a\tbank\n"), 9) == ("a ", "bank", "")
    assert line(use("(bank)"), 9) == ("(", "bank", ")")
    assert line(use("x" * 50 + " bank"), 10).before == "…" + "x" * 8 + " "


@settings(max_examples=40)
@given(st.text(max_size=60), st.text(max_size=60), st.integers(8, 40))
def test_a_line_is_never_longer_than_its_room_nor_more_than_a_line(before: str, after: str, side: int) -> None:
    found = line(use(f"{before}\0bank{after}", "\0bank"), side)
    assert max(len(found.before), len(found.after)) <= side
    assert str(found).isprintable() or any(c in "\u200c\u200d" for c in str(found))


def test_the_table_has_every_layer_and_where_pairs_are_few_every_pair() -> None:
    found = some(3, layers=4)
    told = UsesInLayer(found, 5).lines()
    header = next(n for n, row in enumerate(told) if row.startswith("layer"))
    rows = told[header : header + 1 + len(found.layers)]
    assert rows[0].split()[2:5] == ["1-2", "1-3", "2-3"]
    assert [row.split()[0] for row in rows[1:]] == ["words", "0", "1", "2", "3", "4"]
    assert rows[1].split()[1] == "0.000"
    assert rows[-1].split()[1] == f"{found.mean_L[-1]:.3f}"
    assert rows[-1].split()[-4:] == [*(f"{d:.3f}" for d in found.pairs_LP[-1]), "0.700"]
    nearest = next(row for row in told if "nearest" in row)
    assert f"{found.pairs_LP[-1].min():.3f}" in nearest


def test_many_uses_are_counted_not_listed() -> None:
    told = "\n".join(UsesInLayer(some(40, senses=2), 2).lines(width=80))
    assert "... and 16 more" in told
    assert "1-2" not in told
    assert max(map(len, told.splitlines())) <= 90
    assert "chance: 50%" in told


def test_different_spellings_are_said() -> None:
    uses = (use("a bank"), use("A Bank", "Bank", pieces=("Ba", "nk")))
    told = "\n".join(UsesInLayer(WordUses("bank", "m", uses, (np.eye(2), np.eye(2)), np.ones(2)), 1).lines())
    assert "spelled in 2 ways (bank, Ba nk)" in told

"""Heads that know a tree find its relations; those that know the other half of the sentences only are not chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.commands.subjects import trees
from regard.commands.views import SHOWS, ViewRequest
from regard.core.errors import UserError
from regard.data.sources.conllu import read_conllu
from regard.lens.analyses.relations import Tree, relation_scores
from regard.lens.result import save
from tests.lens.planted import looks_at, planted
from tests.lens.some_subjects import answers, side

TOKENS = ("[CLS]", "the", "cat", "sl", "##eeps", ".", "[SEP]")
SIDE = side(*TOKENS, special=(0, 6))
OWNERS = (-1, 0, 1, 2, 2, 3, -1)  # of each token the word
HEADS, RELATIONS = (1, 2, -1, 2), ("det", "nsubj", "root", "punct")
KNOWING = [0, 2, 3, 0, 0, 3, 0]  # each token's strongest key: its word's head, in one of its pieces


def tree(weights: dict[str, np.ndarray], relations: tuple[str, ...] = RELATIONS) -> Tree:
    return Tree(planted(weights, {"encoder": SIDE}), "encoder", OWNERS, HEADS, relations)


def many(count: int, **weights: np.ndarray) -> list[Tree]:
    named = {f"encoder.{n}.self": matrix for n, matrix in enumerate(weights.values())}
    return [tree(named) for _ in range(count)]


def test_a_head_that_knows_the_tree_finds_every_relation() -> None:
    even, knowing = np.full((7, 7), 1 / 7), looks_at(KNOWING, 7, 0.6)
    found = relation_scores("some", many(24, even=even, knowing=knowing), many(24, even=even))
    assert {relation.name: relation.accuracy for relation in found.relations} == {"det": 1.0, "nsubj": 1.0, "punct": 1.0}
    assert next((r.attention, r.head) for r in found.relations if r.name == "det") == ("encoder.1.self", 0)
    assert {relation.name: relation.offset for relation in found.relations} == {"det": 1, "nsubj": 1, "punct": -1}
    assert all(relation.offset_accuracy == 1.0 and relation.count == 12 for relation in found.relations)
    assert all(relation.direction == "dependent → head" for relation in found.relations)
    # even weights are most on the word of two pieces: right for those that depend on it
    assert {relation.name: relation.random for relation in found.relations} == {"det": 0.0, "nsubj": 1.0, "punct": 1.0}


def test_pieces_are_summed_and_marks_and_the_word_itself_do_not_count() -> None:
    """The cat looks mostly at [CLS], then at itself, then at "the"; but the two pieces of "sleeps" have more together."""
    weights = np.full((7, 7), 1 / 7)
    weights[2] = [0.4, 0.15, 0.2, 0.1, 0.1, 0.05, 0.0]
    found = relation_scores("some", many(20, one=weights)).relations
    (nsubj,) = [relation for relation in found if relation.name == "nsubj"]
    assert (nsubj.accuracy, nsubj.random) == (1.0, None)


def test_chosen_on_one_half_and_scored_on_the_other() -> None:
    """One head is right in even sentences, the other in odd ones: who is best where it was chosen is wrong where it is scored."""
    knowing, wrong = looks_at(KNOWING, 7, 0.9), looks_at([0, 5, 1, 1, 1, 1, 0], 7, 0.9)
    halves = [
        tree({"encoder.0.self": knowing, "encoder.1.self": wrong}),
        tree({"encoder.0.self": wrong, "encoder.1.self": knowing}),
    ]
    (nsubj,) = [relation for relation in relation_scores("some", halves * 10).relations if relation.name == "nsubj"]
    assert (nsubj.attention, nsubj.accuracy) == ("encoder.0.self", 0.0)


def test_from_the_head_to_what_depends_on_it() -> None:
    back = looks_at([0, 5, 1, 2, 2, 1, 0], 7, 0.9)
    (nsubj,) = [relation for relation in relation_scores("some", many(20, back=back)).relations if relation.name == "nsubj"]
    assert (nsubj.direction, nsubj.accuracy, nsubj.offset) == ("head → dependent", 1.0, -1)


def by_counting(matrix: np.ndarray, owners: tuple[int, ...], start: int) -> int:
    """The word that the pieces of `start` look at most on average, marks and itself left out."""
    words = sorted(set(owners) - {-1, start})
    rows = [n for n, owner in enumerate(owners) if owner == start]
    weight = {word: sum(matrix[row][n] for row in rows for n, owner in enumerate(owners) if owner == word) for word in words}
    return max(words, key=lambda word: weight[word])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_guesses_are_what_counting_gives(seed: int) -> None:
    matrix = np.random.default_rng(seed).dirichlet(np.full(7, 0.3), size=7)
    for relation in relation_scores("some", many(20, one=matrix)).relations:
        dependent = RELATIONS.index(relation.name)
        start, aim = dependent, HEADS[dependent]
        if relation.direction == "head → dependent":
            start, aim = aim, start
        assert relation.accuracy == (by_counting(matrix, OWNERS, start) == aim)


def test_too_few_are_told() -> None:
    with pytest.raises(UserError, match="no relation occurs 10 times in each half of 8 sentences"):
        relation_scores("some", many(8, one=np.full((7, 7), 1 / 7)))


def treebank(folder: Path, count: int = 30) -> Path:
    sentence = [
        "the\tDET\t2\tdet",
        "cat\tNOUN\t3\tnsubj",
        "sees\tVERB\t0\troot",
        "the\tDET\t5\tdet",
        "dog\tNOUN\t3\tobj",
        ".\tPUNCT\t3\tpunct",
    ]
    lines = []
    for n, row in enumerate(sentence, start=1):
        form, speech, head, relation = row.split("\t")
        space = "SpaceAfter=No" if n == 5 else "_"
        lines.append(f"{n}\t{form}\t_\t{speech}\t_\t_\t{head}\t{relation}\t_\t{space}\n")
    path = folder / "bank.conllu"
    path.write_text(("# one\n" + "".join(lines) + "\n") * count)
    return path


@pytest.mark.parametrize(
    "name", ["writer", "filler", "judge", "labeller", "tagger", "translator", "RobertaModel", "BertForMaskedLM"]
)
def test_pieces_find_their_words_in_every_family(name: str, tmp_path: Path) -> None:
    sentences = read_conllu(treebank(tmp_path, 2))
    for found in trees(answers(name), sentences):
        tokens = found.subject.sides[found.stack].tokens
        spelled = dict[int, str]()
        for token, word in zip(tokens, found.words):
            spelled[word] = spelled.get(word, "") + token.removeprefix("##").removeprefix("▁")
        for word, form in enumerate(["the", "cat", "sees", "the", "dog", "."]):
            assert spelled[word] in (form, "<unk>")
        assert found.heads == (1, 2, -1, 4, 2, 2)


def test_a_treebank_beside_random_weights(tmp_path: Path) -> None:
    found: Any = SHOWS["roles"].compute(answers("writer"), ViewRequest(run="x", data=treebank(tmp_path)))
    assert found.relations is not None
    assert {relation.name for relation in found.relations.relations} == {"det", "nsubj", "obj", "punct"}
    assert all(relation.random is not None for relation in found.relations.relations)
    assert any(line.startswith("relation") for line in found.lines())
    save(found.relations, tmp_path / "x.svg")
    save(found, tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text())["relations"]["sentences"] == 30
    assert "<img" in found.relations._repr_html_()


def test_sentences_that_are_too_long_are_counted(tmp_path: Path) -> None:
    path = treebank(tmp_path)
    rows = "".join(f"{n}\tcat\t_\t_\t_\t_\t{int(n > 1)}\tdep\t_\t_\n" for n in range(1, 30))
    path.write_text(path.read_text() + rows)
    found: Any = SHOWS["roles"].compute(answers("writer"), ViewRequest(run="x", data=path))
    assert "(1 of 31 left out, which this model cannot read): 30 sentences" in "\n".join(found.lines())


def test_a_model_of_pairs_reads_no_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"can read none of the 30 sentences: .* put a tab between the two"):
        list(trees(answers("pairs"), read_conllu(treebank(tmp_path))))

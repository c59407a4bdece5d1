"""The tree of a search against the search: the same hypotheses, and every node the continuation of one that lived."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.decode.beam_trace import SearchTree, trace_beam
from regard.decode.config import BeamSettings
from regard.decode.request import SearchRequest
from tests.decode.searches import beam_search
from tests.decode.toy import EOS, SOS, Oracle, TableState, divisor, lively, table


def tree_of(seed: int, vocabulary: int, beam: int, alpha: float, limit: int, forced: tuple[int, ...] = ()) -> SearchTree:
    state = TableState(table(seed, vocabulary), [3])
    settings = BeamSettings(beam=beam, length_penalty=alpha, n_best=beam)
    request = SearchRequest(encoded=state, sos=SOS, eos=EOS, limits=[limit], method=settings, banned=(SOS,), forced=[forced])
    return trace_beam(request)


@given(st.integers(0, 999), st.integers(3, 9), st.integers(1, 4), st.sampled_from([0.0, 0.6, 1.0]), st.integers(1, 6))
@settings(max_examples=60)
def test_every_node_continues_one_that_lived(seed: int, vocabulary: int, beam: int, alpha: float, limit: int) -> None:
    tree = tree_of(seed, vocabulary, beam, alpha, limit)
    oracle = Oracle(table(seed, vocabulary), 3, banned=(SOS,))
    for step, nodes in enumerate(tree.steps):
        alive = [node for node in nodes if node.fate == "alive"]
        assert len(alive) <= beam
        assert [node.total for node in nodes] == sorted((node.total for node in nodes), reverse=True)
        assert all(node.token == EOS for node in nodes if node.fate == "finished")
        for node in nodes:
            path = tree.path(step, node.rank)
            ids = [one.token for one in path]
            assert all(one.fate == "alive" for one in path[:-1])
            known = {token: p for p, token in oracle.nexts(ids[:-1])}
            assert node.logprob == pytest.approx(known[node.token], abs=1e-5)
            assert node.total == pytest.approx(sum(one.logprob for one in path), abs=1e-4)
            assert node.score == pytest.approx(node.total / divisor(step + 1, alpha), abs=1e-4)


@given(st.integers(0, 999), st.integers(3, 9), st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=40)
def test_it_finds_what_the_search_finds_and_marks_the_best(seed: int, vocabulary: int, beam: int, limit: int) -> None:
    tree = tree_of(seed, vocabulary, beam, 0.6, limit)
    state = TableState(table(seed, vocabulary), [3])
    (found,) = beam_search(state, sos=SOS, eos=EOS, beam=beam, alpha=0.6, limits=[limit], n_best=beam, banned=(SOS,))
    assert list(tree.hypotheses) == found
    best = [node.token for step in tree.steps for node in step if node.best]
    assert best == [*found[0].ids, *([EOS] if found[0].finished else [])]


def test_a_forced_beginning_is_the_only_way_there() -> None:
    model = lively()
    ids = torch.tensor([[5, 6, 7]])
    settings, encoded = BeamSettings(beam=3, n_best=3), model.start(ids, torch.tensor([3]))
    tree = trace_beam(SearchRequest(encoded=encoded, sos=1, eos=2, limits=[9], method=settings, forced=[(7, 8)]))
    assert [[node.token for node in step] for step in tree.steps[:2]] == [[7], [8]]
    assert tree.forced == 2
    assert len(tree.steps[2]) > 1
    assert tree.as_dict()["steps"][0][0]["parent"] is None


def test_a_beam_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"decode\.beam"):
        tree_of(0, 5, 0, 0.6, 3)

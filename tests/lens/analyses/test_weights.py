"""Weights by words, without marks, by what they bring: against sums written out, and against what the model really adds up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.commands.subjects import subject_of
from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.lens.analyses import head_statistics
from regard.lens.analyses import weights as merged
from regard.lens.analyses.weights import Choice, attention_page, attention_weights, merge_keys, merge_queries, value_norms
from regard.lens.result import save
from regard.lens.subject import Subject
from regard.model.probe import attentions
from tests.lens.some_subjects import answers, side, subject, text_of

NAMES = ["translator", "writer", "pairs", "RobertaForMaskedLM", "BertForQuestionAnswering"]


@pytest.mark.parametrize("name", NAMES)
def test_all_there_is_without_a_choice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_statistics, "NUMBERS", 50)
    found, seen = attention_weights(subject(name), Choice()), subject(name).record()
    part = "cross" if name == "translator" else "self"
    names = [attention for attention in seen if attention.endswith(part)]
    assert list(found.alignment.layers) == names
    for layer, attention in enumerate(names):
        np.testing.assert_allclose(found.alignment.weights[layer], seen[attention].weights()[0].numpy(), atol=1e-6)
    one = attention_weights(subject(name), Choice(layer=len(names) - 1, head=1))
    np.testing.assert_allclose(one.alignment.weights[0, 0], found.alignment.weights[-1, 1], atol=1e-6)
    assert one.heads == ((1,),)
    assert found.as_dict()["weights"] == found.alignment.weights.tolist()


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6), st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(0, 99)
)
@settings(max_examples=30)
def test_words_are_sums_of_keys_and_means_of_queries(rows: list[int], columns: list[int], seed: int) -> None:
    """Numbers of words from steps of 0 or more, as pieces follow each other; rows go on summing to one."""
    words_L, words_M = (np.unique(np.cumsum(steps), return_inverse=True)[1] for steps in (rows, columns))
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(columns)), size=(2, len(rows)))
    by_key = merge_keys(torch.from_numpy(weights), torch.from_numpy(words_M))
    both = merge_queries(by_key, torch.from_numpy(words_L)).numpy()
    for q in range(words_L.max() + 1):
        for k in range(words_M.max() + 1):
            expected = weights[:, words_L == q][:, :, words_M == k].sum(2).mean(1)
            np.testing.assert_allclose(both[:, q, k], expected, atol=1e-9)
    np.testing.assert_allclose(both.sum(-1), 1, atol=1e-9)


def test_words_of_a_real_text() -> None:
    found = attention_weights(subject("RobertaForMaskedLM"), Choice(words=True))
    words = ("the", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "TOO", "tired", ".")
    assert found.alignment.keys == ("<s>", *words, "</s>")
    np.testing.assert_allclose(found.alignment.weights.sum(-1), 1, atol=1e-5)
    bare = attention_weights(subject("RobertaForMaskedLM"), Choice(words=True, specials="hide"))
    assert bare.alignment.queries == bare.alignment.keys == words
    np.testing.assert_array_equal(bare.alignment.weights, found.alignment.weights[:, :, 1:-1, 1:-1])


@pytest.mark.parametrize("name", NAMES)
def test_marks_are_left_out_and_the_rest_is_as_it_was_or_sums_to_one(name: str) -> None:
    whole, hidden, shares = (
        attention_weights(subject(name), Choice(specials=how)).alignment for how in ("keep", "hide", "renormalise")
    )
    first = next(iter(subject(name).record()))
    queries, keys = subject(name).around("decoder.0.cross" if name == "translator" else first)
    queries = subject(name).outputs or queries if name == "translator" else queries
    kept = np.ix_(range(len(whole.layers)), range(whole.heads), ~np.array(queries.special), ~np.array(keys.special))
    np.testing.assert_array_equal(hidden.weights, whole.weights[kept])
    np.testing.assert_allclose(shares.weights, hidden.weights / hidden.weights.sum(-1, keepdims=True), atol=1e-6)
    assert "Special tokens are left out" in shares.note
    assert not whole.note


@pytest.mark.parametrize("name", NAMES)
def test_lengths_are_of_what_the_model_adds_up(name: str) -> None:
    """The vectors weighed and summed over keys and heads, with the bias, are the attention's own output."""
    found, seen = subject(name), subject(name).record()
    first = next(iter(seen))
    attention, one = attentions(found.model)[first], seen[first]
    kept: list[torch.Tensor] = []
    hook = attention.register_forward_hook(lambda module, given, out: kept.append(out))
    with torch.no_grad():
        found.forward(1)
    hook.remove()
    out_HKD = attention.out.weight.detach().T.unflatten(0, (attention.heads, -1))
    brought_HLMD = one.weights()[0][..., None] * (one.v_BHMK[0] @ out_HKD)[:, None]
    torch.testing.assert_close(brought_HLMD.sum((0, 2)) + attention.out.bias, kept[0][0], atol=1e-4, rtol=1e-4)
    part = "decoder" if first.startswith("decoder") else "encoder"
    shown = attention_weights(found, Choice(part=part, layer=0, values=True)).alignment.weights[0]
    np.testing.assert_allclose(shown, brought_HLMD.norm(dim=-1).numpy(), atol=1e-4)
    torch.testing.assert_close(value_norms(attention, one), (one.v_BHMK[0] @ out_HKD).norm(dim=-1), atol=1e-4, rtol=1e-4)


def test_every_hypothesis_has_its_own_weights() -> None:
    first, second = (
        attention_weights(subject_of(answers("translator"), text_of("translator"), hypothesis=n), Choice()) for n in (0, 1)
    )
    assert first.alignment.queries != second.alignment.queries
    translator: Any = answers("translator")
    _, drawn = translator.attention(text_of("translator"))
    assert first.alignment.queries == drawn.queries
    np.testing.assert_allclose(first.alignment.weights, drawn.weights, atol=1e-6)


def test_what_is_not_there_is_told() -> None:
    for choice, told in [
        ({"part": "crosss"}, "did you mean 'cross'"),
        ({"specials": "drop"}, "--specials drop is not known"),
        ({"part": "cross"}, "this model has none; it has decoder"),
        ({"layer": 2}, "--layer 2 is not there; the decoder has layers 0 to 1"),
        ({"layer": -1}, "--layer -1 is not there"),
        ({"head": 2}, "--head 2 is not there; heads go from 0 to 1"),
    ]:
        with pytest.raises(UserError, match=told):
            attention_weights(subject("writer"), Choice(**choice))  # type: ignore[arg-type]


def test_too_much_for_a_picture_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged, "MOST", 100)
    with pytest.raises(UserError, match="choose --layer N and --head N"):
        attention_weights(subject("writer"), Choice())
    assert attention_weights(subject("writer"), Choice(layer=0, head=0)).alignment.weights.size == 36


def test_it_prints_and_draws() -> None:
    found = attention_weights(subject("translator"), Choice(words=True, values=True, specials="hide"))
    assert found.lines()[2].startswith("A number is the length of what a key brings")
    assert len(found.figure().axes[0].images) > 1
    assert "<img" in found._repr_html_()


def grouped(kv_heads: int) -> Subject:
    """A GPT whose four heads share keys and values in groups."""
    few = {"width": 16, "heads": 4, "layers": 2, "feedforward": 16, "maximum_length": 8, "dropout": 0.0}
    model = GPT(GPTConfig(**few, kv_heads=kv_heads), 20, seed=1).eval()  # type: ignore[arg-type]
    row = side("a", "b", "c")
    ids = torch.tensor([4, 5, 6])
    return Subject(model, "a b c", {"decoder": row}, lambda copies: model(ids.expand(copies, -1)), ids, row, str, None)


def test_heads_that_share_keys_are_named_in_groups(tmp_path: Path) -> None:
    found = attention_weights(grouped(2), Choice())
    assert found.as_dict()["kv_heads"] == (2, 2)
    assert found.alignment.kv_heads == 2
    save(found, tmp_path / "all.svg")
    drawing = (tmp_path / "all.svg").read_text()
    assert [drawing.count(f">keys {group}<") for group in range(3)] == [1, 1, 0]
    one = attention_weights(grouped(2), Choice(layer=1, head=2))
    assert one.alignment.layers == ("decoder.1.self head 2, keys 1",)
    assert one.alignment.kv_heads == 0
    pages = (attention_page(grouped(1)), found.page())
    assert [page.count(b'"kv_heads": 1') + page.count(b'"kv_heads": 2') for page in pages] == [2, 2]


def test_heads_with_keys_of_their_own_are_not(tmp_path: Path) -> None:
    found = attention_weights(grouped(0), Choice())
    assert found.as_dict()["kv_heads"] == (4, 4)
    assert found.alignment.kv_heads == 0
    save(found, tmp_path / "all.svg")
    assert ">keys " not in (tmp_path / "all.svg").read_text()
    assert attention_weights(grouped(0), Choice(layer=1, head=2)).alignment.layers == ("decoder.1.self head 2",)

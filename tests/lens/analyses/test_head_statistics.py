"""Numbers of heads against plain sums over whole matrices of weights, and a long text that never has one in memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.commands.subjects import subject_of
from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.lens.analyses import head_statistics as heads
from regard.lens.analyses.head_statistics import MEASURES, head_statistics
from regard.lens.analyses.roles import tally_roles
from regard.lens.analyses.weights import Choice, attention_weights
from regard.lens.subject import Subject
from regard.model.mixers import NAMES
from regard.tasks.registry import open_run
from tests.families.public_folder import shaken as shake
from tests.lens.some_subjects import RUNS, folder_of, side, subject, text_of


def by_hand(weights_HLM: np.ndarray, special: np.ndarray, visible: np.ndarray, cross: bool) -> dict[str, np.ndarray]:
    """The definitions, on whole matrices."""
    heads, length, memory = weights_HLM.shape
    far = np.abs(np.arange(length)[:, None] - np.arange(memory)[None])
    logs = np.log(np.where(weights_HLM > 0, weights_HLM, 1))
    entropy = -(weights_HLM * logs).sum(-1)
    none = np.full(heads, np.nan)
    return {
        "entropy": entropy.mean(1),
        "evenness": (entropy / np.log(np.maximum(visible, 2))).mean(1),
        "distance": none if cross else (weights_HLM * far).sum(-1).mean(1),
        "specials": weights_HLM[..., special].sum(-1).mean(1),
        "itself": none if cross else np.stack([np.diag(each).mean() for each in weights_HLM]),
        "first": weights_HLM[..., 0].mean(1),
        "largest": weights_HLM.max(-1).mean(1),
    }


@pytest.mark.parametrize("name", ["translator", "writer", "pairs", "BertForMaskedLM", "RobertaModel"])
@pytest.mark.parametrize("numbers", [2**20, 40, 1])
def test_streamed_numbers_are_those_of_whole_matrices(name: str, numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "NUMBERS", numbers)
    found, seen = head_statistics(subject(name)), subject(name).record()
    for attention in seen:
        queries, keys = subject(name).around(attention)
        cross, causal = attention.endswith("cross"), attention.startswith("decoder") and attention.endswith("self")
        visible = np.arange(len(queries)) + 1 if causal else np.full(len(queries), len(keys))
        expected = by_hand(seen[attention].weights()[0].numpy(), np.array(keys.special, bool), visible, cross)
        for measure in MEASURES:
            np.testing.assert_allclose(found.field(measure)[attention], expected[measure], atol=1e-5, err_msg=measure)


def uniform() -> Subject:
    """A BERT whose queries are all zero: every key has the same weight."""
    model = BERT(BERTConfig(width=8, heads=2, layers=1, feedforward=8, maximum_length=8, dropout=0.0), 10).eval()
    torch.nn.init.zeros_(model.encoder.blocks[0].self_attention.project.weight)
    tokens = side("[CLS]", "a", "b", "c", special=(0,))
    ids_L = torch.arange(4)
    return Subject(
        model,
        "a b c",
        {"encoder": tokens},
        lambda copies: model(ids_L.expand(copies, -1), torch.full((copies,), 4)),
        ids_L,
        tokens,
        str,
        None,
    )


def test_a_head_that_looks_everywhere_alike() -> None:
    (one, other) = head_statistics(uniform()).heads
    assert one == dataclasses.replace(other, head=0)
    assert one.evenness == pytest.approx(1)
    assert one.entropy == pytest.approx(np.log(4))
    assert (one.specials, one.first, one.itself, one.largest) == pytest.approx((0.25,) * 4)
    assert one.distance == pytest.approx(np.mean([1.5, 1.0, 1.0, 1.5]))


class Largest(TorchDispatchMode):
    """The most numbers that any one tensor had."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, tuple | list) else (found,):
            if isinstance(each, torch.Tensor):
                self.most = max(self.most, each.untyped_storage().nbytes() // 4)
        return found


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_a_long_text_costs_no_matrix_of_weights(family: str) -> None:
    length, few = 4096, {"width": 16, "heads": 4, "layers": 2, "feedforward": 16, "maximum_length": 4096, "dropout": 0.0}
    ids_L = torch.randint(10, (length,), generator=torch.Generator().manual_seed(0))
    if family == "gpt":
        gpt = GPT(GPTConfig(**few), 10).eval()  # type: ignore[arg-type]
        stack, model, forward = "decoder", gpt, lambda copies: gpt.hidden(ids_L.expand(copies, -1))
    else:
        bert = BERT(BERTConfig(**few), 10).eval()  # type: ignore[arg-type]
        lengths = torch.tensor([length])
        stack, model, forward = "encoder", bert, lambda copies: bert.hidden(ids_L.expand(copies, -1), lengths)  # type: ignore[assignment]
    tokens = side(*map(str, range(length)))
    found = Subject(model, "long", {stack: tokens}, forward, ids_L, tokens, str, None, forward)
    with Largest() as largest:
        statistics = head_statistics(found)
    assert len(statistics.heads) == 8
    assert largest.most <= 2 * heads.NUMBERS  # where all weights of one layer are 64 times as many
    assert 4 * length * length > 30 * largest.most


@pytest.mark.parametrize("family", [GPT, BERT])
@pytest.mark.parametrize(
    "settings",
    [
        *({"mixer": mixer} for mixer in NAMES),
        *({"visibility": pattern} for pattern in ("window(2)", "strided(3)", "bigbird")),
        {"pruned": "self:0"},
    ],
    ids=str,
)
def test_every_mixer_and_pattern_can_be_looked_at(family: type, settings: dict[str, Any]) -> None:
    """Also where layers have different numbers of heads, as pruning leaves them."""
    stack = "decoder" if family is GPT else "encoder"
    if "pruned" in settings:
        settings = {"pruned": (f"{stack}.1.{settings['pruned']}",)}
    few = {"width": 16, "heads": 2, "layers": 2, "feedforward": 16, "maximum_length": 32, "dropout": 0.0}
    model = shaken((GPTConfig if family is GPT else BERTConfig)(**few, **settings), family)
    ids_L = torch.arange(20) % 11
    words = () if family is GPT else (torch.tensor([20]),)
    tokens = side(*map(str, range(20)), words=tuple(n // 2 for n in range(20)))
    found = Subject(model, "x", {stack: tokens}, lambda n: model.hidden(ids_L[None], *words), ids_L, None, str, None)
    numbers = head_statistics(found)
    assert [len(row) for row in numbers.field("entropy").values()] == ([2, 1] if "pruned" in settings else [2, 2])
    assert all(0 <= head.evenness <= 1 + 1e-5 and 0 < head.largest <= 1 + 1e-5 for head in numbers.heads)
    drawn = attention_weights(found, Choice(words=True, values=True)).alignment
    assert drawn.weights.shape == (2, 1 if "pruned" in settings else 2, 10, 10)
    assert set(tally_roles([found])["broad"]) == {(head.attention, head.head) for head in numbers.heads}


def shaken(config: Any, family: type) -> Any:
    return shake(family(config, 30), 0.2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["translator", "writer", "filler", "answerer", "BertModel"])
def test_on_a_gpu_the_numbers_are_those_of_the_cpu(name: str) -> None:
    run = RUNS[name][0]() if name in RUNS else folder_of(name)
    there = subject_of(open_run(run, "cuda"), text_of(name))
    if name == "translator":
        assert there.title == subject(name).title
    with torch.no_grad():
        torch.testing.assert_close(there.nll(2).cpu(), subject(name).nll(2), atol=1e-3, rtol=1e-3)
    for measure in MEASURES:
        for attention, numbers in head_statistics(subject(name)).field(measure).items():
            np.testing.assert_allclose(head_statistics(there).field(measure)[attention], numbers, atol=1e-3)
    weights = [
        attention_weights(each, Choice(words=True, values=True, specials="hide")).alignment.weights
        for each in (there, subject(name))
    ]
    np.testing.assert_allclose(*weights, atol=1e-3)
    ours, theirs = (tally_roles([each])["broad"] for each in (subject(name), there))
    assert {head: tally.score for head, tally in theirs.items()} == pytest.approx({h: t.score for h, t in ours.items()}, abs=1e-3)


def test_lines_and_json_have_every_head() -> None:
    found = head_statistics(subject("translator"))
    lines = found.lines()
    assert lines[0].startswith("the cat sees the dog . → ")
    assert len(lines) == 4 + len(found.heads)
    assert lines[3].split() == ["attention", "head", *MEASURES]
    assert [head["attention"] for head in found.as_dict()["heads"]] == [head.attention for head in found.heads]
    assert found._repr_html_().startswith("<figure><img alt=")

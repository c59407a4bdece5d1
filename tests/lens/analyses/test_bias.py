"""The bias that is shown is the one that attention adds, read back pair by pair from the tensor that it added."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.t5 import T5Config
from regard.families.transformer import Transformer, TransformerConfig
from regard.lens.analyses.bias import AttentionBias, BiasByDistance, biases_of
from regard.lens.result import SUFFIXES, save
from regard.model.probe import probe
from regard.model.visibility import full
from tests.command import regard, tiny

LENGTH, SOURCE = 9, 12
SMALL = {"width": 16, "heads": 4, "layers": 2, "feedforward": 16, "dropout": 0.0}


def shown(found: AttentionBias, name: str) -> BiasByDistance:
    """The bias of an attention such as decoder.1.self, or of its stack where layers share one."""
    (one,) = (bias for bias in found.biases if bias.attention in (name, f"{name.partition('.')[0]}, all layers"))
    return one


def by_pair(one: BiasByDistance, length: int) -> torch.Tensor:
    """bias_HLM of every pair of positions that has a distance there, 0 elsewhere."""
    at = {distance: n for n, distance in enumerate(one.distances)}
    bias_HR = torch.tensor(one.by_head)
    found = torch.zeros(len(bias_HR), length, length)
    for i, j in product(range(length), repeat=2):
        if j - i in at:
            found[:, i, j] = bias_HR[:, at[j - i]]
    return found


@pytest.mark.parametrize("settings", [{}, {"position": "alibi"}, {"layers": 1}])
def test_it_is_what_attention_adds(settings: dict[str, object]) -> None:
    model = Transformer(T5Config(**SMALL | settings), 30, 30, seed=1).eval()
    found = biases_of(model, "run")
    ids = torch.Generator().manual_seed(0)
    source, target = (torch.randint(4, 30, (1, length), generator=ids) for length in (SOURCE, LENGTH))
    with probe(model) as seen, torch.no_grad():
        model(source, torch.tensor([SOURCE]), target)
    names = [name for name in seen if name.endswith(".self")]
    assert len(names) == 2 * model.config.layers
    for name in names:
        added = seen[name].bias
        assert added is not None
        one, length = shown(found, name), added.shape[2]
        bias_HLM = added.dense()[0]
        sees = torch.ones(length, length, dtype=torch.bool)
        sees = sees.tril() if name.startswith("decoder") else sees
        assert bias_HLM[:, sees].abs().max() > 0.1
        torch.testing.assert_close(by_pair(one, length)[:, sees], bias_HLM[:, sees], rtol=0, atol=1e-6)
        assert min(one.distances) == -128
        assert max(one.distances) == (0 if name.startswith("decoder") else 128)


def test_the_farthest_distance_is_as_all_beyond_it() -> None:
    model = Transformer(T5Config(**SMALL | {"buckets": 8, "farthest": 5}), 30, 30, seed=1).eval()
    one, written = biases_of(model, "run").biases
    assert (one.distances, written.distances) == (tuple(range(-5, 6)), tuple(range(-5, 1)))
    placed = model.encoder.position.over(full.over(LENGTH, LENGTH, device=torch.device("cpu")))
    bias_HLM = placed.bias(torch.zeros(1, 4, LENGTH, 4), torch.zeros(1, 4, LENGTH, 4)).dense()[0]
    for distance, bias_H in zip(one.distances, torch.tensor(one.by_head).T):
        torch.testing.assert_close(bias_HLM.diagonal(distance, 1, 2), bias_H[:, None].expand(4, LENGTH - abs(distance)))
    torch.testing.assert_close(bias_HLM[:, 0, -1], torch.tensor(one.by_head)[:, -1])


@pytest.mark.parametrize("make", [lambda c: GPT(GPTConfig(**c), 30, seed=2), lambda c: BERT(BERTConfig(**c), 30, seed=2)])
def test_of_transformer_xl_it_is_the_part_that_reads_nothing(make: object) -> None:
    """What remains of the bias where queries and keys are zero; each layer has its own."""
    model = make(SMALL | {"position": "transformer-xl"}).eval()  # type: ignore[operator]
    (position,) = {id(m): m for m in model.modules() if type(m).__name__ == "TransformerXL"}.values()
    for layer in position.layers:
        torch.nn.init.normal_(layer.position_HK, generator=torch.Generator().manual_seed(3))
        torch.nn.init.normal_(layer.content_HK, generator=torch.Generator().manual_seed(4))
    found = biases_of(model, "run")
    assert len(found.biases) == 2
    placed = position.over(full.over(LENGTH, LENGTH, device=torch.device("cpu")))
    nothing = torch.zeros(1, 4, LENGTH, 4)
    for n, one in enumerate(found.biases):
        bias_HLM = placed.layer(n).bias(nothing, nothing).dense()[0]
        sees = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
        sees = sees.tril() if one.attention.startswith("decoder") else sees
        assert one.attention.endswith(f".{n}.self")
        assert bias_HLM[:, sees].abs().max() > 0.05
        torch.testing.assert_close(by_pair(one, LENGTH)[:, sees], bias_HLM[:, sees], rtol=0, atol=1e-5)


def test_alibi_is_the_paper_s() -> None:
    """Slopes 1/4, 1/16, 1/64, 1/256 of four heads."""
    one = biases_of(GPT(GPTConfig(**SMALL | {"position": "alibi"}), 30), "run").biases[0]
    expected = np.outer([1 / 4, 1 / 16, 1 / 64, 1 / 256], one.distances)
    np.testing.assert_allclose(np.array(one.by_head), expected, rtol=1e-6)


@pytest.mark.parametrize("position", ["rotary", "learned", "sinusoidal", "none"])
def test_a_model_without_one_is_refused(position: str) -> None:
    with pytest.raises(UserError, match="adds no bias by distance to its scores, so there is nothing to show"):
        biases_of(GPT(GPTConfig(**SMALL | {"position": position}), 30), "run")


def test_every_kind_of_file(tmp_path: Path) -> None:
    found = biases_of(Transformer(TransformerConfig(**SMALL | {"heads": 16, "position": "relative"}), 30, 30), "a run")
    for suffix in SUFFIXES:
        save(found, tmp_path / f"bias{suffix}")
    told = json.loads((tmp_path / "bias.json").read_text())
    assert told["format"] == "regard.bias.1"
    assert [bias["attention"] for bias in told["biases"]] == ["encoder, all layers", "decoder, all layers"]
    assert np.array(told["biases"][1]["by_head"]).shape == (16, len(told["biases"][1]["distances"]))
    drawing = (tmp_path / "bias.svg").read_text()
    assert all(word in drawing for word in ("encoder, all layers", "head 15", "distance: key - query"))
    assert (tmp_path / "bias.png").read_bytes().startswith(b"\x89PNG")
    assert "what position adds to scores" in (tmp_path / "bias.html").read_text()


def test_the_command_shows_it(tmp_path: Path) -> None:
    assert regard("train", tiny(), "--out", tmp_path / "run", "model.position=alibi", "train.steps=2", "train.warmup=1").code == 0
    result = regard("lens", tmp_path / "run", "--show", "bias", "--out", tmp_path / "bias.svg")
    assert result.code == 0, result.err
    assert "encoder.0.self" in result.out
    assert f"drawn: {tmp_path / 'bias.svg'}" in result.out

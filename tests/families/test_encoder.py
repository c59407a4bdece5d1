"""The plain encoder: torch's own layers with the same weights, packed as padded, and two texts that do not meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.labelled import LabelledTexts, SpecialTokens, make_batch
from regard.data.batching.pairs import Ragged
from regard.families.base import Heads
from regard.families.classifier import Classifier, classifier, count
from regard.families.encoder import Encoder, EncoderConfig
from regard.families.encoder import count as count_body
from regard.objectives.classification import ClassificationConfig, ClassificationLoss
from tests.decode.tape import TapeRecorder

SMALL = dict(width=24, heads=3, layers=2, feedforward=40, dropout=0.0, maximum_length=40)
VOCABULARY = 17


def theirs(model: Encoder) -> nn.TransformerEncoder:
    """torch.nn.TransformerEncoder with our weights; our queries, keys and values share a matrix as theirs do."""
    c = model.config
    layer = nn.TransformerEncoderLayer(c.width, c.heads, c.feedforward, 0.0, "gelu", batch_first=True, norm_first=True)
    made = nn.TransformerEncoder(layer, c.layers, nn.LayerNorm(c.width), enable_nested_tensor=False)
    for block, other in zip(model.encoder.blocks, made.layers):
        other.self_attn.load_state_dict(
            {
                "in_proj_weight": block.self_attention.project.weight,
                "in_proj_bias": block.self_attention.project.bias,
                "out_proj.weight": block.self_attention.out.weight,
                "out_proj.bias": block.self_attention.out.bias,
            }
        )
        other.linear1.load_state_dict(block.feedforward.expand.state_dict())
        other.linear2.load_state_dict(block.feedforward.contract.state_dict())
        other.norm1.load_state_dict(block["self"].norm.state_dict())
        other.norm2.load_state_dict(block["ffn"].norm.state_dict())
    return made


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_it_is_torchs_encoder(position: str) -> None:
    model = Encoder(EncoderConfig(**SMALL, position=position), VOCABULARY, seed=1).eval()  # type: ignore[arg-type]
    ids, lengths = torch.randint(4, VOCABULARY, (3, 9)), torch.tensor([9, 4, 1])
    padding = torch.arange(9) >= lengths[:, None]
    with torch.no_grad():
        expected = theirs(model).eval()(model.embed(ids), src_key_padding_mask=padding)
        found = model.hidden(ids, lengths)
    for n, length in enumerate(lengths):
        torch.testing.assert_close(found[n, :length], expected[n, :length], atol=1e-5, rtol=1e-4)


def test_pixels_are_told_where_they_are_in_the_image() -> None:
    model = Encoder(EncoderConfig(**SMALL, columns=4), VOCABULARY, seed=1).eval()  # type: ignore[arg-type]
    flat = Encoder(EncoderConfig(**SMALL), VOCABULARY, seed=1).eval()  # type: ignore[arg-type]
    ids = torch.full((1, 13), 5)  # a mark and three rows
    where = (model.embed(ids) - model.embed.tokens(ids) * model.embed.scale)[0, 1:].unflatten(0, (3, 4))
    assert torch.allclose(where[0, :, :12], where[0, :1, :12])  # one row
    assert torch.allclose(where[:, 1, 12:], where[:1, 1, 12:], atol=1e-6)  # one column
    assert not torch.allclose(model.hidden(ids, torch.tensor([13])), flat.hidden(ids, torch.tensor([13])), atol=1e-2)


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (dict(columns=-1), "model.columns=-1 must be those of an image"),
        (dict(columns=4, position="learned"), "model.columns=4 is for model.position=sinusoidal; with learned set it to 0"),
        (dict(columns=4, position="none"), "with none set it to 0"),
        (dict(columns=4, width=18), "model.width=18 does not divide by 4, .* take 20"),
    ],
)
def test_columns_that_cannot_be_are_refused(choice: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        EncoderConfig(**(SMALL | choice))  # type: ignore[arg-type]


def test_words_are_drawn_with_unit_variance_after_scaling() -> None:
    model = Encoder(EncoderConfig(width=256, heads=4, layers=1, feedforward=16), 400)
    assert float((model.embed.tokens.weight.detach() * model.embed.scale).std()) == pytest.approx(1, abs=0.02)


def pairs(count_: int, seed: int = 0) -> LabelledTexts:
    random = np.random.default_rng(seed)
    texts = [[random.integers(4, VOCABULARY, random.integers(1, 9)).tolist() for _ in range(2)] for _ in range(count_)]
    laid = [SpecialTokens(1, 2, 2, apart=True).around(both, 50) for both in texts]
    return LabelledTexts(
        Ragged([ids for ids, _ in laid]), np.array([at for _, at in laid]), np.zeros(count_, np.int64), apart=True
    )


def towers(**choices: str) -> Classifier:
    return classifier(EncoderConfig(**SMALL, pairs="apart", **choices), VOCABULARY, 3, seed=2).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_two_texts_are_read_apart(pooling: str) -> None:
    """Each tower sees its text alone: its vectors are those of the text in a batch of its own."""
    model, data = towers(pooling=pooling), pairs(4)
    batch = make_batch(data, np.arange(4))
    assert len(batch.ids_BL) == 8
    assert batch.segments_BL.sum() == 0
    with torch.no_grad():
        logits = model(batch.ids_BL, batch.words, batch.segments_BL)
        vectors = [model.hidden(batch.ids_BL[n : n + 1, :length], torch.tensor([length])) for n, length in enumerate(batch.words)]  # type: ignore[arg-type]
        pooled = torch.cat([v[:, 0] if pooling == "first" else v.mean(1) for v in vectors])
        one, other = pooled[::2], pooled[1::2]
        told = torch.cat([one, other, one * other, one - other], -1)
        expected = model.classes(F.gelu(model.body.pooler.project(told)))  # type: ignore[operator, union-attr]
    assert logits.shape == (4, 3)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_packed_pairs_have_the_logits_of_padded_ones(pooling: str) -> None:
    model, data, rows = towers(pooling=pooling), pairs(5), np.array([4, 0, 2])
    with torch.no_grad():
        padded, packed = (make_batch(data, rows, packed=how) for how in (False, True))
        expected, found = (model(batch.ids_BL, batch.words, batch.segments_BL) for batch in (padded, packed))
    assert len(found) == len(packed.labels_N)
    assert packed.labels_N.tolist()[:3] == [0, 0, 0]
    assert set(packed.labels_N.tolist()[3:]) <= {-100}
    torch.testing.assert_close(found[:3], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
@pytest.mark.parametrize("pairs_", ["joined", "apart"])
def test_counted_parameters_are_the_models(position: str, pairs_: str) -> None:
    config = EncoderConfig(**SMALL, position=position, pairs=pairs_)  # type: ignore[arg-type]
    built = classifier(config, VOCABULARY, 5)
    assert count(config, VOCABULARY, 10, 5).parameters == sum(p.numel() for p in built.parameters())
    alone = Encoder(config, VOCABULARY)
    assert count_body(config, VOCABULARY, 10).parameters == sum(p.numel() for p in alone.parameters())
    both = Encoder(config, VOCABULARY, heads=Heads(pooler=True))
    assert (
        not {name for name, _ in both.named_parameters()}
        - {n for n, _ in alone.named_parameters()}
        - {
            "pooler.project.weight",
            "pooler.project.bias",
        }
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("choice", [dict(), dict(columns=4, pooled_norm="batch")])
def test_a_step_asks_the_host_for_nothing(packed: bool, pooling: str, choice: dict[str, Any]) -> None:
    """Only so can a GPU record it (see tests/objectives/test_recordable.py)."""
    model, batch = towers(pooling=pooling, **choice).train(), make_batch(pairs(4), np.arange(4), packed)
    objective = ClassificationLoss(ClassificationConfig())
    TapeRecorder().record(lambda: objective(model, batch).total.backward())

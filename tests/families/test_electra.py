"""ELECTRA: its networks are those of transformers, share what they should, and are counted as they are built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.base import Heads
from regard.families.electra import ELECTRA, REPLACED, ELECTRAConfig, count
from regard.interop.huggingface import read_public
from tests.families.public_folder import VOCABULARY, shaken

SMALL: dict[str, Any] = dict(width=24, heads=3, layers=2, feedforward=48, maximum_length=13, dropout=0.0, generator_width=8)
LENGTHS = [13, 5, 1]


def electra(**choices: Any) -> ELECTRA:
    return shaken(ELECTRA(ELECTRAConfig(**{**SMALL, **choices}), VOCABULARY), 0.3)


def ids() -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("choices", [{}, {"embedding_width": 10}, {"embedding_width": 8}, {"tie_embeddings": False}])
def test_both_networks_are_those_of_transformers(tmp_path: Path, choices: dict[str, Any]) -> None:
    from tests.families.bert_folder import assert_same, export, transformers

    model = electra(**choices)
    judge = transformers.ElectraForPreTraining.from_pretrained(export(tmp_path / "judge", model.discriminator)).eval()
    assert_same(model.discriminator, REPLACED, judge, VOCABULARY)
    words = (ids(), torch.tensor(LENGTHS))
    mask = torch.arange(max(LENGTHS)) < words[1][:, None]
    expected = judge(words[0], attention_mask=mask.long()).logits
    torch.testing.assert_close(model(*words)[mask], expected[mask], atol=1e-4, rtol=0)
    folder = export(tmp_path / "writer", model.generator, model_type="electra")
    writer = transformers.ElectraForMaskedLM.from_pretrained(folder).eval()
    assert_same(model.generator, Heads(), writer, VOCABULARY)
    assert read_public(folder).config == model.config.generator or model.config.words_width == model.config.generator_width


def test_tied_embeddings_are_one_and_learn_from_both() -> None:
    model = electra()
    own, shared = model.generator.embed, model.discriminator.embed
    assert own.tokens is shared.tokens
    assert own.positions is shared.positions
    assert own.segments is shared.segments
    assert own.norm is shared.norm
    assert model.generator.head.project.weight is shared.tokens.weight
    assert own.widen is not None
    assert shared.widen is None
    words = torch.tensor(LENGTHS)
    model.generator(ids(), words).square().sum().backward()
    first = shared.tokens.weight.grad.clone()
    model(ids(), words).square().sum().backward()
    assert first.abs().sum() > 0
    assert not torch.equal(first, shared.tokens.weight.grad)


def test_apart_they_share_nothing() -> None:
    model = electra(tie_embeddings=False)
    generator, discriminator = ({id(p) for p in part.parameters()} for part in (model.generator, model.discriminator))
    assert not generator & discriminator
    first, second = model.generator.embed.tokens.weight, model.discriminator.embed.tokens.weight
    assert not torch.allclose(first, second)


@settings(max_examples=25)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(0, 4), st.sampled_from([0, 5, 8]), st.booleans(), st.integers(0, 2))
def test_parameters_are_those_of_the_module(heads: int, layers: int, wide: int, words: int, tied: bool, segments: int) -> None:
    config = ELECTRAConfig(
        width=8 * heads,
        heads=heads,
        layers=layers,
        feedforward=20,
        maximum_length=9,
        generator_width=8 * wide or 3,
        embedding_width=words,
        tie_embeddings=tied,
        segments=segments,
    )
    built = ELECTRA(config, 17)
    assert count(config, 17, 4).parameters == sum(p.numel() for p in built.parameters())


def test_words_are_asked_only_where_they_are_masked() -> None:
    config = ELECTRAConfig(**SMALL)
    all_asked, few_asked = count(config, 1000, 12).flops, count(config, 1000, 12, scored=2).flops
    assert all_asked - few_asked == 10 * 2 * (24 * 1000 + 8 * 24)  # the head's two products


def test_packed_texts_get_the_answers_of_texts_in_rows() -> None:
    model = electra(embedding_width=10)
    flat = torch.cat([row[:length] for row, length in zip(ids(), LENGTHS)])[None]
    rows = model(ids(), torch.tensor(LENGTHS))
    expected = torch.cat([row[:length] for row, length in zip(rows, LENGTHS)])
    torch.testing.assert_close(model(flat, Packing.of(LENGTHS))[0], expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((256, 4, 64), (64, 1, 256)), ((768, 12, 256), (256, 4, 1024)), ((1024, 16, 256), (256, 4, 1024))],
)
def test_the_papers_generators(shape: tuple[int, int, int], expected: tuple[int, int, int]) -> None:
    """Clark et al. 2020, table 6: a quarter, a third and a quarter of the discriminator, with heads of 64."""
    width, heads, generator_width = shape
    config = ELECTRAConfig(width=width, heads=heads, feedforward=4 * width, generator_width=generator_width)
    assert (config.generator.width, config.generator.heads, config.generator.feedforward) == expected
    assert config.generator.words_width == config.discriminator.words_width == width


@pytest.mark.parametrize("width", [0, -8, 12, 25])
def test_a_generator_with_part_of_a_head(width: int) -> None:
    with pytest.raises(UserError, match=re.escape(f"model.generator_width={width} must be a multiple of 8")):
        ELECTRAConfig(**{**SMALL, "generator_width": width})

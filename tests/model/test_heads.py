"""Heads: tied words, poolers of padded and packed texts, scores of tokens.

One vector a text: means and first tokens against plain numpy, whatever stands in the padding, and packed as padded.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.core.packing import Packing, Pieces
from regard.model.embedding import VocabularyHead
from regard.model.heads import (
    POOLINGS,
    LinearHead,
    Pooler,
    ReplacedHead,
    VectorsConfig,
    before_words,
    first_tokens,
    mean_tokens,
    text_vectors,
)

LENGTHS = [4, 1, 3]
X = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1))
PACKED = torch.cat([X[n, :length] for n, length in enumerate(LENGTHS)])[None]


def test_a_tied_head_is_the_embedding():
    words = nn.Embedding(11, 8)
    head = VocabularyHead(8, 11, words)
    assert head.project.weight is words.weight
    torch.testing.assert_close(head(X), X @ words.weight.T)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_a_layer_before_the_words(activation: str):
    head = VocabularyHead(6, 11, bias=True, before=before_words(8, 6, activation, 1e-12))
    torch.testing.assert_close(head(X), head.project(head.ready(X)))
    assert head.ready(X).shape == (3, 4, 6)


def test_packed_texts_are_pooled_as_padded_ones():
    for pool in (first_tokens, mean_tokens):
        torch.testing.assert_close(pool(PACKED, Packing.of(LENGTHS)), pool(X, torch.tensor(LENGTHS)))
    torch.testing.assert_close(mean_tokens(X, torch.tensor(LENGTHS))[1], X[1, 0])


@pytest.mark.parametrize("kind", [*POOLINGS, "mean"])
def test_poolers(kind: str):
    pooler = Pooler(8, kind)
    found = pooler(X, torch.tensor(LENGTHS))
    expected = mean_tokens(X, torch.tensor(LENGTHS)) if kind == "mean" else POOLINGS[kind](pooler.project(X[:, 0]))
    torch.testing.assert_close(found, expected)


def test_scores_of_texts_and_tokens():
    assert LinearHead(8, 5)(X).shape == (3, 4, 5)
    assert ReplacedHead(8, "gelu")(X).shape == (3, 4)


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=6)
configs = st.builds(VectorsConfig, pooling=st.sampled_from(["mean", "cls"]), normalised=st.booleans())


@given(lengths, configs, st.integers(0, 99))
@settings(max_examples=60)
def test_every_text_has_its_own_vector_padded_or_packed(lengths: list[int], config: VectorsConfig, seed: int) -> None:
    draw = np.random.default_rng(seed)
    texts = [draw.normal(size=(length, 5)).astype(np.float32) for length in lengths]
    expected = np.stack([text.mean(0) if config.pooling == "mean" else text[0] for text in texts])
    if config.normalised:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    padded = np.full((len(texts), max(lengths) + 2, 5), np.nan, np.float32)  # nothing of this may be seen
    for row, text in zip(padded, texts):
        row[: len(text)] = text
    found = text_vectors(torch.from_numpy(padded), torch.tensor(lengths), config)
    packed = text_vectors(torch.from_numpy(np.concatenate(texts))[None], Packing.of(lengths), config)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(packed.numpy(), expected, atol=1e-5)


def test_filler_without_tokens_breaks_no_gradient() -> None:
    x_1LD = torch.ones(1, 5, 4, requires_grad=True)
    mean_tokens(x_1LD, Packing.of([3, 2, 0]))[:2].sum().backward()
    assert x_1LD.grad is not None
    assert torch.isfinite(x_1LD.grad).all()


def test_texts_in_pieces_have_none() -> None:
    with pytest.raises(TypeError, match="one a row, or packed"):
        mean_tokens(torch.ones(2, 4, 3), Pieces.of([2, 2, 4], 2))

"""Heads: tied words, poolers of padded and packed texts, scores of tokens."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.core.packing import Packing
from regard.model.heads import POOLINGS, LinearHead, Pooler, ReplacedHead, VocabularyHead, before_words, first_tokens, mean_tokens

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

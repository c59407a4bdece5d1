"""Every objective takes its loss and its gradient without asking the host for anything: only so can a GPU record a step.

The tape refuses what a capture refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import nn

from regard.data.batching.labelled import make_batch as labelled_batch
from regard.data.batching.pairs import EncodedPairs, PairBatches, Ragged
from regard.data.batching.qa import make_batch as span_batch
from regard.data.batching.tagged import make_batch as tagged_batch
from regard.families.transformer import Transformer, TransformerConfig
from regard.objectives.classification import ClassificationConfig, ClassificationLoss, RegressionLoss
from regard.objectives.masked_lm import MaskedLMConfig, MaskedLMLoss
from regard.objectives.replaced_token import ReplacedTokenConfig, ReplacedTokenLoss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.objectives.span import SpanConfig, SpanLoss
from regard.objectives.tagging import TaggingConfig, TaggingLoss
from tests.decode.tape import TapeRecorder
from tests.objectives import (
    masked_batches,
    test_classification,
    test_masked_lm,
    test_regression,
    test_replaced_token,
    test_span,
    test_tagging,
)


def translation(packed: bool) -> tuple[nn.Module, Any, Any]:
    pairs = EncodedPairs(Ragged([[4, 5, 6], [7, 8]]), Ragged([[5, 6], [9, 4, 7, 8]]))
    source = PairBatches(pairs, 64, 1, packed=packed)
    config = TransformerConfig(width=16, heads=2, layers=1, feedforward=32, dropout=0.0)
    return Transformer(config, 12, 12), Seq2SeqLoss(Seq2SeqConfig()), source.batch(source.plan(0)[0], 0)


def classification(packed: bool) -> tuple[nn.Module, Any, Any]:
    model = test_classification.model.__wrapped__()  # type: ignore[attr-defined]
    batch = labelled_batch(test_classification.DATA, test_classification.ROWS, packed)
    return model, ClassificationLoss(ClassificationConfig(smoothing=0.1, language=0.5)), batch


def regression(packed: bool) -> tuple[nn.Module, Any, Any]:
    model = test_regression.model.__wrapped__()  # type: ignore[attr-defined]
    return model, RegressionLoss(), labelled_batch(test_regression.DATA, test_regression.ROWS, packed)


def tagging(packed: bool) -> tuple[nn.Module, Any, Any]:
    model = test_tagging.model.__wrapped__()  # type: ignore[attr-defined]
    return model, TaggingLoss(TaggingConfig()), tagged_batch(test_tagging.DATA, test_tagging.ROWS, packed)


def masked(packed: bool) -> tuple[nn.Module, Any, Any]:
    data = masked_batches.source(pairs=True, packed=packed)
    return test_masked_lm.model(), MaskedLMLoss(MaskedLMConfig(next_sentence=True)), data.batch(masked_batches.rows(data), 0)


def replaced(packed: bool) -> tuple[nn.Module, Any, Any]:
    data = masked_batches.source(packed=packed)
    return test_replaced_token.model(), ReplacedTokenLoss(ReplacedTokenConfig()), data.batch(masked_batches.rows(data), 0)


def span(packed: bool) -> tuple[nn.Module, Any, Any]:
    windows = test_span.data()
    return test_span.model(), SpanLoss(SpanConfig()), span_batch(windows, np.arange(len(windows)), packed)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("made", [translation, classification, regression, tagging, masked, replaced, span])
def test_nothing_is_asked_of_the_host(made: Callable[[bool], tuple[nn.Module, Any, Any]], packed: bool) -> None:
    model, objective, batch = made(packed)
    model.train()

    def step() -> None:
        objective(model, batch).total.backward()

    TapeRecorder().record(step)

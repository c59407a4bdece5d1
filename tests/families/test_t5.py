"""T5: how its weights start, since scores and embeddings are not scaled; parity with transformers is in tests/interop."""

import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.t5 import T5Config

SMALL = dict(width=64, heads=4, head_width=16, feedforward=96, layers=2, dropout=0.0)


@pytest.mark.parametrize("parts", [{}, dict(tie="inputs", scaled_head=False)])
def test_logits_and_scores_start_near_unit_variance(parts):
    """Embeddings start with unit variance, queries divided by the root of the head width, as in the paper's code."""
    torch.manual_seed(0)
    model, ids = build_model(T5Config(**SMALL, **parts), vocabulary=200), torch.randint(4, 200, (8, 20))
    assert 0.9 < model.source.tokens.weight.std() < 1.1
    attention = model.encoder.blocks[0].self_attention
    queries, keys = attention.project.weight.detach()[:128].chunk(2)
    assert float(queries.std() / keys.std()) == pytest.approx(16**-0.5, rel=0.1)
    assert 0.3 < model(ids, torch.full((8,), 20), ids).std() < 3


def test_one_table_of_biases_for_each_stack():
    model = build_model(T5Config(**SMALL), vocabulary=30)
    tables = [name for name, _ in model.named_parameters() if "position" in name]
    assert tables == ["encoder.position.table.weight", "decoder.position.table.weight"]


def test_dropout_that_cannot_be_is_refused():
    with pytest.raises(UserError, match="stack_dropout"):
        T5Config(**SMALL, stack_dropout=1.0)

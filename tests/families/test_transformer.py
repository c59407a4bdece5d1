"""The Transformer: what the harness does not ask. Tied matrices, packed pairs, and settings."""

import pytest
import torch

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.transformer import Transformer, TransformerConfig

SMALL = dict(width=16, heads=2, layers=2, feedforward=24, dropout=0.0)


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("output", 2), ("none", 3)])
def test_matrices_of_words_are_shared_as_asked(tie, matrices):
    model = Transformer(TransformerConfig(**SMALL, tie=tie), 20, 20)
    words = (model.source.tokens.weight, model.target.tokens.weight, model.head.project.weight)
    assert len({id(weight) for weight in words}) == matrices


def test_packed_pairs_are_read_as_if_each_were_alone():
    model, draw = Transformer(TransformerConfig(**SMALL), 20, 20, seed=1).eval(), torch.Generator().manual_seed(0)
    sources = [torch.randint(20, (1, length), generator=draw) for length in (4, 6)]
    targets = [torch.randint(20, (1, length), generator=draw) for length in (5, 3)]
    packed = model(torch.cat(sources, 1), Packing.of([4, 6]), torch.cat(targets, 1), Packing.of([5, 3]))
    alone = [model(s, torch.tensor([s.shape[1]]), t) for s, t in zip(sources, targets)]
    torch.testing.assert_close(packed, torch.cat(alone, 1), atol=1e-5, rtol=1e-5)


def test_encoder_and_decoder_may_differ_in_depth():
    config = TransformerConfig(**SMALL, encoder_layers=3)
    model = Transformer(config, 20, 20)
    assert config.depth == (len(model.encoder.blocks), len(model.decoder.blocks)) == (3, 2)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (dict(encoder_layers=-1), "model.encoder_layers=-1"),
        (dict(join="concat"), "model.position_width between"),
        (dict(join="concat", position_width=4), "add model.tie=none"),
        (dict(position_width=4), "needs model.join=concat"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(UserError, match=says):
        TransformerConfig(**SMALL, **settings)

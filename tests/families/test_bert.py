"""BERT: what the harness does not ask. Segments, heads, packed texts, and settings."""

import pytest
import torch

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig

SMALL = dict(width=16, heads=2, layers=2, feedforward=24, maximum_length=12, dropout=0.0)


def test_only_the_heads_that_are_asked_for_are_there():
    model = BERT(BERTConfig(**SMALL), 20, heads=Heads(words=False, tags=3))
    assert {name for name, _ in model.named_children()} == {"embed", "encoder", "tags"}
    assert model.tags(model.hidden(torch.ones(1, 4).long(), torch.tensor([4]))).shape == (1, 4, 3)


def test_segments_change_what_is_read():
    model, ids, lengths = BERT(BERTConfig(**SMALL), 20, seed=1).eval(), torch.arange(6)[None], torch.tensor([6])
    first, second = (torch.full((1, 6), segment) for segment in (0, 1))
    assert torch.equal(model(ids, lengths), model(ids, lengths, first))
    assert not torch.allclose(model(ids, lengths), model(ids, lengths, second))


def test_packed_texts_are_read_as_if_each_were_alone():
    model, draw = BERT(BERTConfig(**SMALL), 20, seed=1).eval(), torch.Generator().manual_seed(0)
    texts = [torch.randint(20, (1, length), generator=draw) for length in (4, 7)]
    packed = model(torch.cat(texts, 1), Packing.of([4, 7]))
    alone = [model(ids, torch.tensor([ids.shape[1]])) for ids in texts]
    torch.testing.assert_close(packed, torch.cat(alone, 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (dict(segments=-1), "model.segments=-1"),
        (dict(deviation=0.0), "model.deviation=0.0"),
        (dict(first_position=2, position="sinusoidal"), "model.first_position=2 is for model.position=learned"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(UserError, match=says):
        BERTConfig(**SMALL, **settings)

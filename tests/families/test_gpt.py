"""GPT: what the harness does not ask. Packed documents, dropout of words, and settings."""

import pytest
import torch

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.gpt import GPT, GPTConfig

SMALL = dict(width=16, heads=2, layers=2, feedforward=24, maximum_length=12, dropout=0.0)


def test_packed_documents_are_read_as_if_each_were_alone():
    model, draw = GPT(GPTConfig(**SMALL), 20, seed=1).eval(), torch.Generator().manual_seed(0)
    first, second = (torch.randint(20, (1, length), generator=draw) for length in (4, 7))
    packed = model(torch.cat([first, second], 1), Packing.of([4, 7]))
    torch.testing.assert_close(packed[:, :4], model(first), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(packed[:, 4:], model(second), atol=1e-5, rtol=1e-5)


def test_the_output_matrix_is_the_embedding():
    model = GPT(GPTConfig(**SMALL), 20)
    assert model.head.project.weight is model.embed.tokens.weight


def test_words_are_dropped_in_training_only():
    model, ids = GPT(GPTConfig(**SMALL, word_dropout=0.5), 20, seed=1), torch.arange(10)[None]
    torch.manual_seed(0)
    assert not torch.equal(model.train()(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))


@pytest.mark.parametrize("key", ["word_dropout", "output_dropout"])
def test_a_dropout_that_cannot_be_is_refused(key):
    with pytest.raises(UserError, match=f"model.{key}=1"):
        GPTConfig(**{key: 1.0})


def test_it_writes_and_so_has_decoder_layers():
    config = GPTConfig(**SMALL)
    assert config.depth == (0, 2)
    assert config.context == 12
    assert config.attentions == ["decoder.0.self", "decoder.1.self"]

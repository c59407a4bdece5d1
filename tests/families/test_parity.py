"""GPT and BERT give what Hugging Face's models give with the same weights, and packed what single sequences give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.core.packing import Packing
from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from tests.families.counting import count

SMALL = dict(width=48, heads=3, layers=2, feedforward=96, dropout=0.0)
VOCABULARY = 101
LENGTHS = [17, 9, 1, 12]


def shaken(model: nn.Module) -> nn.Module:
    """Biases and norms start at 0 and 1, where a mistake would not show."""
    draw = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=draw)
    return model.eval()


@pytest.fixture
def gpt() -> GPT:
    return shaken(GPT(GPTConfig(**SMALL, maximum_length=32), VOCABULARY))


@pytest.fixture
def bert() -> BERT:
    return shaken(BERT(BERTConfig(**SMALL, maximum_length=32), VOCABULARY))


def ids(seed: int = 0) -> Tensor:
    return torch.randint(4, VOCABULARY, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(seed))


def packed(ids_BL: Tensor) -> tuple[Tensor, Packing]:
    return torch.cat([row[:length] for row, length in zip(ids_BL, LENGTHS)])[None], Packing.of(LENGTHS)


def real(values_BLX: Tensor) -> Tensor:
    return torch.cat([row[:length] for row, length in zip(values_BLX, LENGTHS)])


def test_gpt_is_hugging_faces(gpt):
    from benchmarks.peers.gpt2 import gpt2

    torch.testing.assert_close(gpt(ids()), gpt2(gpt).eval()(ids()).logits, atol=1e-5, rtol=1e-4)


def test_bert_is_hugging_faces(bert):
    from benchmarks.peers.bert import bert as peer

    seen = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    segments = (torch.arange(max(LENGTHS)) > 4).long().expand(len(LENGTHS), -1)
    expected = peer(bert).eval()(ids(), attention_mask=seen, token_type_ids=segments).logits
    found = bert(ids(), torch.tensor(LENGTHS), segments)
    torch.testing.assert_close(real(found), real(expected), atol=1e-5, rtol=1e-4)


def test_published_sizes():
    assert count(GPTConfig(), 50_257, 1024).parameters == 124_439_808
    assert count(BERTConfig(), 30_522, 512).parameters == 109_514_298  # with the head for masked words, without a pooler


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_counted_is_what_is_there(gpt, bert, family):
    model, counted = (gpt, count(gpt.config, VOCABULARY, 9)) if family == "gpt" else (bert, count(bert.config, VOCABULARY, 9))
    assert counted.parameters == sum(p.numel() for p in model.parameters())


def test_packed_texts_do_not_meet(gpt, bert):
    flat, packing = packed(ids())
    torch.testing.assert_close(gpt(flat, packing)[0], real(gpt(ids())), atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(bert(flat, packing)[0], real(bert(ids(), torch.tensor(LENGTHS))), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("visibility", ["full", "window(2)"])
def test_packed_pairs_do_not_meet(visibility):
    model = shaken(Transformer(TransformerConfig(**SMALL, visibility=visibility), VOCABULARY, VOCABULARY))
    source, target = ids(1), ids(2)
    flat_source, packing = packed(source)
    flat_target, _ = packed(target)
    expected = real(model(source, torch.tensor(LENGTHS), target))
    torch.testing.assert_close(model(flat_source, packing, flat_target, packing)[0], expected, atol=2e-5, rtol=1e-4)


def test_gradients_reach_every_parameter(gpt, bert):
    gpt.train()(ids()).square().sum().backward()
    bert.train()(ids(), torch.tensor(LENGTHS)).square().sum().backward()
    for model in (gpt, bert):
        unreached = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
        assert not unreached


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("visibility", ["full", "window(2)"])
def test_on_a_gpu_packed_sequences_take_the_kernel_for_them(visibility):
    """In half precision, forwards and backwards, against float32 with a dense mask on the CPU."""
    model = shaken(GPT(GPTConfig(**SMALL, maximum_length=32, visibility=visibility), VOCABULARY))
    flat, packing = packed(ids())
    expected = model.hidden(flat, packing)
    expected.sum().backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    model.cuda()
    from regard.core.packing import moved

    with torch.autocast("cuda", torch.bfloat16):
        found = model.hidden(flat.cuda(), moved(packing, torch.device("cuda")))
    assert found.dtype == torch.bfloat16
    found.float().sum().backward()
    torch.testing.assert_close(found.float().cpu(), expected, atol=0.1, rtol=0.1)
    for name, grad in grads.items():
        torch.testing.assert_close(
            model.get_parameter(name).grad.cpu(), grad, atol=0.1 * float(grad.abs().max()) + 1e-3, rtol=0.1
        )

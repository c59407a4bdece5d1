"""Every position scheme through every way of computing attention: cached, packed, by blocks, with a probe, in every family."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.packing import Packing
from regard.families.bert import BERT, BERTConfig
from regard.families.electra import ELECTRA, ELECTRAConfig
from regard.families.encoder import Encoder, EncoderConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.mixers.softmax import Softmax
from regard.model.position import SCHEMES as INSIDE
from regard.model.position import attention_position
from regard.model.probe import probe
from regard.model.visibility import causal, padding, window
from regard.model.visibility.parse import parse_visibility
from tests.model.position.schemes import SCHEMES, cached

SMALL = dict(width=24, heads=3, feedforward=40, layers=2, dropout=0.0)
CPU = torch.device("cpu")


def shaken(model: nn.Module) -> nn.Module:
    """Return the model with weights large enough that positions matter."""
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def gpt(position: str, **settings: object) -> GPT:
    return shaken(GPT(GPTConfig(**{**SMALL, "position": position, **settings}), 17))


@pytest.mark.parametrize("visibility", ["full", "window(3)"])
@pytest.mark.parametrize("position", SCHEMES)
def test_cached_decoding_is_the_full_forward(position: str, visibility: str) -> None:
    """After prompts of different lengths, with one lane and with several, in memory that grows and that stays."""
    model = gpt(position, visibility=visibility, kv_heads=1)
    ids = torch.randint(0, 17, (2, 26))
    words = torch.tensor([5, 2])
    target = torch.stack([ids[row, n : n + 20] for row, n in enumerate(words.tolist())])
    for lanes, fixed in ((1, False), (3, True)):
        found = cached(model, (ids[:, :5], words), target, lanes=lanes, fixed=fixed)
        for row, n in enumerate(words.tolist()):
            expected = model(ids[row : row + 1, : n + 20])[0, n:]
            torch.testing.assert_close(found[row], expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("visibility", ["full", "window(3)"])
@pytest.mark.parametrize("position", SCHEMES)
def test_a_translator_decodes_as_it_was_trained(position: str, visibility: str) -> None:
    config = TransformerConfig(**SMALL, position=position, visibility=visibility, norm="rms", feedforward_kind="gated")
    model = shaken(Transformer(config, 17, 17))
    source, lengths, target = torch.randint(0, 17, (2, 9)), torch.tensor([9, 4]), torch.randint(0, 17, (2, 20))
    expected = model(source, lengths, target)
    torch.testing.assert_close(cached(model, (source, lengths), target, lanes=2), expected, atol=2e-5, rtol=1e-4)
    alone = model(source[1:, :4], lengths[1:], target[1:])
    torch.testing.assert_close(alone[0], expected[1], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("visibility", ["full", "window(3)", "block(4)"])
@pytest.mark.parametrize("position", SCHEMES)
def test_packed_is_padded(position: str, visibility: str) -> None:
    """Positions restart with every document of a row."""
    models = {
        True: gpt(position, visibility=visibility),
        False: shaken(BERT(BERTConfig(**SMALL, position=position, visibility=visibility), 17)),
    }
    ids, lengths = torch.randint(0, 17, (3, 11)), [11, 4, 7]
    row = torch.cat([ids[n, :length] for n, length in enumerate(lengths)])[None]
    packing = Packing.of(lengths)
    for is_causal, model in models.items():
        if is_causal:
            padded, packed = model(ids), model(row, packing)
        else:
            padded, packed = model(ids, torch.tensor(lengths)), model(row, packing)
        expected = torch.cat([padded[n, :length] for n, length in enumerate(lengths)])
        torch.testing.assert_close(packed[0], expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("text", ["window(40)", "window(20) | global(16)", "block(64)"])
@pytest.mark.parametrize("position", [name for name in INSIDE if name != "rotary"])
@pytest.mark.parametrize("padded", [False, True])
def test_blocks_are_the_dense_mask(position: str, text: str, padded: bool) -> None:
    """Values, and gradients of queries, keys, values and of what the scheme has learned."""
    torch.manual_seed(3)
    config = BERTConfig(**SMALL, position=position)
    scheme = attention_position(config, 1, causal=False)
    assert scheme is not None
    for parameter in scheme.parameters():
        nn.init.normal_(parameter)
    pattern = parse_visibility(text)
    pattern = pattern & padding(torch.tensor([700, 650])) if padded else pattern
    view = pattern.over(700, 700, batch=2, device=CPU)
    assert view.blocks is not None
    inputs = [torch.randn(2, 3, 700, 8, requires_grad=True) for _ in range(3)]
    results = []
    for each in (view, view.rendered()):
        bias = scheme.over(each).layer(0).bias(*inputs[:2])
        context = Softmax().mix(*inputs, each, bias=bias)
        learned = [p for p in scheme.parameters() if p.requires_grad]
        results.append([context, *torch.autograd.grad((context * torch.linspace(-1, 1, 8)).sum(), [*inputs, *learned])])
    for found, expected in zip(*results):
        torch.testing.assert_close(found, expected, atol=1e-4 * expected.abs().max().item(), rtol=1e-4)


@pytest.mark.parametrize("position", SCHEMES)
def test_a_probe_rebuilds_the_weights(position: str) -> None:
    """Weights times values are the context that the output projection was given."""
    model, given = gpt(position, kv_heads=1, scaled=False), []
    hook = model.decoder.blocks[1].self_attention.out.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    with torch.no_grad(), probe(model) as seen:
        model(torch.randint(0, 17, (2, 9)))
    hook.remove()
    one = seen["decoder.1.self"]
    torch.testing.assert_close((one.weights() @ one.v_BHMK).transpose(1, 2).flatten(2), given[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(one.weights([2, 0], [8, 3]), one.weights()[:, [2, 0]][:, :, [8, 3]])


@pytest.mark.parametrize("position", SCHEMES)
def test_every_family_trains_with_it(position: str) -> None:
    ids, lengths = torch.randint(0, 17, (2, 9)), torch.tensor([9, 5])
    models: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        "gpt": (GPT(GPTConfig(**SMALL, position=position), 17), (ids,)),
        "bert": (BERT(BERTConfig(**SMALL, position=position), 17), (ids, lengths)),
        "encoder": (Encoder(EncoderConfig(**SMALL, position=position), 17), (ids, lengths)),
        "electra": (ELECTRA(ELECTRAConfig(**SMALL, position=position, generator_width=8), 17), (ids, lengths)),
        "transformer": (Transformer(TransformerConfig(**SMALL, position=position), 17, 17), (ids, lengths, ids)),
    }
    for name, (model, inputs) in models.items():
        logits = model(*inputs)
        logits.logsumexp(-1).sum().backward() if logits.dim() == 3 else F.softplus(logits).sum().backward()
        learned = [p for n, p in model.named_parameters() if ".position." in n and "generator" not in n]
        assert bool(learned) == (position in ("relative", "transformer-xl")), name
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in learned), name


@pytest.mark.parametrize("mixer", ["dot", "bilinear", "additive"])
@pytest.mark.parametrize("position", list(INSIDE))
def test_every_score_takes_it(position: str, mixer: str) -> None:
    model = gpt(position, mixer=mixer)
    ids = torch.randint(0, 17, (2, 12))
    found = cached(model, (ids[:, :1], torch.tensor([1, 1])), ids[:, 1:])
    torch.testing.assert_close(found, model(ids)[:, 1:], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("mixer", ["favor", "linear-relu"])
def test_linear_attention_takes_rotary(mixer: str) -> None:
    model = gpt("rotary", mixer=mixer)
    ids = torch.randint(0, 17, (2, 12))
    found = cached(model, (ids[:, :1], torch.tensor([1, 1])), ids[:, 1:])
    torch.testing.assert_close(found, model(ids)[:, 1:], atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("position", list(INSIDE))
def test_blocks_computed_again_for_gradients_are_the_same(position: str) -> None:
    """Activation checkpointing."""
    model, ids = gpt(position), torch.randint(0, 17, (2, 12))
    model.train()
    found = []
    for again in (False, True):
        model.decoder.recompute = again
        model.zero_grad()
        model(ids).logsumexp(-1).sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("position", SCHEMES)
def test_compiles_without_graph_breaks(position: str) -> None:
    model, ids = gpt(position, norm="rms", feedforward_kind="gated", kv_heads=1, layers=1), torch.randint(0, 17, (2, 12))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids), model(ids), atol=1e-5, rtol=1e-5)
    compiled(ids).logsumexp(-1).sum().backward()


def test_order_matters_and_is_causal() -> None:
    ids = torch.randperm(17)[None, :12]
    for position in SCHEMES:
        model = gpt(position)
        swapped = ids[:, [1, 0, *range(2, 12)]]
        assert not torch.allclose(model(ids)[0, -1], model(swapped)[0, -1], atol=1e-5) or position == "none"
        torch.testing.assert_close(model(ids[:, :7]), model(ids)[:, :7], atol=1e-5, rtol=1e-4)


def test_the_view_says_where_tokens_are() -> None:
    view = (causal & window(2)).over(4, 6, offset=2, device=CPU)
    assert [part.tolist() for part in view.positions()] == [[[2, 3, 4, 5]], [[0, 1, 2, 3, 4, 5]]]
    assert view.farthest() == 6

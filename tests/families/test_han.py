"""The hierarchical attention network: what loops over documents and sentences give with the same weights, alone or together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families import marks_of
from regard.families.classifier import Classifier, classifier, count
from regard.families.han import HAN, HANConfig
from regard.model.block import Stack
from regard.model.pooling import LearnedQuery
from regard.model.probe import attentions, probe
from regard.model.visibility import full
from regard.text.specials import EOS, Roles

VOCABULARY, CLASSES, WIDTH = 61, 3, 12
CHOICES: list[dict[str, Any]] = [
    dict(encoder="gru"),
    dict(encoder="lstm", layers=2),
    dict(encoder="transformer", heads=3, feedforward=20, layers=2),
]
choices = pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice["encoder"])
Document = list[list[int]]
documents = st.lists(
    st.lists(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=20), min_size=1, max_size=4), min_size=1, max_size=4
)
SOME: list[Document] = [[[5, 6, 7], [8], [9, 10, 11, 12]], [[13]], [[14, 15], list(range(16, 40))]]


def built(seed: int = 2, **choice: Any) -> Classifier:
    """Biases start at 0, where a mistake would not show."""
    config = HANConfig(width=WIDTH, dropout=0.0, **choice)
    model, draw = classifier(config, VOCABULARY, CLASSES, seed).eval(), torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return model


def laid(found: list[Document], padding: int = 7) -> tuple[Tensor, Tensor]:
    """Each between its marks, with words behind it that are none."""
    rows = [[EOS, *(number for sentence in document for number in (*sentence, EOS))] for document in found]
    longest = max(map(len, rows))
    return torch.tensor([row + [padding] * (longest - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


# ------------------------------------------------------------------------------------- a plain reference, document by document


def pooled(query: LearnedQuery, h_MD: Tensor) -> Tensor:
    weights_M = (torch.tanh(h_MD @ query.keys.weight.T + query.keys.bias) @ query.query_D).softmax(0)
    return weights_M @ h_MD


def read(body: HAN, level: nn.Module, x_MD: Tensor) -> Tensor:
    """One sequence by itself: torch's own bidirectional network, or blocks that see all."""
    encoder: Any = level.encoder
    if isinstance(encoder, Stack):
        place = torch.arange(len(x_MD), dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2).double() / WIDTH)
        x_MD = x_MD + torch.stack([place.sin(), place.cos()], -1).flatten(1).float()
        return encoder(x_MD[None], full.over(len(x_MD), len(x_MD), batch=1, device=x_MD.device))[0]
    kind = type(encoder.ahead[0])
    for ahead, back in zip(encoder.ahead, encoder.back):
        both = kind(WIDTH, WIDTH // 2, bidirectional=True)
        named = dict(ahead.named_parameters()) | {f"{name}_reverse": p for name, p in back.named_parameters()}
        x_MD = torch.func.functional_call(both, named, (x_MD,))[0]
    return x_MD


def plainly(model: Classifier, document: Document) -> Tensor:
    body: Any = model.body
    vectors = [pooled(body.of_words, read(body, body.words, body.embed.tokens(torch.tensor(s)) * WIDTH**0.5)) for s in document]
    return model.classes(pooled(body.of_sentences, read(body, body.sentences, torch.stack(vectors))))


@choices
def test_logits_and_gradients_are_those_of_loops_over_sentences(choice: dict[str, Any]) -> None:
    model = built(**choice)
    found, expected = model(*laid(SOME)), torch.stack([plainly(model, document) for document in SOME])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weights, parameters = torch.randn_like(found), list(model.parameters())
    for a, b in zip(*(torch.autograd.grad((x * weights).sum(), parameters) for x in (found, expected))):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-3)


# ------------------------------------------------------------------------------------------------------ batches and padding


@settings(max_examples=12)
@given(documents, st.sampled_from(CHOICES))
def test_a_batch_is_its_documents_one_by_one(found: list[Document], choice: dict[str, Any]) -> None:
    model = built(**choice)
    ids, lengths = laid(found)
    together = model(ids, lengths)
    for n, document in enumerate(found):
        torch.testing.assert_close(model(*laid([document]))[0], together[n], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(model(*laid(found, padding=0)), together, atol=2e-5, rtol=1e-4)


@choices
def test_more_marks_and_a_document_without_words_change_nothing(choice: dict[str, Any]) -> None:
    model = built(**choice)
    ids, lengths = laid(SOME[:1])
    more = torch.cat([torch.tensor([[EOS, EOS]]), ids[:, :4], torch.tensor([[EOS]]), ids[:, 4:]], 1)
    torch.testing.assert_close(model(more, lengths + 3), model(ids, lengths))
    empty = torch.tensor([[EOS, EOS, 5, 5]])
    alone = model(empty, torch.tensor([2]))
    assert alone.isfinite().all()
    both = torch.zeros(2, ids.shape[1], dtype=torch.long)
    both[0], both[1, :4] = ids[0], empty
    torch.testing.assert_close(model(both, torch.tensor([int(lengths), 2]))[1], alone[0], atol=2e-5, rtol=1e-4)


@choices
def test_the_order_of_words_and_of_sentences_matters(choice: dict[str, Any]) -> None:
    model = built(**choice)
    before = model(*laid([[[5, 6, 7], [8, 9]]]))
    for other in ([[6, 5, 7], [8, 9]], [[8, 9], [5, 6, 7]], [[5, 6], [7, 8, 9]]):
        assert not torch.allclose(model(*laid([other])), before, atol=1e-4)


# -------------------------------------------------------------------------------------------------------- looking and counting


@choices
def test_a_probe_sees_both_levels(choice: dict[str, Any]) -> None:
    model = built(**choice)
    with probe(model) as seen:
        model(*laid(SOME))
    blocks = [f"{level}.{n}.self" for level in ("words", "sentences") for n in range(2)] if "heads" in choice else []
    assert set(attentions(model)) == set(seen) == {"words.query", "sentences.query", *blocks}
    words, sentences = seen["words.query"].weights(), seen["sentences.query"].weights()
    assert words.shape == (6, 1, 1, 24)
    assert sentences.shape == (3, 1, 1, 3)
    for weights, lengths in ((words, [3, 1, 4, 1, 2, 24]), (sentences, [3, 1, 2])):
        for row, length in zip(weights[:, 0, 0], lengths):
            torch.testing.assert_close(row[:length].sum(), torch.tensor(1.0))
            assert not row[length:].any()


@choices
def test_each_document_has_its_own_gates_however_many_sentences_it_has(choice: dict[str, Any]) -> None:
    model, draw = built(**choice), torch.Generator().manual_seed(4)
    gates = {name: torch.rand(len(SOME), one.heads, generator=draw) for name, one in attentions(model).items()}
    with probe(model, gates):
        together = model(*laid(SOME))
    for row, document in enumerate(SOME):
        with probe(model, {name: gate_BH[row] for name, gate_BH in gates.items()}):
            torch.testing.assert_close(together[row], model(*laid([document]))[0], atol=1e-5, rtol=1e-4)


@choices
def test_parts_have_the_parameters_of_the_model(choice: dict[str, Any]) -> None:
    model = built(**choice)
    counted = count(model.body.config, VOCABULARY, 100, CLASSES)
    assert counted.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert counted.flops > 100 * 2 * WIDTH**2


def test_every_sentence_has_a_mark_around_it() -> None:
    found = marks_of(HANConfig(), Roles(sos=1, eos=EOS))
    assert (found.start, found.between, found.end, found.sentences) == (EOS, EOS, EOS, True)


def test_documents_do_not_lie_end_to_end() -> None:
    with pytest.raises(TypeError, match="side by side"):
        built().body.hidden(torch.zeros(1, 4, dtype=torch.long), Packing.of([2, 2]))


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (dict(width=0), "model.width=0 must be at least 1"),
        (dict(width=7), "model.width=7 cannot be halved"),
        (dict(heads=4), "model.heads=4 is for model.encoder=transformer"),
        (dict(encoder="lstm", feedforward=40), "model.feedforward=40 is for model.encoder=transformer"),
        (dict(encoder="transformer", width=10, heads=3), "model.width=10 does not divide by model.heads=3"),
        (dict(dropout=1.0), "model.dropout=1.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(choice: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        HANConfig(**choice)


@pytest.mark.gpu
@choices
def test_a_gpu_computes_what_a_cpu_does(choice: dict[str, Any]) -> None:
    model = built(**choice).train()
    ids, lengths = laid(SOME)
    on_cpu = model(ids, lengths)
    with torch.backends.cudnn.flags(allow_tf32=False):
        on_gpu = model.cuda()(ids.cuda(), lengths.cuda())
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=1e-4, rtol=1e-3)
    with torch.autocast("cuda", torch.bfloat16):
        half = model(ids.cuda(), lengths.cuda())
    half.float().square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    torch.testing.assert_close(half.float(), on_gpu, atol=0.1, rtol=0.1)

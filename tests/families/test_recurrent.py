"""Recurrent encoder-decoders: scheduled sampling, half precision, their counted cost, and settings that are refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.text.specials import PAD
from tests.families.counting import count_pair
from tests.families.recurrent_models import CHOICES, built, inputs, named


def test_scheduled_sampling_tells_the_decoder_its_own_words_by_counted_draws():
    model = built(scheduled_sampling=1.0, input_feeding=True)
    source, lengths, target = inputs(target=6)
    target[1, 4:] = PAD
    given_to: list[Tensor] = []
    model.target.register_forward_pre_hook(lambda _, given: given_to.append(given[0]))
    model.train()
    torch.manual_seed(7)
    first = model(source, lengths, target)
    told, own_words = given_to
    assert torch.equal(told, target)
    assert torch.equal(own_words[:, 0], target[:, 0])
    assert torch.equal(own_words[1, 4:], target[1, 4:])
    assert (own_words[0, 1:] != target[0, 1:]).any()
    torch.manual_seed(7)
    assert torch.equal(model(source, lengths, target), first)
    first.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    given_to.clear()
    model.eval()(source, lengths, target)
    assert len(given_to) == 1


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_half_precision_is_near_whole(choice):
    model = built(**choice).train()
    with torch.autocast("cpu", torch.bfloat16):
        half = model.hidden(*inputs())
    assert half.dtype == torch.bfloat16
    half.float().sum().backward()
    torch.testing.assert_close(half.float(), model.hidden(*inputs()), atol=0.05, rtol=0.05)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


CONFIGS = st.builds(
    lambda cell, half, layers, both, attention, mixer, feeding, tie: RecurrentConfig(
        cell=cell,
        width=2 * half,
        layers=layers,
        bidirectional=both,
        attention=attention,
        mixer="" if attention == "none" else mixer,
        input_feeding=feeding and attention == "luong",
        tie=tie,
    ),
    st.sampled_from(["lstm", "gru"]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["none", "bahdanau", "luong"]),
    st.sampled_from(["", "softmax", "dot", "bilinear", "additive"]),
    st.booleans(),
    st.sampled_from(["all", "output", "none"]),
)


@given(CONFIGS, st.integers(5, 30), st.integers(5, 30))
@settings(max_examples=25)
def test_parameters_are_those_of_the_module(config, source, target):
    target = source if config.tie == "all" else target
    model = Recurrent(config, source, target)
    assert count_pair(config, source, target, 3, 3).parameters == sum(p.numel() for p in model.parameters())


@given(CONFIGS, st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=10)
def test_operations_are_those_torch_counts(config, source, target):
    """The scores of an additive mixer apart: torch's counter takes a product with one vector for none."""
    model = Recurrent(config, 11, 11).eval()
    ids, lengths = torch.zeros(1, source, dtype=torch.long), torch.tensor([source])
    with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(ids, lengths, torch.zeros(1, target, dtype=torch.long))
    scores = 2 * source * target * config.width if config.score == "additive" else 0
    assert counter.get_total_flops() == count_pair(config, 11, 11, source, target).flops - scores


def test_packed_rows_are_refused_with_a_reason():
    source, _, target = inputs(batch=1)
    assert not RecurrentConfig().packable
    with pytest.raises(TypeError, match="padded for it, not packed end to end"):
        built().hidden(source, Packing.of([2, 4]), target, Packing.of([2, 3]))


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        (dict(width=0), "model.width=0 must be at least 1"),
        (dict(layers=0), "model.layers=0 must be at least 1"),
        (dict(width=7), "model.width=7 cannot be halved between two ways of reading; give an even number"),
        (dict(dropout=1.0), "model.dropout=1.0 must be at least 0 and less than 1"),
        (dict(scheduled_sampling=25.0), "is a share of words; give a number from 0 to 1"),
        (dict(mixer="favor"), "model.mixer=favor does not score single words"),
        (dict(mixer="adition"), "did you mean 'additive'"),
        (dict(visibility="causal"), "give full, or a window such as window"),
        (dict(attention="none", mixer="dot"), "model.attention=none looks at nothing"),
        (dict(attention="bahdanau", input_feeding=True), "is for model.attention=luong, not for bahdanau"),
    ],
)
def test_settings_that_cannot_be_are_refused(given_, told):
    with pytest.raises(UserError, match=told):
        RecurrentConfig(**given_)
    assert RecurrentConfig(width=7, bidirectional=False).score == "bilinear"

"""Closed forms against what is really allocated, and against PyTorch's own operation counter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.families.transformer import Transformer, TransformerConfig
from tests.families.counting import count_pair


def test_the_papers_sizes():
    """Vaswani et al. 2017, table 3, with its vocabulary of 37,000: 65 and 213 million."""
    base, big = TransformerConfig(), TransformerConfig(width=1024, heads=16, feedforward=4096)
    assert abs(count_pair(base, 37_000, 37_000, 25, 25).parameters / 65e6 - 1) < 0.035
    assert abs(count_pair(big, 37_000, 37_000, 25, 25).parameters / 213e6 - 1) < 0.01


CONFIGS = st.builds(
    lambda heads, k, f, e, d, norm, tie, position, concat: TransformerConfig(
        width=heads * k,
        heads=heads,
        feedforward=f,
        encoder_layers=e,
        decoder_layers=d,
        norm_placement=norm,
        tie="none" if concat and position != "none" else tie,
        position=position,
        join="concat" if concat and position != "none" else "add",
        position_width=2 if concat and position != "none" else 0,
        maximum_length=17,
    ),
    st.integers(1, 4),
    st.integers(3, 9),
    st.integers(1, 40),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["pre", "post"]),
    st.sampled_from(["all", "output", "none"]),
    st.sampled_from(["sinusoidal", "learned", "none"]),
    st.booleans(),
)


@given(CONFIGS, st.integers(5, 30), st.integers(5, 30))
@settings(max_examples=40)
def test_parameters_are_those_of_the_module(config, source, target):
    target = source if config.tie == "all" else target
    module = Transformer(config, source, target)
    assert count_pair(config, source, target, 3, 3).parameters == sum(p.numel() for p in module.parameters())


@given(st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=10)
def test_operations_are_those_torch_counts(source, target):
    layers = dict(encoder_layers=1, decoder_layers=2)
    config = TransformerConfig(width=24, heads=4, feedforward=40, norm_placement="pre", tie="output", **layers)
    module = Transformer(config, 11, 13)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(torch.zeros(1, source, dtype=torch.long), torch.tensor([source]), torch.zeros(1, target, dtype=torch.long))
    assert counter.get_total_flops() == count_pair(config, 11, 13, source, target).flops


def test_what_a_pattern_leaves_out_is_not_counted():
    """Of 8,192 tokens each sees 3 of 64 blocks of 128: window(128) reaches into both neighbours; each end has but one."""
    dense, sparse = (count_pair(TransformerConfig(visibility=text), 100, 100, 8192, 8).flops for text in ("full", "window(128)"))
    left_out = 1 - (3 * 64 - 2) / 64**2
    assert dense - sparse == pytest.approx(6 * 2 * 2 * 8192**2 * 512 * left_out)

"""LLaMA: its defaults, and settings that do nothing refused; that it computes what transformers does is in tests/interop."""

import pytest

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.llama import LLaMAConfig

SMALL = dict(width=24, heads=4, kv_heads=2, feedforward=40, layers=2, maximum_length=32)


def test_the_output_layer_is_a_matrix_of_its_own_unless_tied():
    apart, tied = (build_model(LLaMAConfig(**SMALL, tie=tie), vocabulary=30) for tie in ("none", "output"))
    assert apart.head.project.weight is not apart.embed.tokens.weight
    assert tied.head.project.weight is tied.embed.tokens.weight


def test_no_layer_has_a_bias_but_those_that_are_asked_for():
    plain, qwen = (build_model(LLaMAConfig(**SMALL, qkv_bias=bias), vocabulary=30) for bias in (False, True))
    assert not [name for name, _ in plain.named_parameters() if name.endswith("bias")]
    assert [n for n, _ in qwen.named_parameters() if n.endswith("bias")] == [
        f"decoder.blocks.{layer}.self.layer.project.bias" for layer in (0, 1)
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(rotary_scaling="linear"), "rotary_factor=1.0 does not suit"),
        (dict(rotary_factor=2.0), "rotary_factor=2.0 does not suit"),
        (dict(rotary_scaling="linear", rotary_factor=2.0, rotary_low=2.0), "is for model.rotary_scaling=llama3"),
        (dict(rotary_scaling="llama3", rotary_factor=2.0, rotary_low=5.0), "below model.rotary_high"),
        (dict(bias=True, qkv_bias=True), "leave it out"),
        (dict(mixer="linear-relu", kv_heads=0, qk_norm=True), "mixers with scores"),
        (dict(activation_dropout=1.0), "activation_dropout=1"),
    ],
)
def test_refused_in_one_sentence(settings, said):
    with pytest.raises(UserError, match=said):
        LLaMAConfig(**(SMALL | settings))

"""Published sizes: our counts against the figures of papers and of released weights, none of them ours."""

from __future__ import annotations

from math import floor, log10

import pytest

from regard.core.errors import UserError
from regard.families.bert import BERTConfig
from regard.families.gpt import GPTConfig
from regard.families.published_sizes import PETAFLOP_DAY, SIZES
from regard.model.block import BlockConfig
from tests.families.counting import count

RELEASED = {  # numbers of the weights that can be downloaded, tied matrices once
    "gpt1": 116_534_784,
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_514_298,  # with the head for masked words, without the pooler
    "bert-large": 335_174_458,
    "roberta-base": 124_697_433,
    "roberta-large": 355_412_057,
    "camembert-base": 110_655_493,
    "distilbert": 66_985_530,
    "tinyllama-1.1b": 1_100_048_384,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5-1.1-small": 76_961_152,
    "t5-1.1-base": 247_577_856,
    "t5-1.1-large": 783_150_080,
    "mt5-small": 300_176_768,
    "mt5-base": 582_401_280,
    "byt5-small": 299_637_760,
    "bart-base": 139_420_416 + 50_265,  # with the bias of each word, which is a buffer there
    "bart-large": 406_291_456 + 50_265,
    "mbart-large": 610_851_840 + 250_027,
    "language-perceiver": 201_108_230,  # transformers, on the meta device
    "vision-perceiver-fourier": 48_440_627,
    "opus-mt": 74_410_496 - 2 * 512 * 512 + 58_101,  # without the positions of both stacks, which are computed
}


BODIES = [("roberta-base", 0.004), ("roberta-large", 0.004), ("camembert-base", 0.007), ("distilbert", 0.02)]


def parameters(name: str) -> int:
    size = SIZES[name]
    return count(size.config, size.vocabulary, 8, heads=size.sizes.heads).parameters


def significant(number: float, digits: int) -> float:
    return round(number, digits - 1 - floor(log10(abs(number))))


@pytest.mark.parametrize("name", RELEASED)
def test_the_released_weights_are_counted_exactly(name):
    assert parameters(name) == RELEASED[name]


@pytest.mark.parametrize(("name", "released"), [("small", 13_549_057), ("base", 109_483_009), ("large", 335_142_913)])
def test_the_discriminators_of_electra_are_counted_exactly(name, released):
    """As released; and each has a generator beside it that has no embedding of its own."""
    size = SIZES[f"electra-{name}"]
    (discriminator, generator) = count(size.config, size.vocabulary, 8).children
    assert discriminator.parameters == released
    assert 0 < generator.parameters < released / 6
    assert size.config.generator.width in (size.config.width // 3, size.config.width // 4)


@pytest.mark.parametrize("name", [name for name in SIZES if name.startswith("gpt3")])
def test_gpt3_is_its_table_d1(name):
    """To the last digit of its parameters; and in compute, which the paper counts as 6 operations a parameter and token."""
    size = SIZES[name]
    last_digit = next(unit for unit in (1e8, 1e7, 1e6) if size.stated % unit == 0)
    assert abs(parameters(name) - size.stated) <= last_digit / 2
    assert 6 * size.stated * size.tokens / PETAFLOP_DAY == pytest.approx(size.petaflop_days, rel=5e-3)
    assert size.config.context == 2048


def test_the_rows_that_contradict_themselves_are_taken_the_way_that_adds_up():
    """As printed, the width 5,140 has no 40 equal heads; and 24 heads of 128 would have made 1.3B 1.5B."""
    with pytest.raises(UserError):
        BlockConfig(width=5140, heads=40)
    printed = parameters("gpt3-1.3b") + 24 * 4 * 2048 * (24 * 128 - 2048)
    assert significant(printed, 3) == 1.52e9
    assert significant(parameters("gpt3-1.3b"), 3) == 1.32e9


@pytest.mark.parametrize(
    ("name", "within"), [("transformer-base", 0.03), ("transformer-big", 0.006), ("bert-large", 0.015), *BODIES]
)
def test_the_others_are_near_what_their_papers_round(name, within):
    assert parameters(name) == pytest.approx(SIZES[name].stated, rel=within)


def test_the_lectures_gpt3():
    config = SIZES["gpt3-175b"].config
    assert (config.layers, config.heads, config.width // config.heads, config.context) == (96, 96, 128, 2048)


def test_names_are_keys_and_shapes_are_told_apart():
    assert all(name == size.name for name, size in SIZES.items())
    assert len(SIZES) == 73
    assert GPTConfig(layers=3).depth == (0, 3)
    assert BERTConfig(layers=3).depth == (3, 0)
    assert SIZES["transformer-big"].config.depth == (6, 6)
    assert SIZES["transformer-big"].config.context is None

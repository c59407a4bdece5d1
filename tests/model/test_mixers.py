"""What a recipe may say of mixers: settings that would do nothing are refused; what each can see, costs and keeps."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import UserError
from regard.families.bert import BERT, BERTConfig
from regard.families.flops import constant_state, keys_and_values
from regard.families.gpt import GPT, GPTConfig
from regard.model.state.kv_cache import ConvState, RunningSums, Slots
from tests.families.counting import count

MIXERS = ("softmax", "favor", "linear-relu", "conv")
SMALL = dict(width=24, heads=3, feedforward=40, layers=2, maximum_length=30)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(mixer="performer"), "favor, linear-relu, probsparse, conv"),
        (dict(features=64), "features=64 is for model.mixer=favor; with softmax it does nothing"),
        (dict(mixer="linear-relu", features=64), "is for model.mixer=favor"),
        (dict(mixer="favor", features=-1), "must be 0 or more"),
        (dict(redraw_every=10), "is for model.mixer=favor"),
        (dict(kernel_width=3), "is for model.mixer=conv"),
        (dict(mixer="favor", dilation=2), "is for model.mixer=conv"),
        (dict(mixer="conv", kernel_width=4), "has no middle"),
        (dict(mixer="favor", attention_dropout=0.1), "computes none; set it to 0"),
        (dict(mixer="conv", attention_dropout=0.1), "computes none; set it to 0"),
        (dict(mixer="favor", visibility="window(8)"), "window(8) leaves out single pairs"),
        (dict(mixer="linear-relu", visibility="causal & window(8)"), "choose full or causal"),
        (dict(mixer="conv", visibility="window(8)"), "or model.mixer=softmax"),
        (dict(mixer="conv", pruned=("encoder.0.self:1",)), "has no heads there"),
    ],
)
def test_a_setting_that_cannot_be(settings: dict, said: str) -> None:
    with pytest.raises(UserError) as caught:
        BERTConfig(**settings)
    assert said in str(caught.value)


@pytest.mark.parametrize("mixer", MIXERS)
def test_only_softmax_has_a_kernel_for_packed_sequences(mixer: str) -> None:
    assert BERTConfig(mixer=mixer).packable is (mixer == "softmax")


def test_a_mixer_without_tensors_adds_no_name() -> None:
    names = {mixer: set(BERT(BERTConfig(mixer=mixer, **SMALL), 20).state_dict()) for mixer in ("softmax", "linear-relu", "favor")}
    assert names["softmax"] == names["linear-relu"]
    assert names["favor"] - names["softmax"] == {f"encoder.blocks.{n}.self.layer.mixer.features.directions_FK" for n in (0, 1)}


@pytest.mark.parametrize("mixer", MIXERS)
def test_parameters_and_operations_are_those_of_the_module(mixer: str) -> None:
    config = BERTConfig(mixer=mixer, **SMALL)
    model = BERT(config, 20)
    counted = count(config, 20, 11)
    assert counted.parameters == sum(p.numel() for p in model.parameters())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 11, dtype=torch.long), torch.tensor([11]))
    neighbours = 2 * 2 * 11 * 24 * 7 if mixer == "conv" else 0  # are no product of matrices, which is all that torch counts
    assert counter.get_total_flops() + neighbours == counted.flops


@pytest.mark.parametrize("mixer", MIXERS)
def test_what_decoding_keeps_is_counted(mixer: str) -> None:
    config = GPTConfig(mixer=mixer, **SMALL)
    model = GPT(config, 20).eval()
    assert count(config, 20, 5).parameters == sum(p.numel() for p in model.parameters())
    reading = model.start(torch.zeros(1, 4, dtype=torch.long), torch.tensor([4]))
    state = reading.make_state(1, 1, 1, fixed=False)
    state.load(reading, [1])
    kept = {
        Slots: lambda cache: [cache.kv_2SHNK],
        RunningSums: lambda cache: cache.buffers,
        ConvState: lambda cache: [cache.values_SHWTK],
    }
    found = sum(part.numel() for cache in state.caches for part in kept[type(cache)](cache))
    assert found == constant_state(config, 2, source=False) + 4 * keys_and_values(config, 2, source=False)
    assert bool(constant_state(config, 2, source=False)) is (mixer != "softmax")

"""`regard explain` of a size: figures against PyTorch's counter and a real cache, texts against the paper's figures."""

from __future__ import annotations

import json

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.commands.explain import explain_rows, explain_tree
from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.families.published_sizes import SIZES
from regard.families.transformer import TransformerConfig
from regard.runs.footprint import Footprint, sized
from tests.families.counting import count
from tests.work import calls

TINY = GPTConfig(width=24, heads=4, layers=3, feedforward=40, maximum_length=16)


def footprint() -> Footprint:
    return Footprint(TINY, count(TINY, 37, 16), 16)


def test_operations_and_bytes_are_those_of_a_real_model():
    model = GPT(TINY, 37).eval()
    ids = torch.zeros(1, 16, dtype=torch.long)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(ids)
    figures = footprint().figures()
    assert figures["flops_per_token"]["forward"] == counter.get_total_flops() / 16
    assert figures["weight_bytes"]["fp32"] == sum(p.numel() * p.element_size() for p in model.parameters())
    read = model.start(ids, torch.tensor([16]))
    kept = sum(part.numel() * part.element_size() for pair in read.prompts for part in pair)
    assert figures["cache_bytes_per_window"]["fp32"] == kept == 16 * figures["cache_bytes_per_token"]["fp32"]


def test_adam_in_fp32_takes_sixteen_bytes_a_parameter():
    model = GPT(TINY, 37)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    optimizer.step()
    moments = [m for state in optimizer.state.values() for m in state.values() if m.dim()]
    tensors = [*model.parameters(), *(p.grad for p in model.parameters()), *moments]
    assert footprint().figures()["training_bytes"]["fp32"] == sum(t.numel() * t.element_size() for t in tensors)


def test_gpt3_is_explained_unbuilt_and_as_the_paper_has_it():
    text = explain_tree("gpt3-175b", [])
    assert calls(lambda: explain_tree("gpt3-175b", [])) < 600_000  # about 4,000 a block, and no memory for its weights
    assert len(text.splitlines()) < 40
    for told in ("96 x block", "96, of 96 heads of 128", "174,604,259,328", "2,048 tokens", "3,638", "3,640"):
        assert told in text
    figures = json.loads(json.dumps(explain_rows("gpt3-175b", [])))["figures"]
    assert figures["published"]["petaflop_days"]["by_rule"] == pytest.approx(3640, rel=2e-3)
    assert figures["published"]["petaflop_days"]["counted"] == pytest.approx(3640 * (1 + 2048 / (6 * 12_288)), rel=2e-3)
    assert figures["cache_bytes_per_token"]["bf16"] == 2 * 2 * 96 * 12_288


@pytest.mark.parametrize("name", {size.config.family: name for name, size in SIZES.items()}.values())
def test_a_size_of_every_family_can_be_explained(name):
    """That all are counted exactly, tests/families/test_published_sizes.py sees to."""
    assert f"{explain_rows(name, [])['parameters']:,}" in explain_tree(name, [])


def test_an_encoder_keeps_no_cache_and_a_pair_keeps_both_sides():
    assert "KV cache" not in explain_tree("bert-base", [])
    assert "of the source as of the target" in explain_tree("transformer-big", [])
    config = TransformerConfig(layers=2, decoder_layers=1, width=16, heads=2)
    assert Footprint(config, count(config, 9, 5), 5).cached_per_token == 2 * 16


def test_a_recipe_whose_texts_are_cut_is_explained_at_that_length():
    told = explain_tree("lra-text", ["data.maximum_tokens=4000", "model.visibility=bigbird(64)"])
    assert "in a text of 4,000 tokens" in told
    assert "fewer than 512 tokens" not in told
    assert "in a text of 25 tokens" in explain_tree("lra-text", ["data.maximum_tokens=0"])


def test_settings_make_another_model_that_no_paper_speaks_of():
    size, as_published = sized("gpt2-small", ["model.layers=2", "text.size=1000"])
    assert (size.config.layers, size.vocabulary, as_published) == (2, 1000, False)
    text = explain_tree("gpt3-175b", ["model.layers=2"])
    assert "published" not in text
    assert "2 x block" in text


@pytest.mark.parametrize(
    ("target", "settings", "told"),
    [
        ("gpt3-175", [], "did you mean 'gpt3-175b'?"),
        ("gtp2-xl", [], "did you mean 'gpt2-xl'?"),
        ("transalte", [], "did you mean 'translate'?"),
        ("xyzzy", [], "a size such as gpt3-175b"),
        ("gpt2-xl", ["model.heads=24"], "does not divide"),
        ("gpt2-xl", ["model.segments=2"], "model.segments is not a setting"),
        ("gpt2-xl", ["train.steps=2"], "no section 'train'"),
        ("gpt2-xl", ["text.size=2"], "text.size=2"),
    ],
)
def test_what_cannot_be_explained_is_told(target, settings, told):
    with pytest.raises(UserError) as error:
        explain_tree(target, settings)
    assert told in str(error.value)

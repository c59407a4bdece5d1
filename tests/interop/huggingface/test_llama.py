"""LLaMA, Mistral, Qwen2 and Qwen3 against transformers, both ways, with weights copied, and trained weights with their text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.candidates import NO_TOKEN
from regard.families import build_model
from regard.families.gpt import GPT
from regard.interop.huggingface import read_public, write_public
from regard.interop.huggingface.config import understand
from regard.interop.huggingface.registry import LAYOUTS
from tests.decode.searches import greedy
from tests.families.public_folder import ROLES, TOKENIZER, VOCABULARY, change_config, change_tensors, shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL = dict(
    vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2
)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32, rope_theta=1e3
)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, one key head, wide heads": ("Llama", dict(num_key_value_heads=1, head_dim=12)),
    "llama, tied": ("Llama", dict(tie_word_embeddings=True, rms_norm_eps=1e-5)),
    "llama 3.1": ("Llama", dict(rope_parameters=LLAMA3)),
    "llama, linear": ("Llama", dict(rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=1e4))),
    "mistral": ("Mistral", dict(sliding_window=7, head_dim=8)),
    "mistral, no window": ("Mistral", dict(sliding_window=None, head_dim=8)),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True)),
    "qwen2, window": ("Qwen2", dict(use_sliding_window=True, sliding_window=5, max_window_layers=0)),
    "qwen3": ("Qwen3", dict(head_dim=8)),
}


def peer(kind: str, **more: Any) -> Any:
    name, keys = KINDS[kind]
    config = getattr(transformers, f"{name}Config")
    torch.manual_seed(0)
    sizes = {**SMALL, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "max_position_embeddings": 200}
    return shaken(getattr(transformers, f"{name}ForCausalLM")(config(**{**sizes, **keys, **more})), 0.3)


def opened(folder: Path) -> GPT:
    public = read_public(folder)
    model = build_model(public.config, vocabulary=public.vocabulary)
    model.load_state_dict(public.weights)
    return model.eval()


def written(model: GPT, prompts_BL: Tensor, lengths_B: Tensor, tokens: int) -> list[list[int]]:
    """Greedy continuations of prompts, the last token of which is where writing starts."""
    first_B = prompts_BL.gather(1, lengths_B[:, None] - 1)[:, 0]
    found = greedy(model.start(prompts_BL, lengths_B - 1), sos=first_B, eos=NO_TOKEN, limits=[tokens] * len(lengths_B))
    return [hypothesis.ids for hypothesis in found]


def ids(rows: int = 3, length: int = 40, words: int = 101) -> Tensor:
    return torch.randint(3, words, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_opens_with_its_logits_and_writes_its_text(kind: str, tmp_path: Path) -> None:
    """The logits of 3 x 40 tokens, and 64 greedy tokens of 20 prompts of several lengths, in one padded batch and alone."""
    theirs = peer(kind)
    theirs.save_pretrained(tmp_path)
    ours = opened(tmp_path)
    expected = theirs(ids()).logits
    assert expected.std() > 0.5  # else 1e-4 would say little
    torch.testing.assert_close(ours(ids()), expected, atol=1e-4, rtol=0)
    prompts, lengths = ids(20, 12), torch.arange(20) % 11 + 2
    found = written(ours, prompts, lengths, 64)
    for n in (0, 9, 13):
        assert written(ours, prompts[n : n + 1, : lengths[n]], lengths[n : n + 1], 64) == [found[n]]
    mask = (torch.arange(12) >= 12 - lengths[:, None]).long()  # transformers pads prompts at the left
    padded = torch.stack([row.roll(12 - int(length)) for row, length in zip(prompts, lengths)]).masked_fill(mask == 0, 0)
    plain: dict[str, Any] = dict(max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert theirs.generate(padded, attention_mask=mask, **plain)[:, 12:].tolist() == found


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_what_is_exported_opens_there_with_our_logits(kind: str, tmp_path: Path) -> None:
    peer(kind, vocab_size=VOCABULARY).save_pretrained(tmp_path / "theirs")
    ours = opened(tmp_path / "theirs")
    name = write_public(tmp_path / "out", ours.config, VOCABULARY, ours.state_dict(), tokenizer_json=TOKENIZER, roles=ROLES)
    again = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    some = ids(words=VOCABULARY)
    torch.testing.assert_close(again(some).logits, ours(some), atol=1e-4, rtol=0)
    assert read_public(tmp_path / "out").config == ours.config
    written = json.loads((tmp_path / "out/config.json").read_text())
    assert {"rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings", "head_dim"} <= written.keys()


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_missing_key_means_what_it_means_to_transformers(kind: str) -> None:
    name = KINDS[kind][0]
    config, vocabulary, *_ = understand({"model_type": kind}, LAYOUTS[kind], "config.json")
    theirs = getattr(transformers, f"{name}Config")()
    assert (vocabulary, config.width, config.feedforward) == (theirs.vocab_size, theirs.hidden_size, theirs.intermediate_size)
    assert (config.layers, config.heads, config.kv_heads or config.heads) == (
        theirs.num_hidden_layers,
        theirs.num_attention_heads,
        theirs.num_key_value_heads,
    )
    assert (config.maximum_length, config.norm_epsilon) == (theirs.max_position_embeddings, theirs.rms_norm_eps)
    assert config.key_width == getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
    assert config.visibility == ("window(4095)" if kind == "mistral" else "full")
    assert config.tie == "none"


def test_two_matrices_that_differ_are_two_whatever_the_config_says(tmp_path: Path) -> None:
    theirs = peer("llama")
    theirs.save_pretrained(tmp_path)
    change_config(tmp_path, tie_word_embeddings=True)
    assert read_public(tmp_path).config.tie == "none"
    change_tensors(tmp_path, lambda tensors: tensors.pop("lm_head.weight"))
    assert read_public(tmp_path).config.tie == "output"


REFUSED = [
    (dict(rope_parameters=dict(rope_type="yarn", factor=4.0)), "rotated by 'yarn'"),
    (dict(rope_parameters=dict(rope_type="dynamic", factor=4.0)), "rotated by 'dynamic'"),
    (dict(rope_parameters=dict(rope_type="linear")), "no factor"),
    (dict(rope_parameters=dict(rope_type="linear", factor=2.0, beta=3)), "beta=3"),
    (dict(rope_parameters=dict(rope_type="linear", factor="2")), "rotary_factor='2'"),
    (dict(rope_parameters=dict(rope_type="default", partial_rotary_factor=0.5)), "partial_rotary_factor"),
    (dict(rope_parameters=None, rope_scaling=dict(type="longrope", factor=2.0)), "rotated by 'longrope'"),
    (dict(attention_bias=True), "attention_bias"),
    (dict(mlp_bias=True), "mlp_bias"),
    (dict(num_key_value_heads=3), "must divide"),
    (dict(hidden_act="relu2"), "hidden_act"),
    (dict(tie_word_embeddings="yes"), "true or false"),
    (dict(num_local_experts=8), "num_local_experts"),
    (dict(model_type="qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1), "all layers see alike"),
    (dict(model_type="qwen2", layer_types=["full_attention", "sliding_attention"], sliding_window=4), "all layers see alike"),
    (dict(model_type="mistral", sliding_window="wide"), "sliding_window='wide'"),
]


@pytest.mark.parametrize(("keys", "said"), REFUSED)
def test_what_would_change_the_mathematics_is_refused_in_one_sentence(keys: dict[str, Any], said: str, tmp_path: Path) -> None:
    peer("llama").save_pretrained(tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    if keys.get("model_type", "llama") != "llama":
        raw = {key: value for key, value in raw.items() if key not in ("attention_bias", "mlp_bias", "pretraining_tp")}
    (tmp_path / "config.json").write_text(json.dumps(raw | keys))
    with pytest.raises(UserError, match=said) as caught:
        read_public(tmp_path)
    assert "\n" not in str(caught.value)

"""Rotary positions against transformers' Llama, with the parts that came with them: RMSNorm, gated feed-forward, shared keys."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.model.position.rotary import Rotary, RotarySettings
from regard.model.visibility import causal
from tests.model.position.schemes import cached, llama_weights, shared_data

SIZES = dict(width=32, heads=4, kv_heads=2, feedforward=48, layers=2, dropout=0.0)
PARTS = dict(norm="rms", feedforward_kind="gated", activation="silu", bias=False, position="rotary", norm_epsilon=1e-6)


def pair(**ours: object) -> tuple[GPT, nn.Module]:
    transformers = pytest.importorskip("transformers")
    config = GPTConfig(**{**SIZES, **PARTS, **ours})
    torch.manual_seed(0)
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=99,
            hidden_size=config.width,
            intermediate_size=config.feedforward,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads or config.heads,
            head_dim=config.key_width,
            rms_norm_eps=config.norm_epsilon,
            rope_parameters={"rope_theta": config.rotary_base, "rope_type": "default"},
            tie_word_embeddings=True,
        )
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    model = GPT(config, 99)
    model.load_state_dict(llama_weights(theirs.state_dict(), config))
    return model, theirs


@pytest.mark.parametrize("ours", [{}, dict(kv_heads=1), dict(kv_heads=0, head_width=6), dict(rotary_base=500.0)])
def test_llama_with_copied_weights(ours: dict[str, object]) -> None:
    model, theirs = pair(**ours)
    ids = torch.randint(0, 99, (3, 21))
    found, expected = model(ids), theirs(ids).logits
    torch.testing.assert_close(found / expected.abs().max(), expected / expected.abs().max(), atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(found)
    (found * weight).sum().backward()
    (expected * weight).sum().backward()
    gradients = llama_weights({name: p.grad for name, p in theirs.named_parameters()}, model.config)
    for name, parameter in model.named_parameters():
        scale = gradients[name].abs().max()
        torch.testing.assert_close(parameter.grad / scale, gradients[name] / scale, atol=1e-5, rtol=1e-5)


def test_trained_weights_write_their_published_text() -> None:
    """Greedy text of stories260K, token for token, by one pass and by cached decoding."""
    folder = shared_data("weights/stories260K")
    settings, expected = json.loads((folder / "hf/config.json").read_text()), json.loads((folder / "greedy.json").read_text())
    config = GPTConfig(
        **{**PARTS, "norm_epsilon": settings["rms_norm_eps"]},
        **dict(width=64, heads=8, kv_heads=4, feedforward=172, layers=5, dropout=0.0),
    )
    model = GPT(config, settings["vocab_size"]).eval()
    model.load_state_dict(llama_weights(load_file(folder / "hf/model.safetensors"), config))
    ids = expected["greedy_ids"]
    with torch.no_grad():
        assert model(torch.tensor([ids[:-1]]))[0].argmax(-1).tolist() == ids[1:]
        nothing = torch.zeros(1, 0, dtype=torch.long), torch.tensor([0])
        assert cached(model, nothing, torch.tensor([ids[:-1]]))[0].argmax(-1).tolist() == ids[1:]


def test_scores_depend_on_distance_alone() -> None:
    scheme, x = Rotary(8, RotarySettings()), torch.randn(1, 2, 30, 8)
    placed = scheme.over(causal.over(30, 30, device=torch.device("cpu")))
    q, k = placed.rotate(x[:, :, :1].expand_as(x)), placed.rotate(x[:, :, 1:2].expand_as(x))
    scores = (q @ k.mT)[0, 0]
    for distance in (0, 3, 11):
        diagonal: Tensor = scores.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(q.norm(dim=-1), x[:, :, :1].norm(dim=-1).expand(1, 2, 30))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(head_width=7), "an odd number"),
        (dict(mixer="conv"), "model.mixer=conv has none"),
        (dict(position="learned", rotary_base=7.0), "is for model.position=rotary"),
        (dict(rotary_base=0.5), "must be above 1"),
    ],
)
def test_refused_in_one_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        GPTConfig(**{"width": 32, "heads": 4, "position": "rotary", **settings})

"""Rotary positions against transformers' Llama, with the parts that came with them: RMSNorm, gated feed-forward, shared keys.

T5's buckets and bias against transformers, ALiBi against its formula, and both through every kernel of a CPU.

Transformer-XL's scores against the paper's equation, term by term.
"""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.model.block import BlockConfig, Stack
from regard.model.position.relative import (
    ALiBi,
    RelativeBias,
    Rotary,
    RotarySettings,
    TransformerXL,
    alibi_slopes,
    relative_bucket,
)
from regard.model.visibility import causal, full
from tests.model.position.schemes import cached, llama_weights, shared_data

CPU = torch.device("cpu")
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


def test_buckets_of_the_papers_code() -> None:
    distance = torch.tensor([-200, -128, -127, -65, -16, -15, -8, -7, -1, 0, 1, 7, 8, 16, 127, 200])
    both = [15, 15, 15, 14, 10, 9, 8, 7, 1, 0, 17, 23, 24, 26, 31, 31]
    back = [31, 31, 31, 26, 16, 15, 8, 7, 1, 0, 0, 0, 0, 0, 0, 0]
    assert relative_bucket(distance, causal=False).tolist() == both
    assert relative_bucket(distance, causal=True).tolist() == back


def test_buckets_of_the_stored_table() -> None:
    stored = json.loads(shared_data("fixtures/hf_layout/t5_buckets.json").read_text())
    distance = torch.tensor(stored["relative_position (key - query)"])
    tables = [values for values in stored.values() if isinstance(values, list) and len(values) == len(distance)][1:]
    found = [relative_bucket(distance, causal=is_causal).tolist() for is_causal in (False, True)]
    assert tables
    assert all(table in found for table in tables)


def test_t5_attention_with_copied_weights() -> None:
    """Values and gradients, the bias's table among them, of transformers' T5 encoder and decoder self-attention."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.t5.modeling_t5 import T5Stack

    for is_decoder in (False, True):
        torch.manual_seed(1)
        settings = transformers.T5Config(
            vocab_size=9, d_model=24, d_kv=5, d_ff=40, num_layers=2, num_heads=4, dropout_rate=0.0, is_decoder=is_decoder
        )
        settings.is_encoder_decoder = settings.use_cache = False
        theirs = T5Stack(settings)
        if is_decoder:
            for block in theirs.block:
                del block.layer[1]  # cross-attention, which needs a memory
                block.is_decoder = False
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, std=0.4)
        config = BlockConfig(
            width=24, heads=4, head_width=5, feedforward=40, dropout=0.0, norm="rms", norm_placement="pre", norm_epsilon=1e-6,
            bias=False, scaled=False,
        )  # fmt: skip
        ours = Stack(config, 2, "encoder", position=RelativeBias(4, causal=is_decoder))
        tables = t5_weights(dict(theirs.named_parameters()))
        ours.load_state_dict({name: tensor.data for name, tensor in tables.items()})
        x = torch.randn(2, 150, 24)
        mine, its = x.clone().requires_grad_(), x.clone().requires_grad_()
        found = ours(mine, (causal if is_decoder else full).over(150, 150, device=CPU))
        expected = theirs(inputs_embeds=its).last_hidden_state
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        weight = torch.randn_like(x)
        (found * weight).sum().backward()
        (expected * weight).sum().backward()
        torch.testing.assert_close(mine.grad, its.grad, atol=1e-4, rtol=1e-4)
        expected_table = tables["position.table.weight"].grad
        torch.testing.assert_close(ours.position.table.weight.grad, expected_table, atol=1e-4, rtol=1e-4)


def t5_weights(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {"norm.weight": theirs["final_layer_norm.weight"]}
    found["position.table.weight"] = theirs["block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    for n in range(2):
        look, think = f"block.{n}.layer.0", f"block.{n}.layer.1"
        found[f"blocks.{n}.self.layer.project.weight"] = torch.cat([theirs[f"{look}.SelfAttention.{p}.weight"] for p in "qkv"])
        found[f"blocks.{n}.self.layer.out.weight"] = theirs[f"{look}.SelfAttention.o.weight"]
        found[f"blocks.{n}.self.norm.weight"] = theirs[f"{look}.layer_norm.weight"]
        found[f"blocks.{n}.ffn.layer.expand.weight"] = theirs[f"{think}.DenseReluDense.wi.weight"]
        found[f"blocks.{n}.ffn.layer.contract.weight"] = theirs[f"{think}.DenseReluDense.wo.weight"]
        found[f"blocks.{n}.ffn.norm.weight"] = theirs[f"{think}.layer_norm.weight"]
    return found


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
def test_alibi_is_its_formula(heads: int) -> None:
    slopes = alibi_slopes(heads).tolist()
    if heads & (heads - 1) == 0:
        assert slopes == pytest.approx([2 ** (-8 * (n + 1) / heads) for n in range(heads)])
    assert len(set(slopes)) == heads
    if heads == 12:  # as in the paper's code
        assert slopes[8:] == pytest.approx([2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    bias = ALiBi(heads).over(causal.over(9, 9, device=CPU)).bias(torch.zeros(1, heads, 9, 4), torch.zeros(1, heads, 9, 4)).dense()
    for h, i, j in ((0, 8, 0), (heads - 1, 5, 3), (0, 2, 2)):
        assert bias[0, h, i, j].item() == pytest.approx(-slopes[h] * (i - j))


def test_dense_is_every_pair_by_index() -> None:
    for scheme in (ALiBi(3), RelativeBias(3, causal=True), RelativeBias(3, causal=False, buckets=8, farthest=20)):
        view = causal.over(40, 40, device=CPU)
        bias = scheme.over(view).bias(torch.zeros(1, 3, 40, 4), torch.zeros(1, 3, 40, 4))
        h, i, j = torch.meshgrid(torch.arange(3), torch.arange(40), torch.arange(40), indexing="ij")
        assert torch.equal(bias.at(torch.zeros(1, dtype=torch.long), h, i, j), bias.dense()[0])
        assert torch.equal(bias.rows(torch.tensor([7, 2]), torch.tensor([2, 0]))[0], bias.dense()[0][[2, 0]][:, [7, 2]])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (dict(position="rotary", head_width=7), "an odd number"),
        (dict(position="rotary", mixer="conv"), "model.mixer=conv has none"),
        (dict(position="learned", rotary_base=7.0), "is for model.position=rotary"),
        (dict(position="rotary", rotary_base=0.5), "must be above 1"),
        (dict(position="relative", mixer="favor"), "model.mixer=favor computes none"),
        (dict(position="alibi", mixer="conv"), "model.mixer=conv computes none"),
        (dict(position="relative", buckets=5), "an even number of at least 4"),
        (dict(position="relative", farthest=10), "must be more than half"),
        (dict(position="alibi", buckets=16), "is for model.position=relative"),
        (dict(position="alibi", pruned=("decoder.0.self:1",)), "has a bias for every head"),
    ],
)
def test_refused_in_one_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        GPTConfig(**{"width": 32, "heads": 4, **settings})


B, H, L, K, D = 2, 3, 12, 4, 10


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("pattern", [causal, full])
def test_the_papers_equation(pattern, scaled: bool) -> None:
    """A_ij = q k + q W_R R_{i-j} + u k + v W_R R_{i-j} (Dai et al. 2019, section 3.3), pair by pair."""
    torch.manual_seed(0)
    scheme = TransformerXL(D, H, K, layers=2, scaled=scaled).double()
    for parameter in scheme.parameters():
        nn.init.normal_(parameter)
    q, k = torch.randn(2, B, H, L, K, dtype=torch.double)
    bias = scheme.over(pattern.over(L, L, batch=B, device=CPU)).layer(1).bias(q, k)
    learned, scale = scheme.layers[1], K**-0.5 if scaled else 1.0
    for h, i, j in ((0, 0, 0), (1, 11, 0), (2, 7, 7), (2, 9, 4), (0, 3, 2)):
        r = learned.project(scheme.vectors(torch.tensor([float(i - j)])).double()).view(H, K)[h]
        u, v = learned.content_HK[h], learned.position_HK[h]
        for b in range(B):
            expected = scale * (q[b, h, i] @ r + u @ k[b, h, j] + v @ r)
            torch.testing.assert_close(bias.dense()[b, h, i, j], expected, atol=1e-6, rtol=1e-6)
            torch.testing.assert_close(bias.at(*map(torch.tensor, (b, h, i, j))), expected, atol=1e-6, rtol=1e-6)


def test_distances_are_sines_then_cosines() -> None:
    scheme = TransformerXL(6, 1, 6, layers=1)
    rate = 10_000 ** (-torch.arange(0, 6, 2) / 6)
    torch.testing.assert_close(scheme.vectors(torch.tensor([5.0]))[0], torch.cat([(5 * rate).sin(), (5 * rate).cos()]))

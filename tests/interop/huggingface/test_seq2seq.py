"""T5, mT5, BART, mBART and Marian against transformers, both ways, with weights copied."""

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
from regard.interop.huggingface import read_public, write_public
from regard.interop.huggingface.config import understand
from regard.interop.huggingface.registry import LAYOUTS
from tests.decode.searches import greedy
from tests.families.public_folder import ROLES, TOKENIZER, VOCABULARY, change_tensors, shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

PAD, START = 0, 3
T5 = dict(vocab_size=101, d_model=24, d_kv=10, d_ff=40, num_layers=2, num_heads=3, decoder_start_token_id=START)
T5 |= dict(pad_token_id=PAD, eos_token_id=1, relative_attention_max_distance=20)
GATED = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
BART = dict(vocab_size=101, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3)
BART |= dict(encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=90, pad_token_id=PAD, decoder_start_token_id=START)
BART |= dict(bos_token_id=2, eos_token_id=1, forced_eos_token_id=None)
APART = dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=83)
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5 1.0": ("T5", "ForConditionalGeneration", T5),
    "t5 1.1": ("T5", "ForConditionalGeneration", T5 | GATED),
    "byt5": ("T5", "ForConditionalGeneration", T5 | GATED | dict(num_decoder_layers=1)),
    "mt5": ("MT5", "ForConditionalGeneration", T5 | GATED),
    "bart": ("Bart", "ForConditionalGeneration", BART),
    "bart, fewer decoder layers": ("Bart", "ForConditionalGeneration", BART | dict(decoder_layers=1)),
    "mbart": ("MBart", "ForConditionalGeneration", BART | dict(scale_embedding=True)),
    "marian": ("Marian", "MTModel", BART | dict(scale_embedding=True, activation_function="swish")),
    "marian, relu": ("Marian", "MTModel", BART | dict(scale_embedding=True, activation_function="relu")),
    "marian, two vocabularies": ("Marian", "MTModel", BART | APART | dict(scale_embedding=True)),
}
UNTIED = ("t5 1.1", "byt5", "mt5")


def peer(kind: str, folder: Path, **more: Any) -> Any:
    """Write a random model to a folder and open it there; T5 1.1 has an output layer of its own, which transformers 5 ties."""
    name, head, keys = KINDS[kind]
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}{head}")
    theirs = shaken(model(getattr(transformers, f"{name}Config")(**(keys | more))), 0.2)
    if "final_logits_bias" in dict(theirs.named_buffers()):
        theirs.final_logits_bias += torch.randn(theirs.final_logits_bias.shape)
    theirs.save_pretrained(folder)
    if kind in UNTIED:
        words = theirs.shared.weight.shape
        change_tensors(folder, lambda tensors: tensors.update({"lm_head.weight": 0.5 * torch.randn(words)}))
    theirs = model.from_pretrained(folder)  # a Marian's positions are computed anew
    theirs.generation_config.eos_token_id = None  # texts that never end show more
    return theirs.eval()


def opened(folder: Path) -> Any:
    public = read_public(folder)
    model = build_model(public.config, vocabulary=public.vocabulary, target_vocabulary=public.target_vocabulary)
    model.load_state_dict(public.weights)
    return model.eval()


def drawn(rows: int, length: int, words: int = 80, seed: int = 1) -> Tensor:
    return torch.randint(4, words, (rows, length), generator=torch.Generator().manual_seed(seed))


LENGTHS = torch.tensor([27, 3, 11])


def sees(lengths_B: Tensor, length: int) -> Tensor:
    return (torch.arange(length) < lengths_B[:, None]).long()


def logits(theirs: Any, source: Tensor, target: Tensor, lengths: Tensor = LENGTHS) -> Tensor:
    mask = sees(lengths, source.shape[1])
    return theirs(input_ids=source.masked_fill(mask == 0, PAD), attention_mask=mask, decoder_input_ids=target).logits


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_opens_with_its_logits_and_writes_its_text(kind: str, tmp_path: Path) -> None:
    theirs, source, target = peer(kind, tmp_path), drawn(3, 27), drawn(3, 31, seed=2)
    ours, expected = opened(tmp_path), logits(theirs, source, target)
    assert expected.std() > 0.3  # else 1e-4 would say little
    torch.testing.assert_close(ours(source, LENGTHS, target), expected, atol=1e-4, rtol=0)
    sources, lengths = drawn(20, 12, seed=3), torch.arange(20) % 11 + 2
    found = [h.ids for h in greedy(ours.start(sources, lengths), sos=START, eos=NO_TOKEN, limits=[64] * 20)]
    for n in (0, 9, 13):
        alone = greedy(ours.start(sources[n : n + 1, : lengths[n]], lengths[n : n + 1]), sos=START, eos=NO_TOKEN, limits=[64])
        assert alone[0].ids == found[n]
    mask = sees(lengths, 12)
    rows = dict(input_ids=sources.masked_fill(mask == 0, PAD), attention_mask=mask)
    plain = transformers.GenerationConfig(max_new_tokens=64, eos_token_id=None, pad_token_id=PAD, decoder_start_token_id=START)
    assert theirs.generate(**rows, generation_config=plain)[:, 1:].tolist() == found


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_what_is_exported_opens_there_with_our_logits(kind: str, tmp_path: Path) -> None:
    sizes = dict(vocab_size=VOCABULARY) | (dict(decoder_vocab_size=VOCABULARY) if "two" in kind else {})
    peer(kind, tmp_path / "theirs", **sizes)
    ours = opened(tmp_path / "theirs")
    name = write_public(
        tmp_path / "out",
        ours.config,
        VOCABULARY,
        ours.state_dict(),
        tokenizer_json=TOKENIZER,
        roles=ROLES,
        model_type="mt5" if kind == "mt5" else "",
    )
    assert name == "AutoModelForSeq2SeqLM"
    again = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    source, target = drawn(3, 27), drawn(3, 31, seed=2)
    torch.testing.assert_close(logits(again, source, target), ours(source, LENGTHS, target), atol=1e-4, rtol=0)
    assert read_public(tmp_path / "out").config == ours.config
    written = json.loads((tmp_path / "out/config.json").read_text())
    if "t5" in kind:
        assert written["tie_word_embeddings"] is (kind not in UNTIED)
    else:
        assert {"normalize_before", "normalize_embedding", "add_final_layer_norm"} <= written.keys()
    assert written["decoder_start_token_id"] == 1


@pytest.mark.parametrize("kind", ["t5 1.0", "mt5", "bart", "mbart", "marian"])
def test_a_missing_key_means_what_it_means_to_transformers(kind: str) -> None:
    name = KINDS[kind][0]
    theirs = getattr(transformers, f"{name}Config")()
    config, vocabulary, *_ = understand({"model_type": theirs.model_type}, LAYOUTS[theirs.model_type], "config.json")
    assert (vocabulary, config.width) == (theirs.vocab_size, theirs.d_model)
    assert config.heads == (theirs.num_heads if "t5" in kind else theirs.encoder_attention_heads)
    assert config.feedforward == (theirs.d_ff if "t5" in kind else theirs.encoder_ffn_dim)
    layers = (theirs.num_layers, theirs.num_decoder_layers) if "t5" in kind else (theirs.encoder_layers, theirs.decoder_layers)
    assert config.depth == layers
    if "t5" not in kind:
        assert config.maximum_length == theirs.max_position_embeddings
        assert config.scaled_embeddings == theirs.scale_embedding


REFUSED = [
    ("t5 1.0", dict(feed_forward_proj="gated-gelu-new"), "feed_forward_proj"),
    ("t5 1.0", dict(scale_decoder_outputs="no"), "scale_decoder_outputs"),
    ("t5 1.0", dict(num_layers=0), "at least 1"),
    ("t5 1.0", dict(model_type="umt5"), "umt5"),
    ("mt5", dict(scale_decoder_outputs=True), "scale_decoder_outputs"),
    ("bart", dict(normalize_before=True), "normalize_before"),
    ("bart", dict(decoder_ffn_dim=41), "decoder_ffn_dim=41"),
    ("bart", dict(decoder_attention_heads=2), "decoder_attention_heads=2"),
    ("bart", dict(static_position_embeddings=True), "static_position_embeddings"),
    ("mbart", dict(normalize_before=False), "normalize_before"),
    ("marian", dict(normalize_embedding=True), "normalize_embedding"),
    ("marian", dict(decoder_vocab_size="many"), "decoder_vocab_size"),
    ("marian", dict(rotary=True), "rotary"),
]


@pytest.mark.parametrize(("kind", "keys", "said"), REFUSED)
def test_what_would_change_the_mathematics_is_refused_in_one_sentence(
    kind: str, keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    peer(kind, tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | keys))
    with pytest.raises(UserError, match=said) as caught:
        read_public(tmp_path)
    assert "\n" not in str(caught.value)

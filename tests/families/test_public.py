"""Public folders against transformers: the same logits, tensors, tokens and texts, whoever wrote them."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.interop.huggingface import read_public
from regard.interop.huggingface.registry import LAYOUTS
from tests.decode.searches import greedy
from tests.families.public_folder import TEXT, VOCABULARY, change_config, change_tensors, export, shaken, small_gpt

transformers.utils.logging.disable_progress_bar()

CLASSES = {
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel, transformers.GPT2Model),
    "openai-gpt": (transformers.OpenAIGPTConfig, transformers.OpenAIGPTLMHeadModel, transformers.OpenAIGPTModel),
}
NORMS: dict[str, Any] = {"gpt2": "pre", "openai-gpt": "post"}
both = pytest.mark.parametrize("kind", CLASSES)
few = settings(max_examples=8)


def theirs(kind: str, words: int = 101, **keys: Any) -> Any:
    small = dict(vocab_size=words, n_positions=96, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)
    configuration, with_head, _ = CLASSES[kind]
    torch.manual_seed(0)
    return shaken(with_head(configuration(**{**small, **keys})))


def opened(folder: Path) -> GPT:
    public = read_public(folder)
    model = GPT(public.config, public.vocabulary)
    model.load_state_dict(public.weights)
    return model.eval()


def ids(words: int = 101, length: int = 31) -> Tensor:
    return torch.randint(words, (3, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def assert_same_logits(ours: GPT, peer: Any, words: int = 101) -> None:
    expected = peer(ids(words)).logits
    assert expected.std() > 0.5  # else 1e-4 would say little
    torch.testing.assert_close(ours(ids(words)), expected, atol=1e-4, rtol=0)


def test_dropout_that_only_training_has_is_left_behind(tmp_path: Path) -> None:
    model = small_gpt(word_dropout=0.2, output_dropout=0.3)
    again = opened(export(tmp_path / "out", model))
    assert (again.config.word_dropout, again.config.output_dropout) == (0.0, 0.0)
    with torch.no_grad():
        torch.testing.assert_close(again(ids(VOCABULARY)), model(ids(VOCABULARY)))


sizes = st.fixed_dictionaries(
    {
        "n_head": st.sampled_from([1, 2, 4]),
        "n_embd": st.sampled_from([8, 24]),
        "n_layer": st.integers(1, 3),
        "n_positions": st.integers(31, 64),
        "layer_norm_epsilon": st.sampled_from([1e-5, 1e-3]),
    }
)


@few
@given(sizes, st.sampled_from([None, 5, 40]), st.sampled_from(["gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "relu"]))
def test_gpt2_opens_with_its_logits(size: dict[str, Any], n_inner: int | None, activation: str) -> None:
    peer = theirs("gpt2", **size, n_inner=n_inner, activation_function=activation)
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        assert_same_logits(opened(Path(folder)), peer)


@few
@given(sizes, st.sampled_from(["gelu", "relu"]))
def test_gpt1_opens_with_its_logits(size: dict[str, Any], activation: str) -> None:
    peer = theirs("openai-gpt", **size, afn=activation)
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        assert_same_logits(opened(Path(folder)), peer)


@few
@given(
    st.sampled_from(["pre", "post"]),
    st.sampled_from([(8, 1), (24, 3), (32, 4)]),
    st.integers(1, 3),
    st.sampled_from(["gelu_tanh", "relu"]),
    st.sampled_from([1e-5, 1e-3]),
)
def test_what_is_exported_opens_there_with_our_logits(
    norm: str, shape: tuple[int, int], layers: int, activation: str, epsilon: float
) -> None:
    (width, heads), wide = shape, {"feedforward": 4 * shape[0]}
    model = small_gpt(norm, width=width, heads=heads, layers=layers, activation=activation, norm_epsilon=epsilon, **wide)
    with tempfile.TemporaryDirectory() as folder:
        peer = transformers.AutoModelForCausalLM.from_pretrained(export(Path(folder), model)).eval()
        assert peer.dtype == torch.float32
        assert_same_logits(model, peer, VOCABULARY)


def test_gpt2_takes_another_feedforward_and_the_exact_gelu(tmp_path: Path) -> None:
    model = small_gpt("pre", feedforward=40, activation="gelu")
    peer = transformers.AutoModelForCausalLM.from_pretrained(export(tmp_path / "out", model)).eval()
    assert_same_logits(model, peer, VOCABULARY)


@both
def test_the_exported_tokenizer_gives_our_ids(kind: str, tmp_path: Path) -> None:
    from tests.families.public_folder import TOKENIZER, tokenizers

    folder = export(tmp_path / "out", small_gpt(NORMS[kind]))
    there, here = transformers.AutoTokenizer.from_pretrained(folder), tokenizers.Tokenizer.from_str(TOKENIZER)
    for text in TEXT:
        assert there(text)["input_ids"] == here.encode(text).ids
        assert "token_type_ids" not in there(text)  # which GPT-2 would add to the words
        assert there.decode(there(text)["input_ids"]) == text
    assert (there.pad_token_id, there.bos_token_id, there.eos_token_id, there.unk_token_id) == (0, 1, 2, 3)
    assert there.model_max_length == 96
    configuration = transformers.AutoConfig.from_pretrained(folder)
    assert (configuration.pad_token_id, configuration.bos_token_id, configuration.eos_token_id) == (0, 1, 2)
    generation = transformers.GenerationConfig.from_pretrained(folder)
    assert (generation.pad_token_id, generation.bos_token_id, generation.eos_token_id) == (0, 1, 2)


@both
def test_out_and_in_again_is_the_same(kind: str, tmp_path: Path) -> None:
    model = small_gpt(NORMS[kind], attention_dropout=0.25, dropout=0.125)
    public = read_public(export(tmp_path / "out", model))
    assert (public.family, public.config, public.vocabulary, public.notes) == ("gpt", model.config, VOCABULARY, ())
    assert public.weights.keys() == model.state_dict().keys()
    assert all(torch.equal(public.weights[name], tensor) for name, tensor in model.state_dict().items())
    assert public.weights["head.project.weight"] is public.weights["embed.tokens.weight"]


@both
def test_in_and_out_again_is_the_same(kind: str, tmp_path: Path) -> None:
    peer = theirs(kind, words=VOCABULARY)
    peer.save_pretrained(tmp_path / "theirs")
    again = transformers.AutoModelForCausalLM.from_pretrained(export(tmp_path / "ours", opened(tmp_path / "theirs")))
    assert type(again) is type(peer)
    assert again.state_dict().keys() == peer.state_dict().keys()
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in peer.state_dict().items())


@both
def test_a_body_without_a_head_and_so_without_a_prefix(kind: str, tmp_path: Path) -> None:
    peer = theirs(kind)
    peer.transformer.save_pretrained(tmp_path)
    assert_same_logits(opened(tmp_path), peer)


@both
def test_parts_named_by_an_index(kind: str, tmp_path: Path) -> None:
    peer = theirs(kind)
    peer.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert not (tmp_path / "model.safetensors").exists()
    assert_same_logits(opened(tmp_path), peer)


@both
@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision_is_read_as_float32(kind: str, precision: torch.dtype, tmp_path: Path) -> None:
    peer = theirs(kind).to(precision)
    peer.save_pretrained(tmp_path)
    model = opened(tmp_path)
    assert all(tensor.dtype == torch.float32 for tensor in read_public(tmp_path).weights.values())
    assert_same_logits(model, peer.float())


@both
def test_buffers_and_a_repeated_head_are_as_good_as_none(kind: str, tmp_path: Path) -> None:
    peer = theirs(kind)
    peer.save_pretrained(tmp_path)

    def repeat(tensors: dict[str, Tensor]) -> None:
        words = "wte" if kind == "gpt2" else "tokens_embed"
        tensors["lm_head.weight"] = tensors[f"transformer.{words}.weight"].clone()
        tensors["transformer.h.0.attn.bias"] = torch.ones(1, 1, 96, 96).tril().bool()
        tensors["transformer.h.1.attn.masked_bias"] = torch.tensor(-1e4)

    change_tensors(tmp_path, repeat)
    assert_same_logits(opened(tmp_path), peer)


PROMPTS = [
    row[:length].tolist()
    for length, row in enumerate(torch.randint(101, (20, 20), generator=torch.Generator().manual_seed(2)), 1)
]
TOKENS = 64


def ours_continued(model: GPT, prompts: list[list[int]]) -> list[list[int]]:
    """The last token of a prompt is the one that writing starts from."""
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts])
    padded = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long)
    for row, prompt in zip(padded, prompts):
        row[: len(prompt) - 1] = torch.tensor(prompt[:-1])
    last = torch.tensor([prompt[-1] for prompt in prompts])
    found = greedy(model.start(padded, lengths), sos=last, eos=-1, limits=[TOKENS] * len(prompts))
    return [hypothesis.ids for hypothesis in found]


def theirs_continued(peer: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Padded at the left, as transformers wants it."""
    length = max(map(len, prompts))
    padded = torch.tensor([[0] * (length - len(prompt)) + prompt for prompt in prompts])
    words = torch.tensor([[0] * (length - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    plain = dict(do_sample=False, max_new_tokens=TOKENS, eos_token_id=None, pad_token_id=0)
    return peer.generate(padded, attention_mask=words, **plain)[:, length:].tolist()


@both
def test_cached_greedy_generation_is_theirs_token_for_token(kind: str, tmp_path: Path) -> None:
    peer = theirs(kind, eos_token_id=None)
    (positions,) = (part for name, part in peer.named_parameters() if name.endswith(("wpe.weight", "positions_embed.weight")))
    positions.data *= 3  # so that texts do not run into the same loop
    peer.save_pretrained(tmp_path)
    model = opened(tmp_path)
    # GPT-1 of transformers counts positions from the padding, so it continues each prompt rightly only by itself.
    expected = theirs_continued(peer, PROMPTS) if kind == "gpt2" else [theirs_continued(peer, [p])[0] for p in PROMPTS]
    assert {len(text) for text in expected} == {TOKENS}
    assert len({tuple(text[-8:]) for text in expected}) == 20  # to their ends they depend on the prompts
    assert ours_continued(model, PROMPTS) == expected
    assert [ours_continued(model, [prompt])[0] for prompt in PROMPTS] == expected


def test_what_the_sentence_about_pickles_says_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = theirs("gpt2")
    peer.config.save_pretrained(tmp_path)
    torch.save(peer.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="safetensors only") as caught:
        read_public(tmp_path)
    (code,) = re.findall(r'python -c "(.*)"', str(caught.value))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert_same_logits(opened(tmp_path / "converted"), peer)


PUBLISHED = """activation_function afn architectures attn_pdrop bos_token_id embd_pdrop eos_token_id initializer_range
layer_norm_epsilon model_type n_ctx n_embd n_head n_layer n_positions n_special predict_special_tokens resid_pdrop
summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj task_specific_params vocab_size
_num_labels id2label label2id gradient_checkpointing use_cache torch_dtype transformers_version _name_or_path output_past"""
VERSION_4 = """return_dict output_hidden_states output_attentions torchscript torch_dtype use_bfloat16 tf_legacy_loss pruned_heads
tie_word_embeddings chunk_size_feed_forward is_encoder_decoder is_decoder cross_attention_hidden_size add_cross_attention
tie_encoder_decoder max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k
top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values
exponential_decay_length_penalty suppress_tokens begin_suppress_tokens architectures finetuning_task id2label label2id
tokenizer_class prefix bos_token_id pad_token_id eos_token_id sep_token_id decoder_start_token_id task_specific_params
problem_type _name_or_path _attn_implementation_autoset transformers_version model_type use_cache"""


@both
def test_every_key_that_transformers_writes_is_known(kind: str, tmp_path: Path) -> None:
    known = LAYOUTS[kind].keys
    others = {"activation_function"} if kind == "openai-gpt" else {"afn"}
    assert not {*PUBLISHED.split(), *VERSION_4.split()} - others - known.keys()
    configuration = CLASSES[kind][0]()
    assert not configuration.to_dict().keys() - known.keys()
    export(tmp_path / "out", small_gpt(NORMS[kind]))
    sized = {key: json.loads((tmp_path / "out/config.json").read_text())[key] for key in ("vocab_size", "n_positions")}
    sized |= dict(n_embd=24, n_layer=2, n_head=3)
    change_config(tmp_path / "out", **{**configuration.to_dict(), **sized})
    assert_same_logits(opened(tmp_path / "out"), transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out"), VOCABULARY)


@both
def test_a_missing_key_means_what_it_means_to_transformers(kind: str) -> None:
    from regard.interop.huggingface.config import understand

    config, vocabulary, *_ = understand({"model_type": kind}, LAYOUTS[kind], "config.json")
    standard = CLASSES[kind][0]()
    assert vocabulary == standard.vocab_size
    assert config == GPTConfig(
        width=standard.n_embd,
        layers=standard.n_layer,
        heads=standard.n_head,
        feedforward=4 * standard.n_embd,
        maximum_length=standard.n_positions,
        dropout=standard.resid_pdrop,
        attention_dropout=standard.attn_pdrop,
        norm_epsilon=standard.layer_norm_epsilon,
        norm_placement=NORMS[kind],
    )


def test_what_matters_in_training_only_is_noted(tmp_path: Path) -> None:
    theirs("gpt2", embd_pdrop=0.3, resid_pdrop=0.2).save_pretrained(tmp_path)
    public = read_public(tmp_path)
    assert public.config.dropout == 0.2
    (note,) = public.notes
    assert "embd_pdrop=0.3" in note
    assert "model.dropout=0.2" in note
    assert public.raw["embd_pdrop"] == 0.3

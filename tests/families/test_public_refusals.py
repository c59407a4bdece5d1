"""Public folders that cannot be opened, and models that cannot be written: each a sentence that names what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.families.gpt import GPTConfig
from regard.interop.huggingface import read_public, write_public
from regard.interop.huggingface.config import understand
from regard.interop.huggingface.gpt import GPT1, GPT2
from regard.interop.huggingface.mapping import Entry, Ignored, Layout
from regard.interop.huggingface.registry import LAYOUTS
from regard.interop.huggingface.tensors import from_public, to_public
from tests.families.public_folder import ROLES, SMALL, TOKENIZER, VOCABULARY, change_config, change_tensors, export, small_gpt

REFUSED: dict[str, list[tuple[str, Any]]] = {
    "gpt2": [
        ("scale_attn_by_inverse_layer_idx", True),
        ("scale_attn_weights", False),
        ("reorder_and_upcast_attn", True),
        ("add_cross_attention", True),
        ("tie_word_embeddings", False),
        ("is_encoder_decoder", True),
        ("pruned_heads", {"0": [1]}),
        ("activation_function", "swish"),
        ("activation_function", None),
        ("quantization_config", {"bits": 4}),
        ("auto_map", {"AutoModel": "own.Code"}),
        ("rope_theta", 10000.0),
        ("afn", "gelu"),
        ("n_embd", "24"),
        ("n_layer", 0),
        ("n_head", True),
        ("n_positions", 1.5),
        ("vocab_size", -3),
        ("n_inner", "wide"),
        ("layer_norm_epsilon", None),
    ],
    "openai-gpt": [
        ("afn", "swish"),
        ("afn", "silu"),
        ("n_inner", 40),
        ("scale_attn_weights", True),
        ("tie_word_embeddings", False),
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return export(tmp_path / "model", small_gpt())


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_public(folder)
    return str(caught.value)


@pytest.mark.parametrize(("kind", "key", "value"), [(kind, *pair) for kind, pairs in REFUSED.items() for pair in pairs])
def test_a_key_that_asks_for_something_else_is_refused_by_name_and_value(tmp_path: Path, kind: str, key: str, value: Any) -> None:
    folder = export(tmp_path / "model", small_gpt("pre" if kind == "gpt2" else "post"))
    read_public(folder)
    change_config(folder, **{key: value})
    sentence = refused(folder)
    assert f"{key}={json.dumps(value)}" in sentence
    assert str(folder / "config.json") in sentence


def test_an_unknown_key_gets_the_sentence(folder: Path) -> None:
    change_config(folder, rotary=True)
    assert refused(folder) == (
        f"{folder / 'config.json'} has rotary=true, which this version of Regard does not know; it may change the mathematics."
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
any_key = st.sampled_from(sorted({key for layout in LAYOUTS.values() for key in layout.keys})) | st.text(max_size=8)


@settings(max_examples=150)
@given(st.sampled_from(list(LAYOUTS.values())), st.dictionaries(any_key, json_values, max_size=4))
def test_any_config_is_understood_or_refused_in_one_line(layout: Layout, raw: dict[str, Any]) -> None:
    refusal = ""
    try:
        config, vocabulary, *_ = understand(raw, layout, "config.json")
    except UserError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert len(refusal) < 400
    if not refusal:
        assert set(raw) <= set(layout.keys)
        assert type(config.width) is type(vocabulary) is int
        mathematical = {key: value for key, value in raw.items() if not isinstance(layout.keys[key], Ignored)}
        again, words, *_ = understand(mathematical, layout, "config.json")  # what is ignored changes nothing
        assert (again, words) == (config, vocabulary)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_head": 5}, "model.heads=5"),
        ({"layer_norm_epsilon": 7}, "norm_epsilon=7"),
        ({"resid_pdrop": 1.5, "embd_pdrop": 1.5}, "model.dropout=1.5"),
        ({"model_type": "mamba"}, "'mamba'"),
        ({"model_type": "gpt3"}, "did you mean 'gpt2'?"),
        ({"model_type": None}, "no model_type"),
    ],
)
def test_a_config_of_no_model(folder: Path, change: Any, named: str) -> None:
    change_config(folder, **change)
    assert named in refused(folder)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '"gpt2"', "[" * 100_000, "{\udcff"])
def test_a_damaged_config(folder: Path, text: str) -> None:
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "config.json" in refused(folder)


def test_what_is_not_there(tmp_path: Path, folder: Path) -> None:
    assert f"no folder {tmp_path / 'none'}" in refused(tmp_path / "none")
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    assert "neither model.safetensors nor model.safetensors.index.json" in refused(folder)
    (folder / "config.json").unlink()
    assert f"There is no {folder / 'config.json'}" in refused(folder)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("pytorch_model.bin", ")"),
        ("model.pt", ")"),
        ("last.ckpt", ")"),
        ("tf_model.h5", ", from_tf=True)"),
        ("flax_model.msgpack", ", from_flax=True)"),
    ],
)
def test_other_weights_are_never_opened_but_can_be_converted(folder: Path, name: str, option: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"cos\nsystem\n(S'echo'\ntR.")
    sentence = refused(folder)
    assert name in sentence
    assert f"from_pretrained({str(folder)!r}{option}.save_pretrained('converted', safe_serialization=True)" in sentence
    code = re.search(r'python -c "(.*)"', sentence)
    assert code
    compile(code[1], "sentence", "exec")


@pytest.mark.parametrize("keep", [0, 7, 100, 0.5, -1])
def test_truncated_weights(folder: Path, keep: float) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(len(whole) * keep) if isinstance(keep, float) else keep])
    assert "damaged or cut short" in refused(folder)


def drop(name: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.pop(name)


def put(name: str, tensor: Tensor) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.update({name: tensor})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (drop("transformer.h.1.mlp.c_fc.bias"), "no tensor h.1.mlp.c_fc.bias"),
        (drop("transformer.ln_f.weight"), "no tensor ln_f.weight"),
        (put("score.weight", torch.ones(2, 24)), "the tensor score.weight"),
        (put("transformer.h.2.ln_1.bias", torch.ones(24)), "transformer.h.2.ln_1.bias"),
        (put("transformer.h.0.attn.c_attn.lora_A", torch.ones(2, 24)), "c_attn.lora_A"),
        (put("wte.weight", torch.ones(VOCABULARY, 24)), "two tensors for one"),
        (put("lm_head.weight", torch.ones(VOCABULARY, 24)), "lm_head.weight is not the embedding of words"),
        (put("transformer.wpe.weight", torch.ones(95, 24)), "shape (95, 24); its config.json asks for (96, 24)"),
        (put("transformer.h.0.attn.c_attn.weight", torch.ones(72, 24)), "shape (72, 24); its config.json asks for (24, 72)"),
        (put("transformer.ln_f.bias", torch.ones(24, dtype=torch.int8)), "transformer.ln_f.bias is of int8"),
    ],
)
def test_tensors_that_do_not_fit(folder: Path, change: Any, named: str) -> None:
    change_tensors(folder, change)
    assert named in refused(folder)


def test_more_layers_than_there_are_is_seen_at_once(folder: Path) -> None:
    change_config(folder, n_layer=10**9)
    assert "no tensor h.2.ln_1.weight" in refused(folder)


@pytest.mark.parametrize(
    ("index", "named"),
    [
        ("{", "cannot be read as JSON"),
        ("{}", "no weight_map"),
        ('{"weight_map": {"wte.weight": 3}}', "no weight_map"),
        ('{"weight_map": {"wte.weight": "part-2.safetensors"}}', "'part-2.safetensors', which is no file of"),
        ('{"weight_map": {"wte.weight": "../model.safetensors"}}', "'../model.safetensors', which is no file of"),
        ('{"weight_map": {"wte.wait": "part.safetensors"}}', "no tensor wte.wait"),
    ],
)
def test_an_index_that_does_not_fit(folder: Path, index: str, named: str) -> None:
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(index)
    assert named in refused(folder)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"visibility": "window(4)"}, "model.visibility=window(4)"),
        ({"position": "sinusoidal"}, "model.position=sinusoidal"),
        ({"norm_placement": "post", "feedforward": 40}, "model.feedforward=40"),
        ({"norm_placement": "post", "activation": "gelu"}, "model.activation=gelu "),
    ],
)
def test_what_has_no_key_there_is_not_written(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=re.escape(named)):
        export(tmp_path / "out", small_gpt(**changed))
    assert not list(tmp_path.iterdir())


def test_every_setting_of_ours_is_written_or_checked() -> None:
    """A setting that comes to GPT later can be exported at its default only, until the tables know it."""
    for layout in (GPT2, GPT1):
        said = {getattr(meaning, "setting", None) for meaning in layout.keys.values()}
        assert {"mixer", "visibility", "position", "norm_placement", "feedforward"} <= said | set(layout.implied({"width": 8}))
        assert {
            "width",
            "heads",
            "layers",
            "activation",
            "norm_epsilon",
            "maximum_length",
            "dropout",
            "attention_dropout",
        } <= said


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tokenizer_json": "{}"}, "The tokenizer is not one"),
        ({"roles": {"eos": "<end>"}}, "'<end>' (eos) is not in the tokenizer"),
        ({"roles": {"end": "<eos>"}}, "the role 'end'"),
        ({"vocabulary": VOCABULARY - 1}, "is of shape"),
        ({"config": GPTConfig(**{**SMALL, "layers": 1})}, "decoder.blocks.1.self.norm.weight has no place"),
        ({"config": GPTConfig(**{**SMALL, "layers": 3})}, "decoder.blocks.2.self.norm.weight is missing"),
    ],
)
def test_parts_that_do_not_belong_together_are_not_written(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    model = small_gpt()
    given = dict(config=model.config, vocabulary=VOCABULARY, weights=model.state_dict(), tokenizer_json=TOKENIZER, roles=ROLES)
    with pytest.raises(UserError, match=re.escape(named)):
        write_public(tmp_path / "out", **{**given, **changes})
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_with_more_words_than_the_model_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not belong together"):
        write_public(
            tmp_path / "out", small_gpt().config, 200, _cut(small_gpt().state_dict()), tokenizer_json=TOKENIZER, roles={}
        )


def _cut(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor[:200] if tensor.shape[:1] == (VOCABULARY,) else tensor for name, tensor in weights.items()}


def test_an_untied_head_is_not_written(tmp_path: Path) -> None:
    model = small_gpt()
    model.head.project.weight = torch.nn.Parameter(torch.ones(VOCABULARY, 24))
    with pytest.raises(UserError, match=r"head\.project\.weight is not embed\.tokens\.weight"):
        export(tmp_path / "out", model)


def test_nothing_is_overwritten_and_nothing_half_written_stays(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="exists already"):
        export(folder, small_gpt())
    (tmp_path / "empty").mkdir()
    read_public(export(tmp_path / "empty", small_gpt()))
    monkeypatch.setattr("regard.interop.huggingface.save.save_file", _disk_full)
    with pytest.raises(UserError, match="No space left"):
        export(tmp_path / "late", small_gpt())
    assert {path.name for path in tmp_path.iterdir()} == {"model", "empty"}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {(folder / "config.json").stat().st_mode & 0o777}


def _disk_full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_several_of_theirs_can_be_one_of_ours() -> None:
    """As BERT's queries, keys and values are."""
    config = GPTConfig(**SMALL)
    entry = Entry("project.weight", ("query", "key", "value"), ("3D", "D"))
    layout = Layout("toy", {"Toy": ()}, GPTConfig, {}, dict, "body.", (entry,), (), ())
    parts = {f"body.{name}": torch.randn(24, 24) for name in entry.theirs}
    ours = from_public(parts, layout, config, VOCABULARY, "here")
    assert torch.equal(ours["project.weight"], torch.cat(list(parts.values())))
    back = to_public(ours, layout, config, VOCABULARY)
    assert back.keys() == parts.keys()
    assert all(torch.equal(back[name], parts[name]) for name in parts)
    assert len({tensor.untyped_storage().data_ptr() for tensor in back.values()}) == 3

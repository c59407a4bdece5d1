"""LLaMA and GPT-2 files beside what transformers makes of them, and files that are refused."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.core.errors import UserError
from regard.families import FAMILIES, build_model
from regard.interop.gguf.models import Read, read_model
from regard.tasks.registry import open_run
from tests.command import contents, refused, regard
from tests.families.public_folder import TEXT, byte_tokenizer
from tests.interop.gguf.files import gpt2_file, llama_file, llama_model, llama_tensors, llama_values, rounded, write

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
KINDS = ("f32", "f16", "q8_0", "q4_0")


def logits(read: Read, ids_BL: torch.Tensor) -> torch.Tensor:
    config = FAMILIES[read.settings["family"]].config(**read.settings)
    model: Any = build_model(config, vocabulary=read.vocabulary)
    model.load_state_dict(read.weights)
    with torch.no_grad():
        return model.eval()(ids_BL)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_a_llama_says_what_it_says_in_transformers(kind: str, tmp_path: Path) -> None:
    """Its matrices rounded by the library of llama.cpp, and in another order than the file has."""
    path = llama_file(tmp_path / "tiny.gguf", kind)
    theirs = rounded(llama_model(), kind)
    ids_BL = torch.randint(3, 90, (2, 9))
    with torch.no_grad():
        expected = theirs(ids_BL).logits
    torch.testing.assert_close(logits(read_model(path), ids_BL), expected, atol=1e-4, rtol=0)
    assert expected.std() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpt2_says_what_it_says_in_transformers(kind: str, tmp_path: Path) -> None:
    path, model = gpt2_file(tmp_path / "tiny.gguf", kind)
    ids_BL = torch.randint(4, 290, (2, 9))
    with torch.no_grad():
        expected = rounded(model, kind)(ids_BL).logits
    torch.testing.assert_close(logits(read_model(path), ids_BL), expected, atol=1e-4, rtol=0)
    assert expected.std() > 0.1


def test_the_tokenizer_of_a_gpt2_is_the_one_it_had(tmp_path: Path) -> None:
    import tokenizers

    read, ours = tokenizers.Tokenizer.from_str(byte_tokenizer(300)), read_model(gpt2_file(tmp_path / "tiny.gguf")[0])
    for text in TEXT:
        assert ours.tokenizer.encode(text) == read.encode(text, add_special_tokens=False).ids
        assert ours.tokenizer.decode(ours.tokenizer.encode(text)) == text
    assert ours.decode == {"end": ["<eos>"]}


def test_the_tokenizer_of_a_llama_merges_by_scores_and_falls_back_on_bytes(tmp_path: Path) -> None:
    read = read_model(llama_file(tmp_path / "tiny.gguf"))
    pieces = [str(read.tokenizer.raw.id_to_token(i)) for i in read.tokenizer.encode("the cat ?")]
    assert pieces == ["▁", "t", "h", "e", "▁cat", "▁", "<0x3F>"] or pieces == ["▁the", "▁cat", "▁", "<0x3F>"]
    assert read.tokenizer.decode(read.tokenizer.encode("cat ? cat")) == "cat ? cat"
    assert read.decode == {"end": ["</s>"], "start": "<s>"}


def test_a_rotation_of_llama_3_is_found_again(tmp_path: Path) -> None:
    base, tensors = 500_000.0, llama_tensors(llama_model())
    rate_K = base ** (-torch.arange(0, 16, 2).double() / 16)
    length_K = 2 * math.pi / rate_K
    smooth_K = ((8192 / length_K - 1) / 3).clamp(0, 1)
    tensors["rope_freqs.weight"] = 1 / ((1 - smooth_K) / 8 + smooth_K)
    path = write(tmp_path / "tiny.gguf", "llama", llama_values(**{"llama.rope.freq_base": base}), tensors, "f32")
    settings = read_model(path).settings
    assert (settings["rotary_scaling"], settings["rotary_factor"], settings["rotary_context"]) == ("llama3", 8.0, 8192)
    tensors["rope_freqs.weight"] = tensors["rope_freqs.weight"] * 1.1
    path = write(tmp_path / "other.gguf", "llama", llama_values(**{"llama.rope.freq_base": base}), tensors, "f32")
    with pytest.raises(UserError, match=r"neither Llama 3\.1 nor 3\.2"):
        read_model(path)


def test_a_file_becomes_a_run_that_writes(tmp_path: Path) -> None:
    path, _ = gpt2_file(tmp_path / "tiny.gguf", "q8_0")
    ran = regard("import", path, tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "for task language_model" in ran.err
    before = contents(tmp_path / "run")
    heard: list[str] = []
    open_run(tmp_path / "run", "cpu", ["decode.search=greedy", "decode.maximum_length=5"]).predict(
        ["the"], None, False, heard.append
    )
    assert heard
    assert contents(tmp_path / "run") == before


BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"llama.attention.head_count": 0}, "llama.attention.head_count=0"),
    ({"llama.embedding_length": None}, "llama.embedding_length=None"),
    ({"llama.block_count": 3}, "no tensor blk.2.attn_q.weight"),
    ({"llama.block_count": 1}, "for which this version of Regard has no place"),
    ({"llama.feed_forward_length": 95}, "damaged"),
    ({"llama.rope.dimension_count": 8}, "rotates 8 of 16"),
    ({"llama.rope.scaling.type": "yarn"}, "'yarn'"),
    ({"llama.expert_count": 8}, "mixture of experts"),
    ({"tokenizer.ggml.tokens": None}, "no tokenizer.ggml.tokens"),
    ({"tokenizer.ggml.model": "bert"}, "'bert'"),
    ({"tokenizer.ggml.scores": [1.0]}, "no tokenizer.ggml.scores for each of its"),
    ({"tokenizer.ggml.eos_token_id": 1000}, "names 1000 as its eos token"),
    ({"tokenizer.ggml.tokens": ["a"] * 200}, "tokenizer.ggml.scores"),
    ({"tokenizer.ggml.model": "gpt2"}, "tokenizer.ggml.merges"),
    ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "tekken"}, "'tekken'"),
    ({"general.alignment": 0}, "alignment"),
]


@pytest.mark.parametrize(("more", "said"), BAD_VALUES)
def test_values_that_mean_no_model_of_ours_are_refused(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    if more.get("general.alignment") == 0:
        content = llama_file(path, **{"general.alignment": 32}).read_bytes()
        key = b"general.alignment" + struct.pack("<I", 4)
        path.write_bytes(content.replace(key + struct.pack("<I", 32), key + struct.pack("<I", 0)))
    else:
        llama_file(path, **more)
    refused(regard("import", path, tmp_path / "run"), said)
    assert not (tmp_path / "run").exists()


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.gguf", "gemma", llama_values(), llama_tensors(llama_model()), "f32")
    refused(regard("import", path, tmp_path / "run"), "'gemma'", "llama and gpt2 are read")


def test_an_import_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    path = llama_file(tmp_path / "tiny.gguf")
    (tmp_path / "folder.gguf").mkdir()
    refused(regard("import", path, tmp_path / "run", "--check"), "--check compares with transformers")
    refused(regard("import", tmp_path / "folder.gguf", tmp_path / "run"), "folder")
    refused(regard("import", tmp_path / "none.gguf", tmp_path / "run"), "none.gguf")
    refused(regard("import", path, tmp_path / "run", "task.name=classification"), "classification")
    assert not (tmp_path / "run").exists()

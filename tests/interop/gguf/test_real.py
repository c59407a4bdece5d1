"""The weights and the vocabulary of stories260K in a GGUF file: the text that they are known to write."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import transformers

from regard.commands.convert import import_public
from regard.tasks.registry import open_run
from tests.interop.gguf.files import LLAMA_NAMES, interleaved, write
from tests.model.position.schemes import shared_data


def vocabulary(path: Path) -> tuple[list[str], list[float]]:
    """Return the pieces and scores that llama2.c keeps: of each, a float, a length and its bytes."""
    content, at, pieces, scores = path.read_bytes(), 4, list[str](), list[float]()
    while at < len(content):
        score, length = struct.unpack_from("<fi", content, at)
        piece = content[at + 8 : at + 8 + length].decode().replace(" ", "▁")
        pieces.append(piece.strip("\n") if "<" in piece else piece)
        scores.append(score)
        at += 8 + length
    return ["<unk>", "<s>", "</s>", *pieces[3:]], scores


def test_it_writes_its_published_text(tmp_path: Path) -> None:
    folder = shared_data("weights/stories260K")
    config = json.loads((folder / "hf" / "config.json").read_text())
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder / "hf")
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {"token_embd.weight": theirs.model.embed_tokens.weight, "output_norm.weight": theirs.model.norm.weight}
    for n, layer in enumerate(theirs.model.layers):
        for name, ours in LLAMA_NAMES.items():
            weight = layer.get_submodule(name).weight
            tensors[f"blk.{n}.{ours}.weight"] = interleaved(weight, heads[ours]) if ours in heads else weight
    pieces, scores = vocabulary(folder / "tok512.bin")
    values: dict[str, Any] = {
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.block_count": config["num_hidden_layers"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": heads["attn_q"],
        "llama.attention.head_count_kv": heads["attn_k"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (len(pieces) - 259)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    path = write(tmp_path / "stories.gguf", "llama", values, tensors, "f32")
    import_public(str(path), tmp_path / "run", lambda line: None)
    opened = open_run(tmp_path / "run", "cpu", ["decode.search=greedy", "decode.maximum_length=80"])
    said: list[str] = []
    opened.predict([""], None, False, said.append)
    found = "".join(said).strip()
    assert len(found) > 100
    assert (folder / "greedy.txt").read_text().strip().startswith(found)

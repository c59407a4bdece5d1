"""The three kinds of model that CTranslate2 runs, and the folder of each: model.bin, config.json and the vocabulary.

    TransformerSpec          reads a source and writes a target       Translator: translate_batch, score_batch
    TransformerDecoderSpec   continues a text                         Generator: generate_batch, forward_batch
    TransformerEncoderSpec   gives vectors, and one of a whole text   Encoder: forward_batch

A model is of the kind that its family's capabilities say. Heads for classes, tags and answers have no place in these folders:
`heads.safetensors` holds their weights beside the model, by the names that they have here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import write_whole
from regard.families import family_of
from regard.interop.ctranslate2 import parts
from regard.interop.ctranslate2.binary import PRECISIONS, write_model
from regard.interop.ctranslate2.parts import ACTIVATIONS, Variables, number, refuse
from regard.interop.exported import ExportedModel
from regard.text.tokenizer import Tokenizer


class Kind(NamedTuple):
    """A kind of model: its name in model.bin, its revision, and the variables of a model of ours."""

    name: str
    revision: int
    variables: Callable[[Any], Variables]
    needs: str  # the capability of its families


def _translator(model: Any) -> Variables:
    config = model.config
    yield "encoder/embeddings_merge", number(0, torch.int8)
    for name, embed, stack, tables in (
        ("encoder", model.source, model.encoder, ("embeddings_0",)),
        ("decoder", model.target, model.decoder, ("embeddings",)),
    ):
        yield from parts.embedding(name, embed, tables)
        yield from parts.positions(name, embed, stack.position)
        yield from parts.stack(name, config, stack, causal=name == "decoder")
    yield from _written(model)


def _generator(model: Any) -> Variables:
    yield from parts.embedding("decoder", model.embed, ("embeddings",))
    yield from parts.positions("decoder", model.embed, model.decoder.position)
    yield from parts.stack("decoder", model.config, model.decoder, causal=True)
    yield from _written(model)


def _written(model: Any) -> Variables:
    """Yield what a decoder needs to write."""
    yield "decoder/alignment_layer", number(-1, torch.int16)
    yield "decoder/alignment_heads", number(1, torch.int16)
    yield "decoder/start_from_zero_embedding", number(0, torch.int8)
    yield from parts.head("decoder", model.head)


def _encoder(model: Any) -> Variables:
    segments = getattr(model.embed, "segments", None) is not None
    yield "encoder/embeddings_merge", number(1, torch.int8)  # added
    yield from parts.embedding("encoder", model.embed, ("embeddings_0", *(["embeddings_1"] if segments else [])))
    yield from parts.positions("encoder", model.embed, model.encoder.position)
    yield from parts.stack("encoder", model.config, model.encoder, causal=False)
    if (activation := pooled_by(model)) is not None:
        yield from parts.linear("pooler_dense", model.pooler.project)
        yield "pooler_activation", number(ACTIVATIONS[activation], torch.int8)


def pooled_by(model: Any) -> str | None:
    """Return the activation of the layer that makes one vector of a text, None where CTranslate2 has no such layer."""
    choice = getattr(model.config, "pooler", None)
    return choice if choice in ACTIVATIONS and hasattr(model, "pooler") else None


KINDS = (
    Kind("TransformerSpec", 7, _translator, "seq2seq"),
    Kind("TransformerDecoderSpec", 8, _generator, "causal_lm"),
    Kind("TransformerEncoderSpec", 1, _encoder, "token_vectors"),
)


def kind_of_family(config: Any) -> Kind:
    """Return the kind of models with these settings; refuse a family that CTranslate2 has no kind for."""
    family = family_of(config)
    kind = next((kind for kind in KINDS if family.has(kind.needs)), None)
    if kind is None or not family.has("blocks") or family.has("replaced_token"):
        raise refuse(f"model.family={family.name}, but Transformers that translate, continue a text or give vectors of one")
    return kind


def kind_of(model: Any) -> Kind:
    """Return the kind of a model; refuse one with parts that no kind has."""
    kind = kind_of_family(model.config)
    if getattr(model, "segment_memory", None) is not None:
        raise refuse("a memory of earlier segments, model.memory")
    parts.must_see_everything(model.visibility, model.config.visibility)
    return kind


def write_folder(folder: Path, subject: ExportedModel, heads: Mapping[str, Tensor], quantization: str) -> None:
    """Write the folder of a model; `heads` are weights of the run that CTranslate2 has no place for."""
    kind = kind_of(subject.model)
    variables = dict(kind.variables(subject.model))
    for name, content in _described(kind, subject, variables).items():
        write_whole(folder / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    for name, file in subject.files.items():
        write_whole(folder / name, file)
    if heads:
        write_whole(folder / "heads.safetensors", save({name: tensor.contiguous() for name, tensor in heads.items()}))
    write_model(folder / "model.bin", kind.name, kind.revision, variables, PRECISIONS[quantization])


def _described(kind: Kind, subject: ExportedModel, variables: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return config.json and the vocabularies, by the names of their files."""
    reads, writes = subject.tokenizer, subject.written
    if reads is None or writes is None:
        raise UserError(f"{subject.name} has no vocabulary, and CTranslate2 runs models of text; export it with --to onnx.")
    config: dict[str, Any] = {
        "layer_norm_epsilon": subject.config.norm_epsilon,
        "multi_query_attention": subject.config.kv_heads not in (0, subject.config.heads),
        "bos_token": token(writes, subject.start),
        "eos_token": token(writes, subject.start if subject.end is None else subject.end),
        "unk_token": token(writes, subject.start if writes.roles.unk is None else writes.roles.unk),
    }
    if kind.needs != "seq2seq":
        stack = "decoder/embeddings" if kind.needs == "causal_lm" else "encoder/embeddings_0"
        return {"config.json": config, "vocabulary.json": pieces(reads, len(variables[f"{stack}/weight"]))}
    config |= {"decoder_start_token": config["bos_token"], "add_source_bos": False, "add_source_eos": False}
    read = pieces(reads, len(variables["encoder/embeddings_0/weight"]))
    written = pieces(writes, len(variables["decoder/embeddings/weight"]))
    shared = {"shared_vocabulary.json": read} if read == written else {}
    return {"config.json": config, **(shared or {"source_vocabulary.json": read, "target_vocabulary.json": written})}


def token(tokenizer: Tokenizer, i: int) -> str:
    return str(tokenizer.raw.id_to_token(i))


def pieces(tokenizer: Tokenizer, rows: int) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids; rows of a table without a piece have names of their own."""
    return [tokenizer.raw.id_to_token(i) or f"<unused_{i}>" for i in range(rows)]

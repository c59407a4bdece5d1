"""Writes a model as a folder that transformers opens: `AutoModelForCausalLM` a GPT, a BERT the class that has its heads.

`config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json` and, of a GPT, `generation_config.json`. All is
checked before anything is written, and the folder appears whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.core.files import draft_folder, is_free
from regard.families.bert import BERTConfig
from regard.interop.huggingface.config import express
from regard.interop.huggingface.heads import NAMED, architecture_of, heads_of_weights
from regard.interop.huggingface.mapping import Config, Layout
from regard.interop.huggingface.registry import layout_of
from regard.interop.huggingface.tensors import to_public

ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")  # of special tokens, as transformers calls them
IN_CONFIG = ("bos", "eos", "pad")
NOTHING: Mapping[str, str | bytes] = {}
NO_SETTINGS: Mapping[str, Any] = {}


def write_public(
    folder: Path,
    config: Config,
    vocabulary: int,
    weights: Mapping[str, Tensor],
    *,
    tokenizer_json: str = "",
    roles: Mapping[str, str] = NO_SETTINGS,
    labels: Sequence[str] = (),
    model_type: str = "",
    beside: Mapping[str, str | bytes] = NOTHING,
    target_vocabulary: int = 0,
    generation: Mapping[str, Any] = NO_SETTINGS,
) -> str:
    """Write a folder for transformers; return the name of the class that opens it.

    `weights` as the model's `state_dict` has them; `roles` gives special tokens their meaning, such as {"eos": "<eos>"}. A model
    of images has no tokenizer. `labels` name classes or tags. Of the types of model that compute the same (`roberta` and
    `camembert`) one may be named.
    `beside` are more small files, by their names, those of other tokenizers in place of tokenizer.json among them; `generation`
    has what generation_config.json says of a search.
    """
    layout = layout_of(config, model_type)
    said = express(config, vocabulary, layout, target_vocabulary)
    clusters = weights[layout.clusters].tolist() if layout.clusters else []
    weights = {name: tensor for name, tensor in weights.items() if name != layout.clusters}
    heads = heads_of_weights(weights, layout)
    architecture = architecture_of(heads, layout)
    names = _labels(weights, heads, labels)
    tensors = to_public(weights, layout, config, vocabulary, heads, len(names), target_vocabulary)
    ids = _ids(tokenizer_json, roles, vocabulary) if tokenizer_json else {}
    special = {f"{role}_token_id": ids.get(role) for role in IN_CONFIG if tokenizer_json}  # null too: their defaults are GPT-2's
    _must_pad_alike(said, special, layout)
    if layout.reads_a_source:
        special["decoder_start_token_id"] = generation.get("decoder_start_token_id", special["bos_token_id"])
    described = {"architectures": [architecture], "model_type": layout.model_type, **special, **said, "dtype": "float32"}
    if names:
        described |= {
            "id2label": {str(n): name for n, name in enumerate(names)},
            "label2id": {name: n for n, name in enumerate(names)},
        }
    files = {"config.json": described}
    if tokenizer_json:
        files["tokenizer_config.json"] = _tokenizer_config(roles, config)
    if layout.preprocessor is not None:
        files["preprocessor_config.json"] = layout.preprocessor(config) | ({"clusters": clusters} if clusters else {})
    if layout.writes:
        files["generation_config.json"] = {key: i for key, i in special.items() if i is not None} | dict(generation)
    texts: dict[str, str | bytes] = {name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}
    own = {} if "tokenizer_config.json" in beside or not tokenizer_json else {"tokenizer.json": tokenizer_json}
    _write(folder, texts | own | dict(beside), tensors)
    return layout.opened_by(described)


def _labels(weights: Mapping[str, Tensor], heads: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return label names, as many as the head has outputs; LABEL_0 and so on where they have no names."""
    sizes = [len(weights[f"{head}.project.weight"]) for head in heads if head in NAMED]
    if not sizes and labels:
        raise UserError(f"{len(labels)} labels are given, but the model has no head for classes or tags.")
    if labels and len(labels) != sizes[0]:
        raise UserError(f"{len(labels)} labels are given, but the model has {sizes[0]} outputs.")
    if len({*labels}) < len(labels):
        raise UserError("Two labels have the same name; transformers finds a label's number by its name.")
    return tuple(labels) or tuple(f"LABEL_{n}" for n in range(*sizes[:1] or (0,)))


def _must_pad_alike(said: Mapping[str, Any], special: Mapping[str, int | None], layout: Layout) -> None:
    """Refuse a padding id other than RoBERTa's: transformers finds padding by it and starts positions after it."""
    padding, own = said.get("pad_token_id"), special.get("pad_token_id")
    if padding is not None and own is not None and padding != own:
        raise UserError(
            f"The tokenizer pads with the id {own}, but the positions of {layout.model_type} of transformers start behind that "
            f"of its padding, which model.first_position={padding + 1} says is {padding}; they do not belong together."
        )


def _ids(tokenizer_json: str, roles: Mapping[str, str], vocabulary: int) -> dict[str, int]:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    except Exception as error:  # tokenizers raises nothing narrower
        raise UserError(f"The tokenizer is not one that `tokenizers` can read ({error}).") from error
    if (largest := max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)) >= vocabulary:
        raise UserError(
            f"The tokenizer has the id {largest}, but the model knows only {vocabulary} words; they do not belong together."
        )
    ids: dict[str, int] = {}
    for role, token in roles.items():
        if role not in ROLES:
            raise UserError(f"The special token {token!r} has the role {role!r}, which is not known{nearest(role, ROLES)}")
        if (i := tokenizer.token_to_id(token)) is None:
            raise UserError(f"The special token {token!r} ({role}) is not in the tokenizer.")
        ids[role] = i
    return ids


def _tokenizer_config(roles: Mapping[str, str], config: Config) -> dict[str, Any]:
    segments = isinstance(config, BERTConfig) and config.segments > 1
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.maximum_length,
        # By default, transformers 4 gives segments, which GPT-2 would take for words, and 5 gives none, which BERT needs.
        "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": token for role, token in roles.items()},
    }


def _write(folder: Path, contents: Mapping[str, str | bytes], tensors: Mapping[str, Tensor]) -> None:
    if not is_free(folder):
        raise UserError(f"{folder} exists already and is not an empty folder; choose another name, or remove it first.")
    try:
        with draft_folder(folder, last="config.json") as draft:
            for name, content in contents.items():
                (draft / name).parent.mkdir(exist_ok=True)
                (draft / name).write_bytes(content if isinstance(content, bytes) else content.encode())
            save_file(dict(tensors), draft / "model.safetensors", metadata={"format": "pt"})
            # safetensors lets only the owner read what it writes; a model to be handed on is as readable as its config.
            (draft / "model.safetensors").chmod((draft / "config.json").stat().st_mode)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be written ({error}).") from error

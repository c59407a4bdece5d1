"""Writes a model as a folder that `transformers.AutoModelForCausalLM` and `AutoTokenizer` open.

`config.json`, `generation_config.json`, `model.safetensors`, `tokenizer.json` and `tokenizer_config.json`. All is checked before
anything is written, and the folder appears whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import UserError, nearest
from regard.families.gpt import GPTConfig
from regard.families.public.gpt import GPT1, GPT2
from regard.families.public.settings import express
from regard.families.public.tensors import to_public

ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")  # of special tokens, as transformers calls them
IN_CONFIG = ("bos", "eos", "pad")
LAYOUT_OF_NORM = {"pre": GPT2, "post": GPT1}


def write_public(
    folder: Path,
    config: GPTConfig,
    vocabulary: int,
    weights: Mapping[str, Tensor],
    *,
    tokenizer_json: str,
    roles: Mapping[str, str],
) -> None:
    """`weights` as the model's `state_dict` has them; `roles` gives special tokens their meaning, such as {"eos": "<eos>"}."""
    layout = LAYOUT_OF_NORM[config.norm]
    said = express(config, vocabulary, layout)
    tensors = to_public(weights, layout, config, vocabulary)
    ids = _ids(tokenizer_json, roles, vocabulary)
    special = {f"{role}_token_id": ids.get(role) for role in IN_CONFIG}  # null too: transformers' defaults are GPT-2's
    described = {"architectures": [layout.architecture], "model_type": layout.model_type, **said, **special, "dtype": "float32"}
    files = {
        "config.json": described,
        "generation_config.json": {key: i for key, i in special.items() if i is not None},
        "tokenizer_config.json": _tokenizer_config(roles, config.maximum_length),
    }
    texts = {name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}
    _write(folder, texts | {"tokenizer.json": tokenizer_json}, tensors)


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


def _tokenizer_config(roles: Mapping[str, str], maximum_length: int) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": maximum_length,
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": token for role, token in roles.items()},
    }


def _write(folder: Path, texts: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already and is not an empty folder; choose another name, or remove it first.")
    temporary = folder.with_name(f".{folder.name}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, text in texts.items():
            (temporary / name).write_text(text, encoding="utf-8")
        save_file(dict(tensors), temporary / "model.safetensors", metadata={"format": "pt"})
        # safetensors lets only the owner read what it writes; a model to be handed on is as readable as its config.
        (temporary / "model.safetensors").chmod((temporary / "config.json").stat().st_mode)
        temporary.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(f"{folder} cannot be written ({error}).") from error

"""The pooling settings of a sentence-transformers folder: `modules.json` lists the steps, each with its settings.

    modules.json                  which steps: the model, Pooling, and perhaps Normalize
    1_Pooling/config.json         mean of all tokens, or the first one's
    sentence_bert_config.json     the tokens after which a text is cut

A step or a setting that would give other vectors than ours is refused by name. Only these small files are read, and written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import UserError
from regard.interop.huggingface.load import read_json, read_object
from regard.model.heads import VectorPooling, VectorsConfig

MODULES, CUTTING, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
STEPS = ("Transformer", "Pooling", "Normalize")
POOLING = "1_Pooling/config.json"
LEGACY = "pooling_mode_"  # one key a mode, true or false; since version 6 there is one key, with the mode
MODES: dict[str, VectorPooling] = {"mean": "mean", "mean_tokens": "mean", "cls": "cls", "cls_token": "cls"}


class Sentences(NamedTuple):
    vectors: VectorsConfig
    maximum_tokens: int  # 0: as many as the model has positions


def read_sentences(folder: Path) -> Sentences | None:
    """Read the settings, or return None if the folder has none."""
    if not (folder / MODULES).exists():
        return None
    steps = _steps(folder / MODULES)
    cutting = _object(folder / CUTTING, folder)
    _must_be(folder / CUTTING, cutting, "do_lower_case", (False, None))
    _must_be(folder / PROMPTS, _object(folder / PROMPTS, folder), "default_prompt_name", (None, ""))
    longest = cutting.get("max_seq_length") or 0
    if type(longest) is not int or longest < 0:
        raise UserError(f"{folder / CUTTING} has max_seq_length={str(longest)[:40]}; a whole number of tokens is expected.")
    return Sentences(VectorsConfig(pooling=_mode(folder / POOLING, folder), normalised="Normalize" in steps), longest)


def written_sentences(vectors: VectorsConfig, width: int, maximum_tokens: int) -> dict[str, str]:
    """Return the settings as files by name, which sentence-transformers opens beside a model."""
    steps = STEPS if vectors.normalised else STEPS[:2]
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{step}" if n else "", "type": f"sentence_transformers.models.{step}"}
        for n, step in enumerate(steps)
    ]
    modes = {f"{LEGACY}{mode}": MODES[mode] == vectors.pooling for mode in ("cls_token", "mean_tokens")}
    files: dict[str, Any] = {
        MODULES: modules,
        POOLING: {"word_embedding_dimension": width, **modes},
        CUTTING: {"max_seq_length": maximum_tokens, "do_lower_case": False},
    }
    return {name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}


def _steps(path: Path) -> list[str]:
    """Return the names of the steps: a model, then operations on its vectors."""
    listed = read_json(path, path.parent)
    kinds = [step.get("type") for step in listed if isinstance(step, dict)] if isinstance(listed, list) else []
    names = [str(kind).rpartition(".")[-1] for kind in kinds]
    for name in names:
        if name not in STEPS:
            raise UserError(f"{path} has a step {name[:40]}, which this version of Regard does not compute; it has {_known()}.")
    if tuple(names) not in (STEPS, STEPS[:2]):
        raise UserError(f"{path} does not list {_known()} in this order, the last or not; download or copy it again.")
    return names


def _mode(path: Path, folder: Path) -> VectorPooling:
    found = _object(path, folder)
    legacy = [key.removeprefix(LEGACY) for key, chosen in found.items() if key.startswith(LEGACY) and chosen is True]
    given = found.get("pooling_mode", legacy)
    modes = [str(mode) for mode in (given if isinstance(given, list) else [given])]
    if len(modes) != 1 or modes[0] not in MODES:
        said = " and ".join(modes)[:60] or "nothing"
        raise UserError(f"{path} pools by {said}, which this version of Regard does not; it knows mean and cls.")
    return MODES[modes[0]]


def _object(path: Path, folder: Path) -> Mapping[str, Any]:
    return read_object(path, folder) if path.exists() else {}


def _must_be(path: Path, found: Mapping[str, Any], key: str, values: tuple[Any, ...]) -> None:
    if found.get(key) not in values:
        raise UserError(
            f"{path} has {key}={json.dumps(found[key])[:60]}, which would change texts before they are read; Regard reads "
            "them as they are."
        )


def _known() -> str:
    return ", ".join(STEPS)

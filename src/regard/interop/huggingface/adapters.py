"""Low-rank adapters in the layout of `peft`: `adapter_config.json` and `adapter_model.safetensors`, by the names of transformers.

Which module of theirs a matrix of ours is, the tables of the model's layout say. Where both share a matrix among queries, keys
and values (GPT-2's `c_attn`), theirs has one adapter: ours side by side, A below each other and B as blocks, of the sum of
their ranks. `alpha_pattern` and `rank_pattern` keep the scale. Heads that learned whole are stored whole (`modules_to_save`).

An adapter is read by adding it to the weights of its base model, so it opens as a model like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import draft_folder, is_free, read_json
from regard.core.terminal import quoted
from regard.interop.huggingface.heads import heads_of_weights
from regard.interop.huggingface.load import read_object, read_tensor_file
from regard.interop.huggingface.mapping import Config, Entry, Layout
from regard.interop.huggingface.registry import layout_of
from regard.interop.huggingface.tensors import short_name
from regard.training.lora import Part, adapters_of

CONFIG, WEIGHTS, LABELS = "adapter_config.json", "adapter_model.safetensors", "adapter_labels.json"
ROOT = "base_model.model."  # before every name in the file of weights
NEEDED: dict[str, Any] = {"peft_type": "LORA", "bias": "none", "use_dora": False, "use_rslora": False, "lora_bias": False}
TASKS = {"classes": "SEQ_CLS", "tags": "TOKEN_CLS", "span": "QUESTION_ANS"}
HEADS = {"classes": "SequenceClassification", "tags": "TokenClassification", "span": "QuestionAnswering"}
FUSED = ("query", "key", "value")


class LoraSettings(NamedTuple):
    """The settings that a `peft` adapter is described by."""

    rank: int
    alpha: float
    dropout: float


def write_adapter(
    folder: Path,
    config: Config,
    weights: Mapping[str, Tensor],
    base: str,
    settings: LoraSettings,
    labels: Sequence[str] = (),
) -> None:
    """Write the adapters in `weights`, and the heads that learned with them, for the base model `base` of transformers."""
    layout = layout_of(config)
    heads = heads_of_weights([name for name in weights if ".adapters." not in name], layout)
    entries = {entry.ours: entry for entry in layout.entries(config, heads)}
    tensors, ranks = dict[str, Tensor](), dict[str, int]()
    transposed, together = False, _by_module(weights, entries, layout)
    for theirs, parts in together.items():
        entry = entries[f"{parts[0].matrix}.weight"]
        down_RI, up_OR = parts[0].down_RI, parts[0].up_OR
        if len(entry.theirs) == 1 and parts[0].name in FUSED:
            down_RI, up_OR = _side_by_side(parts, len(weights[entry.ours]))
        name = f"{ROOT}{layout.prefix if entry.inside else ''}{theirs}"
        tensors |= {f"{name}.lora_A.weight": down_RI, f"{name}.lora_B.weight": up_OR}
        transposed |= entry.transposed
        if len(down_RI) != settings.rank:
            ranks[theirs] = len(down_RI)
    learned, modules = _learned_heads(weights, layout, entries.values())
    described = {
        "peft_type": "LORA",
        "task_type": _task_type(heads, layout),
        "base_model_name_or_path": base,
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": settings.dropout,
        "target_modules": sorted(together),
        "rank_pattern": ranks,
        "alpha_pattern": {theirs: settings.alpha / settings.rank * rank for theirs, rank in ranks.items()},
        "fan_in_fan_out": transposed,
        "modules_to_save": modules or None,
        "bias": "none",
        "inference_mode": True,
    }
    _write(folder, {CONFIG: described} | ({LABELS: list(labels)} if labels else {}), tensors | learned)


def _by_module(weights: Mapping[str, Tensor], entries: Mapping[str, Entry], layout: Layout) -> dict[str, list[Part]]:
    """Return our adapters by the module of theirs that they belong to."""
    found: dict[str, list[Part]] = {}
    for part in adapters_of(weights):
        if (entry := entries.get(f"{part.matrix}.weight")) is None:
            raise UserError(
                f"The adapter of {part.matrix} has no place in a {layout.model_type} of transformers; export with --to hf."
            )
        place = FUSED.index(part.name) - len(FUSED) if len(entry.theirs) > 1 else 0  # theirs are one a part, or one for all
        found.setdefault(entry.theirs[place].removesuffix(".weight"), []).append(part)
    return found


def _side_by_side(parts: Sequence[Part], rows: int) -> tuple[Tensor, Tensor]:
    """Return A and B of one adapter for a matrix of so many rows, of which each part has its own."""
    down_RI = torch.cat([part.down_RI for part in parts])
    up_OR, first = down_RI.new_zeros(rows, len(down_RI)), 0
    for part in parts:
        last = first + part.up_OR.shape[1]
        up_OR[part.rows, first:last] = part.up_OR
        first = last
    return down_RI, up_OR


def _learned_heads(
    weights: Mapping[str, Tensor], layout: Layout, entries: Iterable[Entry]
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the weights of heads above the body by their public names, and the modules that hold them."""
    tensors, modules = dict[str, Tensor](), list[str]()
    for entry in entries:
        if entry.ours.startswith(("classes.", "tags.", "span.", "pooler.")) and entry.ours in weights:
            name = f"{layout.prefix if entry.inside else ''}{entry.theirs[0]}"
            tensors[f"{ROOT}{name}"] = weights[entry.ours]
            modules.append(name.rpartition(".")[0])
    return tensors, sorted(set(modules))


def _task_type(heads: Iterable[str], layout: Layout) -> str:
    without = "CAUSAL_LM" if layout.writes else "FEATURE_EXTRACTION"
    return next((TASKS[head] for head in heads if head in TASKS), without)


def _write(folder: Path, texts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    if not is_free(folder):
        raise UserError(f"{folder} exists already and is not an empty folder; choose another name, or remove it first.")
    dense = {name: tensor.detach().to("cpu", torch.float32, copy=True).contiguous() for name, tensor in tensors.items()}
    with draft_folder(folder, last=CONFIG) as draft:
        for name, content in texts.items():
            (draft / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        save_file(dense, draft / WEIGHTS, metadata={"format": "pt"})


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


class Adapter:
    """An adapter folder, read and checked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.settings = folder, read_object(folder / CONFIG, folder)
        for key, value in NEEDED.items():
            if (given := self.settings.get(key, value)) != value:
                raise UserError(f"{folder / CONFIG} has {key}={quoted(str(given))}; adapters with {key}={value} are read.")
        base = self.settings.get("base_model_name_or_path")
        if not isinstance(base, str) or not base:
            raise UserError(f"{folder / CONFIG} names no base model; set base_model_name_or_path to a folder or a hub id.")
        self.base = base
        stored = read_tensor_file(folder / WEIGHTS, folder)
        self.tensors = {name.removeprefix(ROOT): tensor for name, tensor in stored.items()}

    def described(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `config.json` of the adapted model: that of its base, with the head and the labels that came along."""
        kind = {name: head for head, name in TASKS.items()}.get(str(self.settings.get("task_type")))
        if kind is None or not self.settings.get("modules_to_save"):
            return dict(raw)
        named = raw.get("architectures")
        body = str(named[0] if isinstance(named, list) and named else "").partition("For")[0].removesuffix("Model")
        labels = {} if kind == "span" else {"id2label": {str(n): label for n, label in enumerate(self._labels())}}
        return {**raw, "architectures": [f"{body}For{HEADS[kind]}"], **labels}

    def _labels(self) -> list[str]:
        if (self.folder / LABELS).is_file():
            return [str(label) for label in read_json(self.folder / LABELS, within=self.folder)]
        ends = ("classifier.weight", "out_proj.weight")
        return [f"LABEL_{n}" for name, tensor in self.tensors.items() if name.endswith(ends) for n in range(len(tensor))]

    def added_to(self, tensors: Mapping[str, Tensor], layout: Layout, config: Config) -> dict[str, Tensor]:
        """Return the public weights of the base model with this adapter added; refuse one of another model."""
        stored = {short_name(name, layout): name for name in tensors}
        turned = {theirs for entry in layout.entries(config) for theirs in entry.theirs if entry.transposed}
        found, left = dict(tensors), dict(self.tensors)
        for name in [name for name in left if name.endswith(".lora_A.weight")]:
            module = name.removesuffix(".lora_A.weight")
            short = short_name(f"{module}.weight", layout)
            down_RI, up_OR = left.pop(name), left.pop(f"{module}.lora_B.weight", None)
            if short not in stored or up_OR is None:
                raise self._other_model(f"{module} has no lora_B" if up_OR is None else f"it has no {module}")
            added_OI = self._scale(module, len(down_RI)) * (up_OR.float() @ down_RI.float())
            added, weight = added_OI.T if short in turned else added_OI, found[stored[short]]
            if added.shape != weight.shape:
                raise self._other_model(f"{module} is {tuple(weight.shape)} there and {tuple(added.shape)} here")
            found[stored[short]] = weight.float() + added
        for name, tensor in left.items():
            if "lora_" in name:
                raise UserError(f"{self.folder / WEIGHTS} has {quoted(name)}, which cannot be added to a weight.")
            found[stored.get(short_name(name, layout), name)] = tensor
        return found

    def _scale(self, module: str, rank: int) -> float:
        """Return alpha / r; both may have other values for modules whose names end so."""

        def value(pattern: str, default: Any) -> float:
            table = self.settings.get(pattern) or {}
            return float(next((number for end, number in table.items() if f".{module}".endswith(f".{end}")), default))

        said = value("rank_pattern", self.settings.get("r", rank))
        if said != rank:
            raise UserError(f"{self.folder}: {module} has rank {rank}, and {CONFIG} says {said:g}; copy both again.")
        return value("alpha_pattern", self.settings.get("lora_alpha", rank)) / rank

    def _other_model(self, why: str) -> UserError:
        return UserError(
            f"{self.folder} is an adapter for another model than {self.base}: {why}; give the model that it was trained on."
        )

"""Read a public model from its folder: `config.json`, and `model.safetensors` or the parts that its index names.

Nothing is ever unpickled: a folder with other weights gets a sentence that says how to convert them. Links
in a folder are not followed out of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core import files
from regard.core.errors import UserError, nearest
from regard.core.files import MIB, format_size, open_regular
from regard.core.terminal import quoted
from regard.families.base import MASKED_WORDS, Heads
from regard.interop.huggingface.config import understand
from regard.interop.huggingface.heads import as_heads, find_heads, read_labels
from regard.interop.huggingface.imagegpt import read_palette
from regard.interop.huggingface.mapping import Config, Layout
from regard.interop.huggingface.registry import LAYOUTS
from regard.interop.huggingface.tensors import from_public, short_name

if TYPE_CHECKING:
    from regard.interop.huggingface.adapters import Adapter

PREPROCESSOR = "preprocessor_config.json"
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
OTHER_FRAMEWORKS = {".h5": ", from_tf=True", ".msgpack": ", from_flax=True"}  # which transformers 4 could still read


@dataclass(frozen=True, eq=False)
class Public:
    family: str  # as a recipe calls it
    config: Config
    vocabulary: int
    weights: dict[str, Tensor]  # as the family's `state_dict` calls them
    raw: Mapping[str, Any]  # config.json as it stands, with the ids of special tokens
    notes: tuple[str, ...]  # sentences for further training
    heads: Heads = MASKED_WORDS  # that came along; of a GPT that for words
    labels: tuple[str, ...] = ()  # of classes or tags
    target_vocabulary: int = 0  # that is written by a seq2seq model; 0: the same


def read_public(folder: Path, adapter: Adapter | None = None) -> Public:
    """Read a public model, with a low-rank adapter added to it if one is given."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; give one with {CONFIG} and {WEIGHTS}.")
    raw, tensors, layout = read_object(folder / CONFIG, folder), None, None
    if "model_type" not in raw and isinstance(raw.get("architecture"), str):
        from regard.interop.huggingface import timm

        tensors = _tensors(folder, "AutoModel")
        raw = timm.as_config(raw, tensors, str(folder / CONFIG))
        layout = timm.LAYOUTS[raw["model_type"]]
    layout = layout or _layout(raw, folder / CONFIG)
    raw = raw if adapter is None else adapter.described(raw)
    config, vocabulary, notes, target = understand(raw, layout, str(folder / CONFIG))
    tensors = _tensors(folder, layout.opened_by(raw)) if tensors is None else tensors
    if adapter is not None:
        tensors = adapter.added_to(tensors, layout, config)
    unread = [name for name in tensors if name.endswith(layout.unused or ("\0",))]
    names = {name: short_name(name, layout) for name in tensors if name not in unread}
    heads, unused = find_heads({*names.values()}, raw, layout, str(folder / CONFIG))
    config = layout.fitted(config, heads, {names[name]: tensors[name] for name in names})
    described = read_object(folder / PREPROCESSOR, folder) if (folder / PREPROCESSOR).exists() else raw.get("preprocessor")
    if layout.pixels is not None:
        config, more = layout.pixels(config, described, str(folder / PREPROCESSOR))
        notes += more
    labels = read_labels(raw, heads, str(folder / CONFIG))
    used = {name: tensors[name] for name in names if names[name] not in unused}
    weights = from_public(used, layout, config, vocabulary, str(folder), heads, len(labels), target)
    if layout.clusters:
        weights |= read_palette(config, described, str(folder / PREPROCESSOR))
    if left_out := [*unused, *unread]:
        notes = (*notes, f"{folder} has {left_out[0]}, which its architecture does not compute with; it is left out.")
    return Public(config.family, config, vocabulary, weights, raw, notes, as_heads(heads, layout, len(labels)), labels, target)


def opened_by(folder: Path) -> str:
    """Return the class of transformers that opens a folder, as far as its `config.json` says."""
    raw = read_object(folder / CONFIG, folder) if (folder / CONFIG).is_file() else {}
    known = str(raw.get("model_type")) in LAYOUTS
    return _layout(raw, folder / CONFIG).opened_by(raw) if known else "AutoModel"


def how_to_convert(source: str, model: str, suffix: str = ".bin") -> str:
    """Return the end of an error sentence; `source` is a folder or a hub id, `model` the class of transformers that opens it."""
    options = OTHER_FRAMEWORKS.get(suffix, "")
    return (
        "convert it once where transformers is installed: "
        f'python -c "from transformers import {model} as Model; '
        f"Model.from_pretrained({source!r}{options}).save_pretrained('converted', safe_serialization=True)\""
    )


def _layout(raw: Mapping[str, Any], path: Path) -> Layout:
    kind = raw.get("model_type")
    if not isinstance(kind, str):
        raise UserError(f"{path} has no model_type, so it does not say what model it is; add one{nearest('', LAYOUTS)}")
    if kind not in LAYOUTS:
        raise UserError(f"{path} has model_type={kind!r}, which this version of Regard cannot open{nearest(kind, LAYOUTS)}")
    named, layout = raw.get("architectures"), LAYOUTS[kind]
    name = named[0] if isinstance(named, list) and named else None
    return next((other for other in layout.others if name in other.architectures), layout)


def _tensors(folder: Path, model: str) -> dict[str, Tensor]:
    if (folder / WEIGHTS).exists():
        return read_tensor_file(folder / WEIGHTS, folder, None)
    if not (folder / INDEX).exists():
        raise _no_weights(folder, model)
    parts = read_object(folder / INDEX, folder).get("weight_map")
    if not isinstance(parts, dict) or not parts or not all(isinstance(part, str) for part in parts.values()):
        raise UserError(f"{folder / INDEX} has no weight_map from names of tensors to files; download or copy it again.")
    if len(parts) > MOST_TENSORS:
        raise UserError(f"{folder / INDEX} names more than {MOST_TENSORS:,} tensors, as no model has that can be opened here.")
    tensors: dict[str, Tensor] = {}
    for part in sorted(set(parts.values())):
        if Path(part).name != part or not (folder / part).is_file():
            raise UserError(
                f"{folder / INDEX} names {quoted(part)!r}, which is no file of {folder}; download or copy that part too."
            )
        tensors |= read_tensor_file(folder / part, folder, [name for name in parts if parts[name] == part])
    return tensors


def read_tensor_file(path: Path, folder: Path, names: list[str] | None = None) -> dict[str, Tensor]:
    """Read all tensors of a file, or those of these names; they may be memory-mapped."""
    check_tensor_file(path, folder)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            present = {*file.keys()}
            for name in names or ():
                if name not in present:
                    raise UserError(f"{path} has no tensor {quoted(name)}, though {INDEX} says so; download or copy both again.")
            return {name: file.get_tensor(name) for name in names or file.keys()}
    except (SafetensorError, OSError, RuntimeError) as error:  # torch maps the file: RuntimeError
        raise UserError(
            f"{path} cannot be read ({quoted(str(error), 200)}); it is damaged or cut short: download or copy it again."
        ) from error


def _no_weights(folder: Path, model: str) -> UserError:
    others = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if not others:
        return UserError(f"There is neither {WEIGHTS} nor {INDEX} in {folder}; download or copy the weights too.")
    how = how_to_convert(str(folder), model, Path(others[0]).suffix)
    return UserError(f"{folder} has {others[0]} but no {WEIGHTS}; Regard reads safetensors only, which cannot run code: {how}")


MOST_TENSORS = 20_000  # a BERT of 48 layers has some 800
LARGEST_HEADER = 16 * MIB
LONGEST_NAME = 200  # characters


def read_json(path: Path, folder: Path) -> Any:
    if not os.path.lexists(path):
        raise UserError(f"There is no {path}; download or copy it from where the weights come from.")
    return files.read_json(path, within=folder)


def read_object(path: Path, folder: Path) -> dict[str, Any]:
    found = read_json(path, folder)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__}; a JSON object is expected.")
    return found


def check_tensor_file(path: Path, folder: Path) -> None:
    """Look at the header of a safetensors file before the library parses it: how many tensors it names, and how.

    That they lie one after the other and fill the file, the library checks.
    """
    with open_regular(path, within=folder) as file:
        size = int.from_bytes(file.read(8), "little")
        rest = os.fstat(file.fileno()).st_size - 8
        if size > rest:
            raise _damaged(path, f"its header should have {format_size(size)}, and there are {format_size(max(0, rest))}")
        if size > LARGEST_HEADER:
            raise UserError(f"{path} has a header of {format_size(size)}; up to {format_size(LARGEST_HEADER)} are read.")
        header = file.read(size)
    if header.count(b"{") > MOST_TENSORS + 2:
        raise UserError(f"{path} has more than {MOST_TENSORS:,} tensors, as no model has that can be opened here.")
    try:
        names = list(json.loads(header))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, quoted(str(error), 100)) from None
    if long := next((name for name in names if len(name) > LONGEST_NAME), ""):
        raise UserError(f"{path} has a tensor with a name of {len(long):,} characters, {quoted(long, 60)}; it is not opened.")


def _damaged(path: Path, what: str) -> UserError:
    return UserError(f"{path} cannot be read ({what}); it is damaged or cut short: download or copy it again.")

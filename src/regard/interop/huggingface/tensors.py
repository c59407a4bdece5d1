"""Public tensors into ours and back, by a layout's table of entries: each is found, fits, and is the only one of its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.interop.huggingface.mapping import Config, Entry, Layout

SPELLINGS = ((".gamma", ".weight"), (".beta", ".bias"))  # how norms were called when weights came from TensorFlow


class Stored(NamedTuple):
    name: str  # as in the file
    tensor: Tensor


def from_public(
    tensors: Mapping[str, Tensor],
    layout: Layout,
    config: Config,
    vocabulary: int,
    where: str,
    heads: Sequence[str] = (),
    labels: int = 0,
    target_vocabulary: int = 0,
) -> dict[str, Tensor]:
    """Convert public tensors to ours, in float32; tied ones share one tensor. `where` names the folder in errors."""
    stored = _learned(tensors, layout, where)
    size = layout.sizes(config, vocabulary, labels, target_vocabulary)
    weights: dict[str, Tensor] = {}
    for entry in layout.entries(config, heads):
        _once(stored, entry, where)
        if entry.tied and not any(name in stored for name in entry.theirs):
            weights[entry.ours] = weights[entry.tied]
            continue
        pairs = zip(entry.theirs, entry.rows(size))
        parts = [_part(stored, name, entry, rows, size, where, config) for name, rows in pairs]
        weights[entry.ours] = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
        if entry.tied:
            if not torch.equal(weights[entry.ours], weights[entry.tied]):
                raise UserError(
                    f"In {where} the tensor {' and '.join(entry.theirs)} is not the embedding of words; this version of Regard "
                    f"has {layout.model_type} only with one matrix for both."
                )
            weights[entry.ours] = weights[entry.tied]
    if stored:
        others = f" and {len(stored) - 1} more" if len(stored) > 1 else ""
        raise UserError(
            f"{where} has the tensor {next(iter(stored.values())).name}{others}, which this version of Regard does not know in a "
            f"{layout.model_type} of {config.layers} layers."
        )
    return weights


def to_public(
    weights: Mapping[str, Tensor],
    layout: Layout,
    config: Config,
    vocabulary: int,
    heads: Sequence[str] = (),
    labels: int = 0,
    target_vocabulary: int = 0,
) -> dict[str, Tensor]:
    """Convert our tensors to public ones: dense, float32, each in its own memory, and tied ones written once."""
    size = layout.sizes(config, vocabulary, labels, target_vocabulary)
    prefix = layout.prefix if not layout.heads or {*heads} - {"pooler"} else ""  # transformers has none where only a body is
    left = dict(weights)
    public: dict[str, Tensor] = {}
    for entry in layout.entries(config, heads):
        shape = tuple(size[letter] for letter in entry.shape)
        if entry.ours not in left or left[entry.ours].shape != shape:
            found = f"of shape {tuple(left[entry.ours].shape)}" if entry.ours in left else "missing"
            raise UserError(f"The weight {entry.ours} is {found}; a model of these settings has it of shape {shape}.")
        ours = left.pop(entry.ours)
        if entry.tied:
            if not torch.equal(ours, weights[entry.tied]):
                raise UserError(f"{entry.ours} is not {entry.tied}; {layout.model_type} of transformers has one matrix for both.")
            continue
        for name, part in zip(entry.theirs, ours.detach().split(entry.rows(size))):
            dense = _theirs(part, entry, config).to("cpu", torch.float32).contiguous()
            public[prefix + name if entry.inside else name] = dense.clone() if dense.data_ptr() == part.data_ptr() else dense
    if left:
        raise UserError(f"The weight {next(iter(left))} has no place in a {layout.model_type} of transformers.")
    return public | dict(layout.computed(config, prefix))


def short_name(name: str, layout: Layout) -> str:
    """Return a tensor name without the prefix, in its present spelling."""
    for old, new in SPELLINGS:
        if name.endswith(old):
            name = name.removesuffix(old) + new
    for other, usual in layout.spellings.items():
        name = name.replace(other, usual)
    return name.removeprefix(layout.prefix)


def _learned(tensors: Mapping[str, Tensor], layout: Layout, where: str) -> dict[str, Stored]:
    """Return the learned tensors by name without the prefix."""
    stored: dict[str, Stored] = {}
    for name, tensor in tensors.items():
        if name.endswith(layout.buffers):
            continue
        short = short_name(name, layout)
        if short in stored:
            raise UserError(f"{where} has two tensors for one, {stored[short].name} and {name}; delete one of them.")
        stored[short] = Stored(name, tensor)
    return stored


def _once(stored: dict[str, Stored], entry: Entry, where: str) -> None:
    """Move tensors that are stored under another name, and check that duplicates are equal."""
    for name in entry.again:
        if name not in stored:
            continue
        other, (first,) = stored.pop(name), entry.theirs
        if not torch.equal(other.tensor.double(), stored.setdefault(first, other).tensor.double()):
            raise UserError(f"{where} has two tensors for one, {stored[first].name} and {other.name}, which are not the same.")


def _theirs(ours: Tensor, entry: Entry, config: Config) -> Tensor:
    """Return a part of ours in the shape of theirs."""
    if entry.pixels:
        patch, colours = config.patch, config.colours  # type: ignore[union-attr]
        return ours.unflatten(1, (patch, patch, colours)).permute(0, 3, 1, 2)
    return ours.T if entry.transposed else ours[(None,) * (entry.row + entry.ones)]


def _part(
    stored: dict[str, Stored], name: str, entry: Entry, rows: int, size: Mapping[str, int], where: str, config: Config
) -> Tensor:
    """Take one public tensor out of `stored`, in the shape of ours."""
    if name not in stored and entry.row:
        return torch.zeros(rows)
    if name not in stored:
        raise UserError(f"{where} has no tensor {name}; its weights are not all there, or not those of its config.json.")
    full, tensor = stored.pop(name)
    ours = (rows, *(size[letter] for letter in entry.shape[1:]))
    expected = (1,) * (entry.row + entry.ones) + (ours[::-1] if entry.transposed else ours)
    if entry.pixels:
        expected = rows, config.colours, config.patch, config.patch  # type: ignore[union-attr]
    if tensor.shape != expected:
        raise UserError(f"In {where} the tensor {full} has shape {tuple(tensor.shape)}; its config.json asks for {expected}.")
    if not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise UserError(f"In {where} the tensor {full} is of {kind}; this version of Regard reads floating-point weights only.")
    own = tensor.to(torch.float32, copy=True)  # what came may be a map of a file that is gone tomorrow
    if own.numel() and not all(torch.isfinite(end) for end in own.aminmax()):
        raise UserError(
            f"In {where} the tensor {full} has values that are NaN or infinite, or too large for float32; it computes nothing: "
            "download or copy it again, or train it again."
        )
    if entry.pixels:
        return own.permute(0, 2, 3, 1).flatten(1)
    return own.T if entry.transposed else own.reshape(ours)

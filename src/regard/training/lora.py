"""Low-rank adapters: a frozen matrix W becomes W + (alpha / R) B A, and only A [R, inputs] and B [outputs, R] learn.

Hu et al. 2021, section 4.1. A is drawn and B begins at 0, so training begins with the model as it was. Queries, keys and values
share one matrix here; each of these parts has an adapter of its own, on its own rows. Adapters are further parameters beside the
matrix, whose name stays:

    decoder.blocks.0.self.layer.project.weight
    decoder.blocks.0.self.layer.project.adapters.query.down      A
    decoder.blocks.0.self.layer.project.adapters.query.up        B

so a checkpoint of weights merges by its names and shapes alone. Dims: R rank, I inputs, O outputs of a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.model.attention import Attention
from regard.model.layers import FeedForward, Linear
from regard.training.config import TrainConfig

BODY = ("embed", "source", "target", "encoder", "decoder", "ahead", "back", "head")
"""Parts of a model that keep their weights; the others are heads above it, which learn as they are."""
DOWN = re.compile(r"(?P<matrix>.+)\.adapters\.(?P<part>\w+)\.down")
KV = ("key", "value")


class Adapter(nn.Module):
    """The matrices A and B of one part."""

    def __init__(self, inputs: int, outputs: int, rank: int, like: Tensor) -> None:
        super().__init__()
        self.down = nn.Parameter(like.new_zeros(rank, inputs))
        self.up = nn.Parameter(like.new_zeros(outputs, rank))


class AdaptedLinear(Linear):
    """A linear layer whose weight and bias are frozen, with an adapter for some of its parts."""

    def __init__(self, linear: nn.Linear, sizes: Mapping[str, int], targets: tuple[str, ...], config: TrainConfig) -> None:
        with torch.device("meta"):
            super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None)
        self.weight, self.bias = linear.weight, linear.bias
        self.sizes, self.rank, self.scale = dict(sizes), config.lora, config.lora_scale
        self.dropout = nn.Dropout(config.lora_dropout)
        self.adapters = nn.ModuleDict(
            {
                part: Adapter(linear.in_features, rows, config.lora, linear.weight)
                for part, rows in sizes.items()
                if part in targets
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        out, x = super().forward(x), self.dropout(x)
        each = self.each
        low = F.linear(x, torch.cat([adapter.down for adapter in each.values()])).split(self.rank, -1)
        added = {part: F.linear(low_R, adapter.up) for low_R, (part, adapter) in zip(low, each.items())}
        none = out.new_zeros(()).expand(*out.shape[:-1], 1)
        parts = [added[part] if part in added else none.expand(*none.shape[:-1], rows) for part, rows in self.sizes.items()]
        return out + self.scale * (torch.cat(parts, -1) if len(parts) > 1 else parts[0])

    @property
    def each(self) -> dict[str, Adapter]:
        """Return the adapters by the names of their parts."""
        return dict(self.adapters.items())  # type: ignore[arg-type]


class Counts(NamedTuple):
    """Parameters of a model."""

    all: int
    trained: int


def adapt(model: nn.Module, config: TrainConfig) -> nn.Module:
    """Freeze a model, give its `lora_targets` adapters of rank `lora`, in place, and leave heads above its body to learn."""
    if not config.lora:
        return model
    model.requires_grad_(False)
    for name, part in getattr(model, "body", model).named_children():
        part.requires_grad_(name not in BODY)
    for name, part in model.named_children():
        if hasattr(model, "body") and name != "body":
            part.requires_grad_(True)
    found, generator = False, torch.Generator().manual_seed(derive_seed(config.seed, "lora"))
    for module in list(model.modules()):
        for name, sizes in matrices(module).items():
            if set(sizes) & set(config.lora_targets):
                linear = getattr(module, name)
                linear.requires_grad_(False)
                setattr(module, name, _drawn(AdaptedLinear(linear, sizes, config.lora_targets, config), generator))
                found = True
    if not found:
        raise UserError(
            f"train.lora_targets={','.join(config.lora_targets)}: this model has no such matrix; give others, such as query."
        )
    return model


def matrices(module: nn.Module) -> dict[str, dict[str, int]]:
    """Return the linear layers of an attention or a feed-forward that may have adapters: the sizes of their parts by name."""
    if isinstance(module, Attention):
        fused = ("query", *KV) if module.query is None else KV
        found = {"project": dict(zip(fused, module.projections)), "out": {"out": module.width}}
        return found if module.query is None else {"query": {"query": module.inner}} | found
    if isinstance(module, FeedForward):
        names = ("expand", "gate", "contract") if module.gate is not None else ("expand", "contract")
        return {name: {name: getattr(module, name).out_features} for name in names}
    return {}


def _drawn(layer: AdaptedLinear, generator: torch.Generator) -> AdaptedLinear:
    """Draw A uniformly within 1 / sqrt(inputs), as nn.Linear is drawn; B stays 0."""
    for adapter in layer.each.values():
        if not adapter.down.is_meta:
            bound = layer.in_features**-0.5
            with torch.no_grad():
                adapter.down.copy_(torch.empty(adapter.down.shape).uniform_(-bound, bound, generator=generator))
    return layer


def merged(tensors: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return weights with their adapters added to the matrices, in float32: a model like any other. Without adapters, a copy."""
    found = {name: tensor for name, tensor in tensors.items() if ".adapters." not in name}
    for part in adapters_of(tensors):
        name, rows = f"{part.matrix}.weight", part.rows
        if found[name] is tensors[name]:
            found[name] = tensors[name].detach().clone()
        found[name][rows] += scale * (part.up_OR.detach().float() @ part.down_RI.detach().float()).to(found[name].dtype)
    return found


class Part(NamedTuple):
    """The adapter of one part of a matrix."""

    matrix: str
    name: str
    down_RI: Tensor
    up_OR: Tensor
    rows: slice  # of the matrix


def adapters_of(tensors: Mapping[str, Tensor]) -> Iterator[Part]:
    """Yield the adapters in a state dict. Of a shared matrix, queries are the first rows, values the last, keys those before."""
    for name, down_RI in tensors.items():
        if found := DOWN.fullmatch(name):
            matrix, part = found["matrix"], found["part"]
            up_OR, whole = tensors[f"{matrix}.adapters.{part}.up"], len(tensors[f"{matrix}.weight"])
            size = len(up_OR)
            first = {"key": whole - 2 * size, "value": whole - size}.get(part, 0)
            yield Part(matrix, part, down_RI, up_OR, slice(first, first + size))


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of a model, its adapters merged; tied weights stay one tensor."""
    scales = {module.scale for module in model.modules() if isinstance(module, AdaptedLinear)}
    tensors = model.state_dict(keep_vars=True)
    return merged(tensors, *scales) if scales else tensors


def counted(model: nn.Module) -> Counts:
    """Count the parameters of a model, and those that learn."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return Counts(sum(size for size, _ in sizes), sum(size for size, learns in sizes if learns))

"""Pruning that removes: a head's rows leave the query, key and value matrices, its columns the output matrix.

Michel, Levy & Neubig 2019; Voita et al. 2019. A gate of 0 hides a head and still pays for it; a pruned one is gone. Which are
gone a model's settings say, model.pruned = ["encoder.0.self:1+3", ...], by the numbers heads had in the whole model, so that
weights and settings together are a model like any other: it trains, decodes, compiles, is saved and loaded by the same code.

At least one head of every attention stays. Dims: D width, H heads, K head width, P projections in one matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from regard.core.errors import UserError, nearest
from regard.model.layers import Linear

if TYPE_CHECKING:
    from regard.model.attention import Attention
    from regard.model.block import BlockConfig

Heads = Mapping[str, Collection[int]]  # by the name of their attention
WEIGHT = re.compile(  # what has a place for each head; the bias of the output belongs to all, a generator is another network
    r"^(?!generator\.).*?(?P<stack>encoder|decoder)\.blocks\.(?P<layer>\d+)\.(?P<kind>self|cross)\.layer\."
    r"(query\.weight|query\.bias|project\.weight|project\.bias|out\.weight)$"
)
ENTRY = re.compile(r"([a-z]+\.\d+\.[a-z]+):(\d+(?:\+\d+)*)")


def parse_pruned(entries: Iterable[str], heads: int, names: Iterable[str] | None = None) -> dict[str, tuple[int, ...]]:
    """The heads that are gone, of `heads` in each of the attentions called `names`, where those are known."""
    gone: dict[str, set[int]] = {}
    known = None if names is None else set(names)
    for entry in entries:
        if not (found := ENTRY.fullmatch(entry)):
            raise UserError(f"model.pruned={entry} does not name heads; write an attention and its heads as encoder.0.self:1+3.")
        name, numbers = found[1], {int(number) for number in found[2].split("+")}
        if known is not None and name not in known:
            raise UserError(f"model.pruned={entry}: this model has no attention {name!r}{nearest(name, known)}")
        if beyond := [number for number in numbers if number >= heads]:
            raise UserError(f"model.pruned={entry}: there is no head {min(beyond)}; {name} has heads 0 to {heads - 1}.")
        gone.setdefault(name, set()).update(numbers)
        if len(gone[name]) == heads:
            raise UserError(f"model.pruned={entry} leaves {name} without a head; keep at least one of its {heads}.")
    return {name: tuple(sorted(numbers)) for name, numbers in gone.items()}


def spell_pruned(gone: Heads) -> tuple[str, ...]:
    """Return pruned heads as model.pruned spells them."""
    return tuple(f"{name}:{'+'.join(map(str, sorted(heads)))}" for name, heads in gone.items() if heads)


def kept_heads(config: BlockConfig, name: str) -> list[int]:
    """Return the heads that an attention still has, by their numbers in the whole model."""
    gone = parse_pruned(config.pruned, config.heads).get(name, ())
    return [head for head in range(config.heads) if head not in gone]


def with_fewer(config: BlockConfig, heads: Heads) -> tuple[str, ...]:
    """model.pruned when these heads go as well; they are numbered as what is left is, which a probe shows."""
    gone = {name: set(numbers) for name, numbers in parse_pruned(config.pruned, config.heads).items()}
    for name, numbers in heads.items():
        left = kept_heads(config, name)
        gone.setdefault(name, set()).update(left[number] for number in numbers)
    return spell_pruned(gone)


def pruned_weights(weights: Mapping[str, Tensor], config: BlockConfig, heads: Heads) -> dict[str, Tensor]:
    """A state dict without these heads, numbered as what is left of the model of these settings has them."""

    def without(tensor_PHK: Tensor, name: str, left: list[int]) -> Tensor:
        return tensor_PHK[:, [head for head in range(len(left)) if head not in heads.get(name, ())]]

    return _by_head(weights, config, set(heads), without)


def restored_weights(weights: Mapping[str, Tensor], config: BlockConfig) -> dict[str, Tensor]:
    """Return the weights of the unpruned model that computes the same: pruned heads come back as zeros."""

    def whole(tensor_PHK: Tensor, name: str, left: list[int]) -> Tensor:
        full_PHK = tensor_PHK.new_zeros(len(tensor_PHK), config.heads, *tensor_PHK.shape[2:])
        full_PHK[:, left] = tensor_PHK
        return full_PHK

    return _by_head(weights, config, set(parse_pruned(config.pruned, config.heads)), whole)


def _by_head(
    weights: Mapping[str, Tensor], config: BlockConfig, names: Collection[str], change: Callable[[Tensor, str, list[int]], Tensor]
) -> dict[str, Tensor]:
    """Change what belongs to single heads in the attentions called `names`: tensor_PHK, and which heads these are."""
    changed = dict(weights)
    for part, tensor in weights.items():
        found = WEIGHT.search(part)
        if found and (name := f"{found['stack']}.{found['layer']}.{found['kind']}") in names:
            left, side = kept_heads(config, name), 1 if part.endswith("out.weight") else 0
            tensor_PHK = tensor.movedim(side, 0).unflatten(0, (-1, len(left), config.key_width))
            changed[part] = change(tensor_PHK, name, left).flatten(0, 2).movedim(0, side).contiguous()
    return changed


def prune(model: nn.Module, heads: Heads) -> None:
    """Remove heads of a model in place, numbered as its attentions have them. What was packed for a CPU must be packed again."""
    from regard.model.attention import Attention
    from regard.model.block import BlockConfig

    found = {module.name: module for module in model.modules() if isinstance(module, Attention)}
    owners = [module for module in model.modules() if isinstance(getattr(module, "config", None), BlockConfig)]
    for name, numbers in heads.items():
        if name not in found:
            raise KeyError(f"there is no attention {name!r} to prune{nearest(name, found)}")
        if not {*numbers} < {*range(found[name].heads)}:
            raise ValueError(
                f"{name} has heads 0 to {found[name].heads - 1}, of which one must stay; {sorted(numbers)} cannot go"
            )
    if len(owners) != 1:
        raise ValueError(f"a model has one configuration of blocks, and this one {len(owners)}; prune its parts one by one")
    config: BlockConfig = owners[0].config  # type: ignore[assignment]
    smaller = replace(config, pruned=with_fewer(config, heads))  # refuses what cannot be pruned, before the model changes
    weights = pruned_weights(model.state_dict(), config, heads)
    for name, numbers in heads.items():
        if numbers:
            _shrink(found[name], found[name].heads - len({*numbers}))
    setattr(owners[0], "config", smaller)  # noqa: B010 - mypy takes it for a module
    model.load_state_dict(weights)


def _shrink(attention: Attention, heads: int) -> None:
    """Matrices of the right size, still empty."""
    inner = heads * attention.head_width
    for name in ("query", "project", "out"):
        if (part := getattr(attention, name)) is not None:
            rows, columns = part.weight.shape
            inputs, outputs = (inner, rows) if name == "out" else (columns, rows // attention.inner * inner)
            smaller = Linear(inputs, outputs, bias=part.bias is not None, device=part.weight.device, dtype=part.weight.dtype)
            setattr(attention, name, smaller.requires_grad_(part.weight.requires_grad))
    attention.heads = attention.kv_heads = heads

"""A decoder's step, from its newest tokens' vectors to logits, in as few kernels as its rows allow.

Sublayer by sublayer it follows `Stack`, `Block`, `Residual` and `Attention`, whose own forward is the definition it is tested
against: layer or RMS norms, plain or gated feed-forward, shared keys and values, positions that rotate or add to scores. For one
row a sublayer is two products and attention, with norms and sums inside the products; for some rows products are the library's,
and a sum and its norm are one kernel. It serves where a step waits for memory and launches: few rows on a GPU, no probe, no
gradient. Everything else runs the modules.

Dims: S sentences, W lanes, R = S W rows, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.attention import Attention, KeysValues
from regard.model.block import Residual, Stack
from regard.model.embedding import Scale, VocabularyHead
from regard.model.layers import ACTIVATIONS, FeedForward, Linear, Norm, RMSNorm
from regard.model.mixers.causal_scan import Sums
from regard.model.mixers.softmax import Softmax
from regard.model.probe import attentions
from regard.model.state.kv_cache import Cache, Slots
from regard.model.visibility import View

HAS_TRITON = find_spec("triton") is not None
if HAS_TRITON:
    from regard.model.kernels.attention import Newest, attend_memory, attend_own
    from regard.model.kernels.linear import Pending, add_norm, gated, product

MOST_ROWS = 256
ALIGNED = 8  # columns: products that write rows of any other width are several times as slow
OLDEST = (8, 0)  # Ampere, which brought bf16 and copies that do not wait
TYPES = (torch.bfloat16, torch.float16, torch.float32)
NAMES = {function: name for name, function in ACTIVATIONS.items()}
Product = Callable[..., Tensor]
Sublayer = tuple[Residual, Callable[[Product, "Pending"], Tensor], nn.Linear]  # what leads to its last product, and that one


def logits(
    stack: Stack,
    head: VocabularyHead,
    x_SWD: Tensor,
    view: View,
    memories: Sequence[KeysValues | Sums] | None,
    memory_view: View | None,
    caches: Sequence[Cache],
) -> Tensor:
    """Return head(stack(x_SWD, ...)), by the fastest way."""
    if suits(stack, head, x_SWD) and all(isinstance(cache, Slots) for cache in caches):
        return fused(stack, head, x_SWD, view, memories, memory_view, caches)  # type: ignore[arg-type]
    return head(stack(x_SWD, view, memories, memory_view, caches))


def suits(stack: Stack, head: VocabularyHead, x_SWD: Tensor) -> bool:
    """Return whether the kernels can compute this step."""
    if not (HAS_TRITON and x_SWD.is_cuda) or torch.compiler.is_compiling() or torch.is_autocast_enabled("cuda"):
        return False
    if torch.cuda.get_device_capability(x_SWD.device) < OLDEST:
        return False
    if torch.is_grad_enabled() or stack.training or x_SWD.shape[:2].numel() > MOST_ROWS or x_SWD.dtype not in TYPES:
        return False
    if any(a.probe is not None or not isinstance(getattr(a, "mixer", None), Softmax) for a in attentions(stack).values()):
        return False
    if not (isinstance(head.before, Scale | None) and (stack.position is None or stack.position.fused)):
        return False
    if not all(isinstance(part.norm, Norm | RMSNorm) for block in stack.blocks for part in block.children()):
        return False
    linears = [module for module in chain(stack.modules(), head.modules()) if isinstance(module, Linear)]
    alike = all(weight.dtype == x_SWD.dtype and weight.is_contiguous() for weight in chain(stack.parameters(), head.parameters()))
    return alike and all(type(linear) is Linear and linear.in_features % 16 == 0 for linear in linears)  # adapters add to it


def fused(
    stack: Stack,
    head: VocabularyHead,
    x_SWD: Tensor,
    view: View,
    memories: Sequence[KeysValues] | None,
    memory_view: View | None,
    caches: Sequence[Slots],
) -> Tensor:
    """Return logits_SWV, by the kernels, on a GPU or in Triton's interpreter."""
    x_RD, sublayers = x_SWD.flatten(0, 1), list(_sublayers(stack, x_SWD, view, memories, memory_view, caches))
    logits_RV = _one_row(stack, head, x_RD, sublayers) if len(x_RD) == 1 else _some_rows(stack, head, x_RD, sublayers)
    return logits_RV.unflatten(0, x_SWD.shape[:2])


def _one_row(stack: Stack, head: VocabularyHead, x_1D: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
    """A norm is left to whoever takes the sum, and the last product of a sublayer adds it."""
    x = Pending(x_1D)
    for residual, inner, last in sublayers:
        given = Pending(x.x_1K, _norm(residual)) if residual.pre else x
        out_1D = product(Pending(inner(product, given)), last, residual=x)
        x = Pending(out_1D, None if residual.pre else _norm(residual))
    return product(Pending(x.x_1K, _norm(stack) or x.norm), head.project, factor=_factor(head))


def _some_rows(stack: Stack, head: VocabularyHead, x_RD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
    """Each sum is normalised for whoever comes next: before the next sublayer, or after this one."""
    norms, last_norm, factor = [_norm(residual) for residual, _, _ in sublayers], _norm(stack), _factor(head)
    if last_norm is not None:
        normed_RD = add_norm(x_RD, None, norms[0])[1]
        for n, ((_, inner, last), following) in enumerate(zip(sublayers, [*norms[1:], last_norm]), 1):
            out_RD = last(inner(_library, Pending(normed_RD)))
            x_RD, normed_RD = add_norm(x_RD, out_RD, following, factor if n == len(sublayers) else 1.0)
        return _scores(head.project, normed_RD)
    for n, ((_, inner, last), own) in enumerate(zip(sublayers, norms), 1):
        x_RD = add_norm(x_RD, last(inner(_library, Pending(x_RD))), own, factor if n == len(sublayers) else 1.0)[1]
    return _scores(head.project, x_RD)


def _norm(part: Residual | Stack) -> Any:
    """Return its norm; None where a stack ends without one."""
    return part.norm


def _factor(head: VocabularyHead) -> float:
    """Return the number that a head multiplies its input by."""
    return head.before.factor if isinstance(head.before, Scale) else 1.0


def _library(x: Pending, linear: nn.Linear, activation: str | None = None, gate: nn.Linear | None = None) -> Tensor:
    """Return the product of normalised rows by the library's kernels."""
    out_RN = F.linear(x.x_1K, linear.weight, linear.bias)
    if gate is not None:
        assert activation is not None
        return gated(F.linear(x.x_1K, gate.weight, gate.bias), out_RN, activation)
    return out_RN if activation is None else ACTIVATIONS[activation](out_RN)


def _scores(project: nn.Linear, x_RD: Tensor) -> Tensor:
    """A vocabulary is seldom a multiple of anything, so words are multiplied with rows and the result is turned over."""
    words, rows = len(project.weight), len(x_RD)
    if words % ALIGNED == 0 or project.bias is not None:
        return F.linear(x_RD, project.weight, project.bias)
    padded_RD = F.pad(x_RD, (0, 0, 0, -rows % ALIGNED)) if rows % ALIGNED else x_RD
    return (project.weight @ padded_RD.T).T[:rows].contiguous()


def added(view: View) -> Tensor:
    """Return the mask as numbers that are added to scores, which on a GPU it already is."""
    assert view.mask is not None
    assert view.fully_masked_rows is None
    mask = view.mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask


def _sublayers(
    stack: Stack,
    x_SWD: Tensor,
    view: View,
    memories: Sequence[KeysValues] | None,
    memory_view: View | None,
    caches: Sequence[Slots],
) -> Iterator[Sublayer]:
    mask_SHWN, memory_mask_S11M = added(view), None if memory_view is None else added(memory_view)
    position = None if stack.position is None else stack.position.over(view)
    turns: tuple[Tensor, ...] = ()
    if position is not None and position.scores is not None:
        mask_SHWN = position.scores.dense() + mask_SHWN
    if position is not None and position.turns is not None:
        rows = x_SWD.shape[:2]
        turns = tuple(part_B1WK.expand(rows[0], 1, rows[1], -1).flatten(0, 2) for part_B1WK in position.turns)
    for n, block in enumerate(stack.blocks):
        assert isinstance(block.self_attention, Attention)  # as `suits` has seen
        yield block["self"], _self_attention(block.self_attention, mask_SHWN, caches[n], turns), block.self_attention.out
        if block.cross_attention is not None:
            assert memories is not None
            assert memory_mask_S11M is not None
            cross = block.cross_attention
            yield block["cross"], _cross_attention(cross, memory_mask_S11M, memories[n]), cross.out
        yield block["ffn"], _feedforward(block.feedforward), block.feedforward.contract


def _self_attention(
    attention: Attention, mask_SHWN: Tensor, cache: Slots, turns: tuple[Tensor, ...]
) -> Callable[[Product, Pending], Tensor]:
    newest = Newest(attention.query_norm, attention.key_norm, *turns)
    kind = {"scaled": attention.scaled, "ring": cache.ancestry.ring}

    def inner(product: Product, x: Pending) -> Tensor:
        return attend_own(product(x, attention.project), mask_SHWN, cache.now_2SHNK, cache.ancestry.slots_W, newest, **kind)

    return inner


def _cross_attention(attention: Attention, mask_S11M: Tensor, memory: KeysValues) -> Callable[[Product, Pending], Tensor]:
    def inner(product: Product, x: Pending) -> Tensor:
        q_RI = product(x, attention.query)
        return attend_memory(q_RI, mask_S11M, *memory, attention.query_norm, scaled=attention.scaled)

    return inner


def _feedforward(feedforward: FeedForward) -> Callable[[Product, Pending], Tensor]:
    name = NAMES[feedforward.activation]
    return lambda product, x: product(x, feedforward.expand, name, gate=feedforward.gate)

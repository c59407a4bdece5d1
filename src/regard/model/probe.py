"""The probe: look at any attention without leaving the fast path.

`with probe(model) as seen:` makes every attention of the model keep references to what its fused kernel was given. Nothing is
computed until they are read; `seen["decoder.2.cross"].weights(heads=[0], rows=[5])` then rebuilds just those rows. Gates
multiply a head's context before the output projection: 0 switches a head off, and a gradient through 1 is its importance. A gate
with a row for each sequence of a batch asks many such questions of copies of one input in one pass.

Every layer's vectors, for whoever looks: what goes into a stack, and what each of its layers makes of it.

The hooks are there inside the with-block only, so a pass without a probe costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.core.errors import nearest
from regard.model.mixers import Mixer
from regard.model.position.base import Bias
from regard.model.visibility import View

if TYPE_CHECKING:
    from regard.model.attention import Attention
    from regard.model.block import Stack
    from regard.model.mixers.convolution import Convolution
    from regard.model.pooling import LearnedQuery
    from regard.model.recurrent.decoders import Aligner


@dataclass(frozen=True)
class Seen:
    """Inputs of one attention in its latest pass, kept by reference."""

    mixer: Mixer
    q_BHLK: Tensor
    k_BHMK: Tensor
    v_BHMK: Tensor
    view: View
    bias: Bias | None = None

    def weights(self, heads: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> Tensor:
        """weights_BHLM for these heads and query rows (all where not given), by the mixer's reference form."""
        q, k = self.q_BHLK, self.k_BHMK
        if heads is not None:
            q, k = q[:, list(heads)], k[:, list(heads)]
        rows_R = torch.arange(q.shape[2], device=q.device) if rows is None else torch.tensor(list(rows), device=q.device)
        sees = self.view.rows(rows_R)
        if heads is not None and sees.shape[1] > 1:
            sees = sees[:, list(heads)]
        with torch.set_grad_enabled(torch.is_grad_enabled() and q.requires_grad):  # not what a mixer has learned
            if self.bias is None:
                return self.mixer.weights(q[:, :, rows_R].float(), k.float(), sees)
            heads_H = torch.arange(self.bias.shape[1], device=q.device) if heads is None else torch.tensor(heads, device=q.device)
            bias_BHRM = self.bias.rows(rows_R, heads_H).float()
            return self.mixer.weights(q[:, :, rows_R].float(), k.float(), sees, bias_BHRM)  # type: ignore[call-arg]


@dataclass
class Probe:
    seen: dict[str, Seen] = field(default_factory=dict)
    gates: Mapping[str, Tensor] = field(default_factory=dict)  # name -> gate_H, or gate_BH
    recording: bool = True
    rows: Tensor | int = 1  # that follow one another for each sequence of the batch: one, unless sequences are taken apart

    def __getitem__(self, name: str) -> Seen:
        if name not in self.seen:
            raise KeyError(f"no attention {name!r} was seen{nearest(name, self.seen)}")
        return self.seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.seen)

    def __len__(self) -> int:
        return len(self.seen)


def attentions(model: nn.Module) -> dict[str, Attention | Convolution | Aligner | LearnedQuery]:
    """Every attention of a model, and what is in the place of one, by the name a probe knows it by, in the order data flows."""
    from regard.model.attention import Attention
    from regard.model.mixers.convolution import Convolution
    from regard.model.pooling import LearnedQuery
    from regard.model.recurrent.decoders import Aligner

    kinds = Attention | Convolution | Aligner | LearnedQuery
    return {module.name: module for module in model.modules() if isinstance(module, kinds)}


def kv_heads(model: nn.Module) -> dict[str, int]:
    """Return the heads of keys and values of every attention; fewer than its heads where groups of these share them."""
    return {name: getattr(attention, "kv_heads", attention.heads) for name, attention in attentions(model).items()}


@contextmanager
def probe(model: nn.Module, gates: Mapping[str, Tensor] | None = None) -> Iterator[Probe]:
    """Look at `model` inside the with-block. A compiled model runs uncompiled meanwhile; its kernels are the same."""
    found = attentions(model)
    for name, gate in (gates or {}).items():
        if name not in found:
            raise KeyError(f"there is no attention {name!r} to gate{nearest(name, found)}")
        if gate.dim() not in (1, 2) or gate.shape[-1] != found[name].heads:
            raise ValueError(
                f"the gate of {name} has shape {tuple(gate.shape)}; it needs one number a head, ({found[name].heads},), "
                f"or that for each sequence of the batch, (B, {found[name].heads})"
            )
    looking = Probe(gates=gates or {})
    previous = {name: attention.probe for name, attention in found.items()}
    stance = torch.compiler.set_stance("force_eager")
    with stance:
        try:
            for attention in found.values():
                attention.probe = looking
            yield looking
        finally:
            for name, attention in found.items():
                attention.probe = previous[name]


@contextmanager
def taken_apart(looking: Probe | None, rows: Tensor | int) -> Iterator[None]:
    """Inside the with-block, each sequence is several rows, such as a document's sentences, which share its gates."""
    if looking is None:
        yield
        return
    looking.rows = rows
    try:
        yield
    finally:
        looking.rows = 1


@contextmanager
def not_recording(model: nn.Module) -> Iterator[bool]:
    """Gates go on acting, but nothing is kept: for a search, whose steps are then shown as one pass over its result.

    Yields whether a probe is set.
    """
    probes = {id(a.probe): a.probe for a in attentions(model).values() if a.probe is not None and a.probe.recording}
    for looking in probes.values():
        looking.recording = False
    try:
        yield bool(probes)
    finally:
        for looking in probes.values():
            looking.recording = True


@contextmanager
def layers(stack: Stack) -> Iterator[list[Tensor]]:
    """N + 1 tensors x_BLD of the latest pass through N layers, the embedding first.

    The last is what the stack gives: where it ends with a norm of its own, after that.
    """
    seen: list[Tensor] = []

    def begin(module: nn.Module, given: tuple[Any, ...]) -> None:
        seen[:] = [given[0]]

    def keep(module: nn.Module, given: tuple[Any, ...], x_BLD: Tensor) -> None:
        seen.append(x_BLD)

    handles = [stack.register_forward_pre_hook(begin), stack.register_forward_hook(keep)]
    handles += [block.register_forward_hook(keep) for block in stack.blocks[:-1]]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()

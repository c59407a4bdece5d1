"""Words taken away, or let in by degrees: the one change to its input that every family of the project understands.

A token's own vector is multiplied by a share before its position is added: 1 is the text as it is, 0 a place where no word
stands. Each copy in a batch has its own shares, so that a text is asked many times in one pass; and gradients arrive at the
vectors.

Dims: B copies, L tokens, D width of a word's vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.families import family_of
from regard.lens.subject import Subject, TokenRow
from regard.model.embedding import Embed

EMBEDS = {"source": "encoder", "target": "decoder"}  # of an encoder-decoder: which stack each feeds
Shares = Mapping[str, Tensor]  # by stack, share_BL of every word


class Entry(NamedTuple):
    """The module where tokens enter, and its part that makes their own vectors before positions are added."""

    whole: nn.Module
    vectors: nn.Module


def entries(subject: Subject) -> dict[str, Entry]:
    """Return the entries by the stack that reads them."""
    model: Any = subject.model
    if family_of(model).has("captioning"):
        target = model.writer.target
        return {"encoder": Entry(model.encoder, model.encoder.cells), "decoder": Entry(target, target.tokens)}
    found = {name: part for name, part in model.named_children() if isinstance(part, Embed)}
    only = next(iter(subject.sides))
    return {EMBEDS.get(name, only): Entry(part, part.tokens) for name, part in found.items()}


def input_side(subject: Subject) -> tuple[str, TokenRow]:
    """Return the tokens that the model reads: the source if there is one, else the text itself."""
    stack = "encoder" if "encoder" in subject.sides else "decoder"
    return stack, subject.sides[stack]


@contextmanager
def word_shares(subject: Subject, shares: Shares) -> Iterator[dict[str, Tensor]]:
    """Within, words enter by these shares. Yields the vectors of the latest pass, as they entered: vectors_BLD by stack."""
    entered: dict[str, Tensor] = {}
    reading: list[str] = []  # two stacks may have one table of words between them

    def begin(stack: str) -> Any:
        return lambda module, inputs: reading.append(stack)

    def scale(module: nn.Module, inputs: Any, vectors_BLD: Tensor) -> Tensor:
        stack = reading.pop()
        if stack in shares:
            vectors_BLD = vectors_BLD * shares[stack].to(vectors_BLD)[..., None]
        if torch.is_grad_enabled():
            vectors_BLD = vectors_BLD if vectors_BLD.requires_grad else vectors_BLD.requires_grad_()
        entered[stack] = vectors_BLD
        return vectors_BLD

    found = entries(subject)
    hooks = [entry.whole.register_forward_pre_hook(begin(stack)) for stack, entry in found.items()]
    tables = {id(entry.vectors): entry.vectors for entry in found.values()}
    hooks += [part.register_forward_hook(scale) for part in tables.values()]
    try:
        yield entered
    finally:
        for hook in hooks:
            hook.remove()

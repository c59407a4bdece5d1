"""A model as graphs of plain tensors.

    kind         graphs                 inputs -> outputs
    reader       model                  ids_BL, lengths_B -> vectors_BLD and what each head makes of them
    classifier   model                  ids_BL, lengths_B -> logits_BC
    images       model                  images_BYXC of whole numbers -> logits_BC
    writer       first, next            ids_BL -> logits_BV of the next token, keys and values of every layer
    translator   encoder, first, next   source_BM, lengths_B -> memory_BMD; then as a writer, that reads the memory

`first` reads a prompt, or the token that an output begins with; `next` reads one token more, with the keys and values of those
before it, and returns them with its own behind. Rows of one call have prompts of one length. Keys and values of the memory are
computed once, by `first`. All lengths and numbers of rows are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.families import family_of
from regard.families.base import Sizes, head_outputs
from regard.model.attention import KeysValues
from regard.model.visibility import causal, only_words

ROWS, TOKENS, PAST = 3, 7, 6  # of the inputs that a graph is traced with


class Graph(NamedTuple):
    """A module to trace, with an example of its inputs and the names of all that goes in and out."""

    name: str
    module: nn.Module
    inputs: dict[str, Tensor]
    free: dict[str, dict[int, str]]  # dimensions of inputs that are free
    outputs: list[str]


class KeptKeys:
    """A cache of one layer: the keys and values given, with the newest behind them."""

    def __init__(self, past_2BGPK: Tensor | None = None) -> None:
        self.kv_2BGPK = past_2BGPK

    def append(self, kv_2BGLK: Tensor) -> Tensor:
        self.kv_2BGPK = kv_2BGLK if self.kv_2BGPK is None else torch.cat([self.kv_2BGPK, kv_2BGLK], 3)
        return self.kv_2BGPK


class Reader(nn.Module):
    """All that a body and its heads make of texts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids_BL: Tensor, lengths_B: Tensor, segments_BL: Tensor | None = None) -> tuple[Tensor, ...]:
        x_BLD = self.model.hidden(ids_BL, lengths_B, segments_BL)
        return x_BLD, *head_outputs(self.model, x_BLD, lengths_B).values()


class Encoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_BM: Tensor, lengths_B: Tensor) -> Tensor:
        return self.model.encode(source_BM, lengths_B)


class First(nn.Module):
    """Read the first tokens of an output, or a whole prompt."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids_BL: Tensor, memory_BMD: Tensor | None = None, lengths_B: Tensor | None = None) -> tuple[Tensor, ...]:
        memories = None if memory_BMD is None else self.model.decoder.project_kv(memory_BMD)
        kept = [KeptKeys() for _ in self.model.decoder.blocks]
        logits_BV = decoded(self.model, ids_BL, 0, kept, memories, lengths_B)
        return logits_BV, *unbound(kept), *(part for memory in memories or () for part in memory)


class Next(nn.Module):
    """Read one token behind those whose keys and values are given; those of the memory come last."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.layers = len(model.decoder.blocks)

    def forward(self, ids_B1: Tensor, past: tuple[Tensor, ...], lengths_B: Tensor | None = None) -> tuple[Tensor, ...]:
        pairs = list(zip(past[::2], past[1::2]))
        kept = [KeptKeys(torch.stack(pair)) for pair in pairs[: self.layers]]
        memories = [KeysValues(*pair) for pair in pairs[self.layers :]]
        return decoded(self.model, ids_B1, past[0].shape[2], kept, memories or None, lengths_B), *unbound(kept)


def decoded(
    model: Any,
    ids_BL: Tensor,
    past: int,
    kept: list[KeptKeys],
    memories: list[KeysValues] | None,
    lengths_B: Tensor | None,
) -> Tensor:
    """Return logits_BV after the last of these tokens, which follow `past` others."""
    batch, length = ids_BL.shape
    first: Any = torch.scalar_tensor(past, dtype=torch.long) if isinstance(past, torch.SymInt) or past else 0
    view = (causal & model.visibility).over(length, past + length, batch=batch, offset=first, device=ids_BL.device)
    memory_view = None
    if memories is not None and lengths_B is not None:
        read = memories[0].k_BHMK.shape[2]
        memory_view = only_words(lengths_B).over(length, read, batch=batch, device=ids_BL.device)
    embed = model.embed if memories is None else model.target
    x_BLD = embed(ids_BL, torch.arange(past, past + length))
    x_BLD = model.decoder(x_BLD, view, memories, memory_view, kept)
    logits_BV: Tensor = model.head(x_BLD[:, -1])
    return logits_BV


def unbound(kept: list[KeptKeys]) -> Iterator[Tensor]:
    for cache in kept:
        assert cache.kv_2BGPK is not None
        yield from cache.kv_2BGPK.unbind()


def kind_of_family(config: Any) -> str:
    """Return the kind of models with these settings, other than classifiers of texts; refuse a family that has no graphs."""
    family = family_of(config)
    kinds = {"seq2seq": "translator", "causal_lm": "writer", "image_classification": "images", "token_vectors": "reader"}
    kind = next((kind for capability, kind in kinds.items() if family.has(capability)), "")
    if not kind or family.has("replaced_token"):
        raise UserError(
            f"--to onnx has no graph for model.family={family.name}; it writes models that read texts, translate, continue texts "
            "or classify images."
        )
    return kind


def kind_of(model: Any) -> str:
    """Return the kind of a model; refuse one that has no graphs here."""
    if hasattr(model, "body"):
        if getattr(model.body.config, "pairs", "joined") == "apart":
            raise UserError("--to onnx has no graph for two texts that are read apart, model.pairs=apart; train with joined.")
        return "classifier"
    kind, family = kind_of_family(model.config), family_of(model)
    keeps = family.has("blocks") and getattr(model.config, "compares", False) and getattr(model, "segment_memory", None) is None
    if kind in ("translator", "writer") and not keeps:
        raise UserError(
            f"--to onnx writes decoders that keep a key and a value of every token, and model.family={family.name} with these "
            "settings keeps something else; train one with model.mixer=softmax and without model.memory."
        )
    return kind


def graphs_of(model: Any) -> list[Graph]:
    """Return the graphs of a model, in the order in which they are run."""
    match kind := kind_of(model):
        case "translator":
            return [_encoder(model), _first(model, translates=True), _next(model, translates=True)]
        case "writer":
            return [_first(model, translates=False), _next(model, translates=False)]
        case "images":
            return [_of_images(model)]
        case _:
            return [_reader(model, kind)]


def _texts(name: str, axis: str) -> tuple[dict[str, Tensor], dict[str, dict[int, str]]]:
    ids = torch.randint(0, 2, (ROWS, TOKENS))
    return {name: ids, "lengths": torch.tensor([TOKENS, 5, 2])}, {name: {0: "rows", 1: axis}, "lengths": {0: "rows"}}


def _reader(model: Any, kind: str) -> Graph:
    inputs, free = _texts("ids", "tokens")
    module = Reader(model) if kind == "reader" else model
    if getattr(getattr(model, "body", model).config, "segments", 0) > 1:
        inputs["segments"], free["segments"] = torch.zeros(ROWS, TOKENS, dtype=torch.long), free["ids"]
    outputs = ["logits"]
    if kind == "reader":
        outputs = ["vectors", *head_outputs(model, torch.zeros(1, 2, model.config.width), torch.tensor([2]))]
    return Graph("model", module, inputs, free, outputs)


def _of_images(model: Any) -> Graph:
    (images_BYXC,) = family_of(model).example(model.config, Sizes(vocabulary=1), ROWS)
    return Graph("model", model, {"images": images_BYXC}, {"images": {0: "rows"}}, ["logits"])


def _encoder(model: Any) -> Graph:
    return Graph("encoder", Encoder(model), *_texts("source", "source_tokens"), ["memory"])


def _first(model: Any, translates: bool) -> Graph:
    inputs, free = {"ids": torch.randint(0, 2, (ROWS, TOKENS))}, {"ids": {0: "rows", 1: "tokens"}}
    outputs = ["logits", *_names("key", model)]
    if translates:
        inputs |= {"memory": torch.randn(ROWS, TOKENS, model.config.width), "lengths": torch.tensor([TOKENS, 5, 2])}
        free |= {"memory": {0: "rows", 1: "source_tokens"}, "lengths": {0: "rows"}}
        outputs += _names("source_key", model)
    return Graph("first", First(model), inputs, free, outputs)


def _next(model: Any, translates: bool) -> Graph:
    inputs, free = {"ids": torch.randint(0, 2, (ROWS, 1))}, {"ids": {0: "rows"}}
    for tokens, axis, name in ((PAST, "past_tokens", "past_key"), (TOKENS, "source_tokens", "source_key"))[: 1 + translates]:
        for n, part in enumerate(_names(name, model)):
            layer = model.decoder.blocks[n // 2].self_attention
            inputs[part] = torch.randn(ROWS, layer.kv_heads, tokens, layer.head_width)
            free[part] = {0: "rows", 2: axis}
    if translates:
        inputs["lengths"], free["lengths"] = torch.tensor([TOKENS, 5, 2]), {0: "rows"}
    return Graph("next", Next(model), inputs, free, ["logits", *_names("key", model)])


def _names(key: str, model: Any) -> list[str]:
    """Return names of the keys and values of every layer, in their order."""
    value = key.replace("key", "value")
    return [f"{part}_{n}" for n in range(len(model.decoder.blocks)) for part in (key, value)]

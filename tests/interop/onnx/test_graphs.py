"""Graphs of models: what the modules compute before they are traced, in PyTorch alone, and which models have none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.families.classifier import classifier
from regard.interop.onnx.graphs import Encoder, First, Next, Reader, graphs_of, kind_of
from tests.families.public_folder import shaken
from tests.interop.ctranslate2.subjects import READERS, SMALL, TRANSLATORS, WRITERS

MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt, window": ("gpt", dict(visibility="window(3)")),
    "gpt, transformer-xl": ("gpt", dict(position="transformer-xl")),
    "gpt, additive": ("gpt", dict(mixer="additive")),
}
BOTH: dict[str, tuple[str, dict[str, Any]]] = {"transformer, alibi": ("transformer", dict(position="alibi"))}


def model_of(family: str, choices: dict[str, Any], **sizes: Any) -> Any:
    keys = set(FAMILIES[family].config.__dataclass_fields__)
    config = FAMILIES[family].config(**{key: value for key, value in SMALL.items() if key in keys} | choices)
    return shaken(FAMILIES[family].build(config, Sizes(vocabulary=40, **sizes), 0), 0.1)


def in_steps(model: Any, ids_BL: Tensor, read: int, *memory: Tensor) -> list[Tensor]:
    """Return logits_BV at every place from that of the last token read at once."""
    layers = len(model.decoder.blocks)
    logits_BV, *found = First(model)(ids_BL[:, :read], *memory)
    past, memories, said = found[: 2 * layers], found[2 * layers :], [logits_BV]
    for place in range(read, ids_BL.shape[1]):
        logits_BV, *past = Next(model)(ids_BL[:, place : place + 1], (*past, *memories), *memory[1:])
        said.append(logits_BV)
    return said


@torch.no_grad()
@pytest.mark.parametrize("name", WRITERS | MORE)
def test_a_writer_in_steps_says_what_it_says_at_once(name: str) -> None:
    model, ids_BL = model_of(*(WRITERS | MORE)[name]), torch.randint(4, 40, (3, 12))
    assert kind_of(model) == "writer"
    for read in (1, 5):
        torch.testing.assert_close(torch.stack(in_steps(model, ids_BL, read), 1), model(ids_BL)[:, read - 1 :], atol=1e-4, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("name", TRANSLATORS | BOTH)
def test_a_translator_in_steps_says_what_it_says_at_once(name: str) -> None:
    model, ids_BL = model_of(*(TRANSLATORS | BOTH)[name]), torch.randint(4, 40, (3, 7))
    source_BM, lengths_B = torch.randint(4, 40, (3, 9)), torch.tensor([9, 2, 5])
    expected_BLV = model(source_BM, lengths_B, ids_BL)
    said = in_steps(model, ids_BL, 1, Encoder(model)(source_BM, lengths_B), lengths_B)
    torch.testing.assert_close(torch.stack(said, 1), expected_BLV, atol=1e-4, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_vectors_and_what_its_heads_make_of_them(name: str) -> None:
    model = model_of(*READERS[name], heads=Heads(pooler=True))
    ids_BL, lengths_B = torch.randint(4, 40, (3, 9)), torch.tensor([9, 2, 5])
    (graph,) = graphs_of(model)
    assert graph.outputs == ["vectors", "words", "pooler"]
    x_BLD, words_BLV, pooled_BD = Reader(model)(ids_BL, lengths_B)
    assert torch.equal(x_BLD, model.hidden(ids_BL, lengths_B))
    assert torch.equal(words_BLV, model.head(x_BLD))
    assert torch.equal(pooled_BD, model.pooler(x_BLD, lengths_B))
    assert ("segments" in graph.inputs) == (name == "bert")


def test_names_are_as_many_as_tensors() -> None:
    for family, layers in (("t5", 2), ("gpt", 2)):
        for graph in graphs_of(model_of(family, {})):
            assert set(graph.free) == set(graph.inputs)
            keys = [name for name in graph.outputs if "key" in name or "value" in name]
            assert len(keys) == {"encoder": 0, "first": 2 * layers * (1 + (family == "t5")), "next": 2 * layers}[graph.name]


NONE: list[tuple[str, dict[str, Any], Heads, str]] = [
    ("gpt", dict(mixer="conv"), Heads(), "keep a key and a value of every token"),
    ("gpt", dict(mixer="favor"), Heads(), "keep a key and a value of every token"),
    ("gpt", dict(memory=4, position="relative"), Heads(), "without model.memory"),
    ("transformer_xl", dict(memory=4), Heads(), "without model.memory"),
    ("recurrent", {}, Heads(), "keep a key and a value of every token"),
    ("electra", dict(generator_width=8), Heads(), "no graph for model.family=electra"),
    ("vit_mae", dict(image_size=12, patch=4), Heads(), "no graph for model.family=vit_mae"),
    ("image_transformer", dict(image_size=8, pixels="grey", levels=31), Heads(), "no graph for model.family=image_transformer"),
    (
        "patchtst",
        dict(lookback=24, horizon=5, patch=6, stride=4),
        Heads(words=False, channels=3),
        "no graph for model.family=patchtst",
    ),
]


@pytest.mark.parametrize(("family", "choices", "heads", "said"), NONE)
def test_a_model_without_graphs_is_refused(family: str, choices: dict[str, Any], heads: Heads, said: str) -> None:
    with pytest.raises(UserError, match=said):
        graphs_of(model_of(family, choices, heads=heads))


def test_texts_that_are_read_apart_are_refused() -> None:
    config = FAMILIES["encoder"].config(**SMALL, pairs="apart")
    with pytest.raises(UserError, match=r"model\.pairs=apart"):
        graphs_of(classifier(config, 40, 3))

"""Run the written graphs in ONNX Runtime beside the model, on inputs of random tokens and different lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.interop.exported import (
    MOST_DIFFERENCE,
    ExportedModel,
    Measure,
    batches,
    difference,
    largest,
    padded,
    random_rows,
    room_of,
)
from regard.interop.onnx.graphs import Graph, graphs_of, kind_of

STEPS = 3  # tokens that are read by `next` behind each input

Run = Callable[[str, list[Any]], list[np.ndarray]]


def runner(engine: Any, folder: Path, graphs: list[Graph]) -> Run:
    """Open the graphs of a folder; return (name, inputs in order) -> outputs in order."""
    options = engine.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    cpu = ["CPUExecutionProvider"]
    opened = {graph.name: engine.InferenceSession(str(folder / f"{graph.name}.onnx"), options, providers=cpu) for graph in graphs}

    def run(name: str, inputs: list[Any]) -> list[np.ndarray]:
        session = opened[name]
        arrays = [given.numpy() if isinstance(given, Tensor) else given for given in inputs]
        found: list[np.ndarray] = session.run(None, dict(zip([one.name for one in session.get_inputs()], arrays)))
        return found

    return run


@torch.no_grad()
def compare(engine: Any, folder: Path, subject: ExportedModel) -> list[Measure]:
    """Return how far the graphs in `folder` are from the model; `engine` is the package onnxruntime."""
    graphs = graphs_of(subject.model)
    run = runner(engine, folder, graphs)
    match kind_of(subject.model):
        case "translator":
            differences = _translator(run, subject)
        case "writer":
            differences = _writer(run, subject)
        case "images":
            differences = _of_images(run, graphs[0])
        case _:
            differences = _reader(run, subject, graphs[0])
    return [Measure("largest difference of outputs", largest(differences), MOST_DIFFERENCE)]


def _reader(run: Run, subject: ExportedModel, graph: Graph) -> list[float]:
    body = getattr(subject.model, "body", subject.model)
    rows = random_rows(body.embed.tokens.num_embeddings, {subject.pad}, room_of(body.config), seed=1)
    differences = []
    for (some,) in batches(rows):
        ids_BL, lengths_B = padded(some, subject.pad)
        inputs = [ids_BL, lengths_B]
        if "segments" in graph.inputs:
            inputs.append((torch.arange(ids_BL.shape[1]) >= lengths_B[:, None] // 2).long())
        expected = graph.module(*inputs)
        found = run("model", inputs)
        for name, one, ours in zip(graph.outputs, found, expected if isinstance(expected, tuple) else [expected]):
            a_word = name in ("vectors", "words", "tags", "span")
            pairs = zip(one, ours, lengths_B.tolist()) if a_word else [(one, ours, len(ours))]
            differences += [difference(part[:length], whole[:length]) for part, whole, length in pairs]
    return differences


def _writer(run: Run, subject: ExportedModel) -> list[float]:
    model, differences = subject.model, list[float]()
    rows = random_rows(model.embed.tokens.num_embeddings, {subject.pad}, room_of(model.config), seed=1)
    for ids in rows:
        expected_LV = model(torch.tensor([ids]))[0]
        read = max(1, len(ids) - STEPS)
        logits_1V, *past = run("first", [torch.tensor([ids[:read]])])
        differences.append(difference(logits_1V[0], expected_LV[read - 1]))
        for place in range(read, len(ids)):
            logits_1V, *past = run("next", [torch.tensor([[ids[place]]]), *past])
            differences.append(difference(logits_1V[0], expected_LV[place]))
    return differences


def _translator(run: Run, subject: ExportedModel) -> list[float]:
    model, differences = subject.model, list[float]()
    sources = random_rows(model.source.tokens.num_embeddings, {subject.pad}, room_of(model.config), seed=1)
    targets = random_rows(model.target.tokens.num_embeddings, {subject.pad}, room_of(model.config), seed=2)
    for some, after in batches(sources, targets):
        source_BM, lengths_B = padded(some, subject.pad)
        shown_BL, _ = padded([[subject.start, *row] for row in after], subject.pad)
        shown_BL = shown_BL[:, : 2 * STEPS]
        expected_BLV = model(source_BM, lengths_B, shown_BL)
        (memory_BMD,) = run("encoder", [source_BM, lengths_B])
        logits_BV, *found = run("first", [shown_BL[:, :1], memory_BMD, lengths_B])
        past, memories = found[: len(found) // 2], found[len(found) // 2 :]
        differences.append(difference(logits_BV, expected_BLV[:, 0]))
        for place in range(1, shown_BL.shape[1]):
            logits_BV, *past = run("next", [shown_BL[:, place : place + 1], *past, *memories, lengths_B])
            differences.append(difference(logits_BV, expected_BLV[:, place]))
    return differences


def _of_images(run: Run, graph: Graph) -> list[float]:
    draw, differences, (example_BYXC,) = torch.Generator().manual_seed(1), list[float](), graph.inputs.values()
    for rows in (1, 2, 3, 4, 90):
        images_BYXC = torch.randint(0, 256, (rows, *example_BYXC.shape[1:]), generator=draw).to(example_BYXC.dtype)
        differences.append(difference(run("model", [images_BYXC])[0], graph.module(images_BYXC)))
    return differences

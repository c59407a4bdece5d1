"""Trace the graphs of a model with PyTorch's exporter and write them, with `run.py` and what it reads, into a folder."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.files import read_text, write_whole
from regard.interop.exported import ExportedModel
from regard.interop.onnx.graphs import Graph, graphs_of, kind_of

OPSET = 20
SCRIPTS = Path(__file__).parent / "scripts"
SCRIPT = {"translator": "translate", "writer": "write", "reader": "read", "classifier": "read"}  # others are given arrays
LARGEST = 1_500_000_000  # bytes of a file; beyond, its weights lie in a file beside it


def write_folder(folder: Path, subject: ExportedModel, settings: dict[str, Any]) -> None:
    """Write graphs, run.py, settings.json and the tokenizer of a model."""
    for graph in graphs_of(subject.model):
        write_graph(graph, folder / f"{graph.name}.onnx")
    kind = kind_of(subject.model)
    write_whole(folder / "settings.json", json.dumps({"kind": kind, **settings}, indent=2, ensure_ascii=False) + "\n")
    write_whole(folder / "run.py", read_text(SCRIPTS / f"{SCRIPT.get(kind, 'arrays')}.py"))
    for name, file in subject.files.items():
        write_whole(folder / name, file)


def write_graph(graph: Graph, path: Path) -> None:
    free = torch.export.Dim.DYNAMIC
    shapes = {name: dict.fromkeys(graph.free.get(name, {}), free) for name in graph.inputs}
    try:
        with _quiet(), torch.no_grad():
            program: Any = torch.onnx.export(
                graph.module,
                _nested(graph.inputs, list(graph.inputs)),
                input_names=list(graph.inputs),
                output_names=graph.outputs,
                dynamic_shapes=_nested(shapes, list(graph.inputs)),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().partition("\n")[0][:200]
        raise UserError(
            f"the graph {graph.name!r} of this model cannot be written as ONNX: {reason}. Export it with --to hf, or train "
            "with another mixer, visibility or position."
        ) from error
    size = sum(parameter.numel() * parameter.element_size() for parameter in graph.module.parameters())
    program.save(str(path), external_data=size > LARGEST)


def _nested(parts: dict[str, Any], names: list[str]) -> tuple[Any, ...]:
    """Return inputs in the order of the module's arguments: all keys and values are one argument."""
    past = [name for name in names if "_key_" in name or "_value_" in name]
    before = names[: names.index(past[0])] if past else names
    return (*(parts[n] for n in before), *([tuple(parts[n] for n in past)] if past else []), *_after(parts, names, past))


def _after(parts: dict[str, Tensor], names: list[str], past: list[str]) -> Iterator[Any]:
    yield from (parts[name] for name in (names[names.index(past[-1]) + 1 :] if past else ()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what the exporter says about its progress and about packages that it does not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

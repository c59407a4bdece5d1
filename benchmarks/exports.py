"""Exported models: ONNX Runtime and CTranslate2 beside our own path on a CPU, outputs checked equal first.

python -m benchmarks.exports [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import onnxruntime
import torch

from benchmarks.measure import Row, alternate, row, versions, write
from benchmarks.steps import CUDA
from regard.decode.config import GREEDY
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families import FAMILIES, build_model
from regard.families.base import Heads
from regard.interop.ctranslate2.models import pieces
from regard.interop.ctranslate2.models import write_folder as write_ctranslate2
from regard.interop.exported import MOST_DIFFERENCE, ExportedModel, padded
from regard.interop.onnx.check import Run, runner
from regard.interop.onnx.graphs import graphs_of
from regard.interop.onnx.write import write_graph
from regard.model.layers import pack
from regard.text.tokenizer import train_tokenizer

VOCABULARY, STEPS, NO_TOKEN = 8_000, 32, -1
START, END, PAD = 1, 2, 0
READER: dict[str, Any] = dict(width=384, heads=12, layers=6, feedforward=1536)  # MiniLM-L6
TRANSLATOR: dict[str, Any] = dict(width=256, heads=4, layers=3, feedforward=1024)
WRITER: dict[str, Any] = dict(width=384, heads=6, layers=6, feedforward=1536)
Rows = list[list[int]]


def rows_of(count: int, longest: int, seed: int = 0) -> Rows:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(longest // 2, longest + 1, (count,), generator=draw).tolist()
    return [torch.randint(4, VOCABULARY, (length,), generator=draw).tolist() for length in lengths]


def exported(family: str, sizes: dict[str, Any], folder: Path, **heads: Any) -> tuple[Any, Run, ExportedModel]:
    """Return a random model, a function that runs its graphs, and what CTranslate2's folder is made of."""
    model = build_model(FAMILIES[family].config(**sizes, dropout=0.0), vocabulary=VOCABULARY, **heads).eval()
    graphs = graphs_of(model)
    for graph in graphs:
        write_graph(graph, folder / f"{graph.name}.onnx")
    tokenizer = train_tokenizer("word", ["a b"], 10, lowercase=False, minimum_count=1)
    subject = ExportedModel("random", model, tokenizer, start=START, end=END, pad=PAD)
    with torch.no_grad():
        (folder / "ct2").mkdir()
        write_ctranslate2(folder / "ct2", subject, {}, "float32")
    run = runner(onnxruntime, folder, graphs)
    pack(model, "float32")
    return model, run, subject


def reader(folder: Path, count: int, longest: int, rounds: int) -> Row:
    model, run, _ = exported("bert", READER, folder, heads=Heads(words=False, pooler=True))
    abroad = ctranslate2.Encoder(str(folder / "ct2"), **threads())
    ids_BL, lengths_B = padded(rows_of(count, longest), PAD)
    given = [ctranslate2.StorageView.from_array(part.int().numpy()) for part in (ids_BL, lengths_B)]
    segments_BL = torch.zeros_like(ids_BL)

    @torch.inference_mode()
    def ours() -> np.ndarray:
        found: np.ndarray = model.pooler(model.hidden(ids_BL, lengths_B, segments_BL), lengths_B).numpy()
        return found

    systems: dict[str, Callable[[], np.ndarray]] = {
        "regard": ours,
        "ONNX Runtime": lambda: run("model", [ids_BL, lengths_B, segments_BL])[1],
        "CTranslate2": lambda: np.array(abroad.forward_batch(*given).pooler_output),
    }
    for name, compute in systems.items():
        if not (apart := np.abs(compute() - ours()).max()) < MOST_DIFFERENCE:
            raise SystemExit(f"{name} differs by {apart:.1e}")
    seconds = alternate(systems, rounds, warm_up=1)
    return row(f"vectors of {count} texts of {longest // 2} to {longest} tokens", "texts/s", count, seconds)


def in_graphs(run: Run, source_BM: torch.Tensor, lengths_B: torch.Tensor) -> Rows:
    """Return the ids of greedy search by the three graphs."""
    lengths, token_B1 = lengths_B.numpy(), np.full((len(source_BM), 1), START)
    (memory_BMD,) = run("encoder", [source_BM.numpy(), lengths])
    logits_BV, *found = run("first", [token_B1, memory_BMD, lengths])
    past, memories, written = found[: len(found) // 2], found[len(found) // 2 :], list[np.ndarray]()
    for step in range(STEPS):
        logits_BV[:, END] = -np.inf
        written.append(logits_BV.argmax(1))
        if step < STEPS - 1:
            logits_BV, *past = run("next", [written[-1][:, None], *past, *memories, lengths])
    return np.stack(written, 1).tolist()  # type: ignore[no-any-return]


def continued(run: Run, ids_BL: np.ndarray) -> Rows:
    logits_BV, *past = run("first", [ids_BL])
    written = list[np.ndarray]()
    for step in range(STEPS):
        logits_BV[:, END] = -np.inf
        written.append(logits_BV.argmax(1))
        if step < STEPS - 1:
            logits_BV, *past = run("next", [written[-1][:, None], *past])
    return np.stack(written, 1).tolist()  # type: ignore[no-any-return]


@torch.inference_mode()
def searched(model: Any, ids_BL: torch.Tensor, lengths_B: torch.Tensor, start: Any) -> Rows:
    """Return the ids of our greedy search, of which no text ends before its limit."""
    encoded = model.start(ids_BL, lengths_B)
    asked = dict(limits=[STEPS] * len(ids_BL), method=GREEDY, banned=(END,))
    return [list(found[0].ids) for found in search(SearchRequest(encoded=encoded, sos=start, eos=END, **asked))]


def threads() -> dict[str, Any]:
    return dict(device="cpu", compute_type="float32", inter_threads=1, intra_threads=torch.get_num_threads())


def must_agree(systems: dict[str, Callable[[], Rows]]) -> None:
    """Of random weights, two words may be as likely as another up to rounding: nearly all rows must be equal."""
    expected = systems["regard"]()
    for name, write_rows in systems.items():
        equal = sum(found == row for found, row in zip(write_rows(), expected))
        if equal < 0.9 * len(expected):
            raise SystemExit(f"{name} writes {len(expected) - equal} of {len(expected)} rows otherwise")


def translator(folder: Path, count: int, rounds: int) -> Row:
    model, run, subject = exported("transformer", TRANSLATOR, folder)
    abroad = ctranslate2.Translator(str(folder / "ct2"), **threads())
    names = pieces(subject.tokenizer, VOCABULARY)  # type: ignore[arg-type]
    numbers = {name: n for n, name in enumerate(names)}
    given = rows_of(count, 24)
    source_BM, lengths_B = padded(given, PAD)
    sources = [[names[i] for i in ids] for ids in given]

    def translated() -> Rows:
        limits = dict(beam_size=1, min_decoding_length=STEPS, max_decoding_length=STEPS, max_batch_size=count)
        return [[numbers[piece] for piece in found.hypotheses[0]] for found in abroad.translate_batch(sources, **limits)]

    systems: dict[str, Callable[[], Rows]] = {
        "regard": partial(searched, model, source_BM, lengths_B, START),
        "ONNX Runtime": partial(in_graphs, run, source_BM, lengths_B),
        "CTranslate2": translated,
    }
    must_agree(systems)
    return row(
        f"greedy translation of {count} texts, {STEPS} tokens each", "tokens/s", count * STEPS, alternate(systems, rounds, 1)
    )


def writer(folder: Path, count: int, rounds: int) -> Row:
    model, run, _ = exported("gpt", WRITER, folder)
    ids_BL = torch.tensor([row[:16] for row in rows_of(count, 32)])
    lengths_B = torch.full((count,), ids_BL.shape[1] - 1)
    systems: dict[str, Callable[[], Rows]] = {
        "regard": partial(searched, model, ids_BL[:, :-1], lengths_B, ids_BL[:, -1]),
        "ONNX Runtime": partial(continued, run, ids_BL.numpy()),
    }
    must_agree(systems)
    return row(f"{count} prompts of 16 tokens continued by {STEPS}", "tokens/s", count * STEPS, alternate(systems, rounds, 1))


def main(rounds: int = 7) -> None:
    if CUDA:
        raise SystemExit("this measures a CPU, and its results would bear the GPU's name; hide it with CUDA_VISIBLE_DEVICES=")
    torch.set_num_threads(1)  # parts of a product wait for each other, and on a machine that is shared they wait long
    rows = list[Row]()
    for race in (
        partial(reader, count=32, longest=64),
        partial(reader, count=1, longest=32),
        partial(translator, count=16),
        partial(translator, count=1),
        partial(writer, count=1),
    ):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(race(Path(folder), rounds=rounds))
        print(rows[-1]["case"], rows[-1]["ratios"])
    write(
        "exports",
        title="Exported models on a CPU",
        setting="Random weights, float32; a BERT of MiniLM's shape, a Transformer of 3 + 3 layers, width 256, a GPT of 6 layers, "
        "width 384. Greedy search, in which no text ends early; graphs are run by the loop of run.py, without beam or batching "
        "of their own. Outputs were equal before the race. One thread each. The machine was shared with other work while "
        "this was measured, so that only ratios, taken within each round, mean something.",
        rows=rows,
        versions=versions("onnxruntime", "ctranslate2"),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Runs in ONNX Runtime's environment: exports a Hugging Face classifier and answers with it, in float32.

python -m benchmarks.peers.onnx_runtime_there FOLDER THREADS

The older of torch's exporters is used: its graph is a tenth faster than the newer one's. ONNX Runtime's own optimizer for
Transformers, which fuses attention, made neither faster.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-not-found]
import torch
from transformers import AutoModelForSequenceClassification

from benchmarks.peers.apart import serve
from benchmarks.peers.careful import Careful

INPUTS = ("input_ids", "attention_mask")


def session(folder: Path, threads: int) -> onnxruntime.InferenceSession:
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype="float32").eval()
    ids = torch.full((2, 7), 100)
    axes = {name: {0: "texts", 1: "tokens"} for name in INPUTS}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = f"{name}/model.onnx"
        given: dict[str, Any] = {"input_names": list(INPUTS), "output_names": ["logits"], "dynamic_axes": axes}
        torch.onnx.export(model, (ids, torch.ones_like(ids)), path, dynamo=False, opset_version=17, **given)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main(name: str, threads: str) -> None:
    opened = session(Path(name), int(threads))

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        logits: np.ndarray = opened.run(None, dict(zip(INPUTS, (ids, mask))))[0]
        return logits

    careful = Careful(Path(name), run)

    def classify(texts: list[str], batch: int) -> list[list[float]]:
        found: list[list[float]] = careful(texts, batch).tolist()
        return found

    serve({"classify": classify})


if __name__ == "__main__":
    main(*sys.argv[1:])

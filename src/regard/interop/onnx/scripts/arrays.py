"""Run the model on arrays: python run.py INPUT.npy [INPUT.npy] OUTPUT.npy; without files it says what it takes."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

MODEL = onnxruntime.InferenceSession(str(Path(__file__).parent / "model.onnx"))


def run(*arrays):
    names = [one.name for one in MODEL.get_inputs()]
    return MODEL.run(None, dict(zip(names, arrays, strict=True)))[0]


if __name__ == "__main__":
    files = sys.argv[1:]
    if len(files) != len(MODEL.get_inputs()) + 1:
        for one in (*MODEL.get_inputs(), *MODEL.get_outputs()):
            print(one.name, one.type, one.shape)
        raise SystemExit("give one .npy file for each input, and one to write")
    np.save(files[-1], run(*(np.load(name) for name in files[:-1])))

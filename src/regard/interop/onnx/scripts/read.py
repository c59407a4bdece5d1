"""Read texts: python run.py "a text" ..., or lines on standard input; a second text of a pair stands behind a tab."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SETTINGS = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
TOKENIZER = Tokenizer.from_file(str(HERE / SETTINGS["tokenizer"]))
MODEL = onnxruntime.InferenceSession(str(HERE / "model.onnx"))


def read(text, second=None):
    """Return what the model gives for a text, by the names of its outputs; of a classifier, the probability of each label."""
    encoding = TOKENIZER.encode(text, second)
    given = {"ids": np.array([encoding.ids]), "lengths": np.array([len(encoding.ids)]), "segments": np.array([encoding.type_ids])}
    wanted = [one.name for one in MODEL.get_inputs()]
    found = dict(zip([one.name for one in MODEL.get_outputs()], MODEL.run(None, {name: given[name] for name in wanted})))
    scores = found.get("logits")
    if scores is None or len(SETTINGS["labels"]) != scores.shape[1]:
        return {name: output[0] for name, output in found.items()}
    likely = np.exp(scores[0] - scores[0].max())
    return {label: float(share) for label, share in zip(SETTINGS["labels"], likely / likely.sum())}


if __name__ == "__main__":
    for line in sys.argv[1:] or sys.stdin:
        print(line.strip(), read(*line.strip().split("\t", 1)), sep="\t")

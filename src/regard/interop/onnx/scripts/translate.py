"""Translate lines of text, by greedy search: python run.py "a sentence" ..., or lines on standard input."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SETTINGS = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
READS, WRITES = (Tokenizer.from_file(str(HERE / SETTINGS[name])) for name in ("tokenizer", "target_tokenizer"))
ENCODER, FIRST, NEXT = (onnxruntime.InferenceSession(str(HERE / f"{name}.onnx")) for name in ("encoder", "first", "next"))


def run(session, *inputs):
    return session.run(None, dict(zip([one.name for one in session.get_inputs()], inputs)))


def translate(text, most=SETTINGS["maximum_length"]):
    source = np.array([READS.encode(text).ids])
    lengths = np.array([source.shape[1]])
    (memory,) = run(ENCODER, source, lengths)
    logits, *found = run(FIRST, np.array([[SETTINGS["start"]]]), memory, lengths)
    past, of_source = found[: len(found) // 2], found[len(found) // 2 :]
    written = []
    while len(written) < most:
        logits[:, SETTINGS["banned"]] = -np.inf
        if (token := int(logits.argmax())) in SETTINGS["ends"]:
            break
        written.append(token)
        logits, *past = run(NEXT, np.array([[token]]), *past, *of_source, lengths)
    return WRITES.decode(written)


if __name__ == "__main__":
    for line in sys.argv[1:] or sys.stdin:
        print(translate(line.strip()))

"""Continue texts, by greedy search: python run.py "the beginning" ..., or lines on standard input."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SETTINGS = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
TOKENIZER = Tokenizer.from_file(str(HERE / SETTINGS["tokenizer"]))
FIRST, NEXT = (onnxruntime.InferenceSession(str(HERE / f"{name}.onnx")) for name in ("first", "next"))


def run(session, *inputs):
    return session.run(None, dict(zip([one.name for one in session.get_inputs()], inputs)))


def write(text, most=SETTINGS["maximum_length"]):
    read = [*SETTINGS["before"], *TOKENIZER.encode(text, add_special_tokens=False).ids] or [SETTINGS["start"]]
    logits, *past = run(FIRST, np.array([read]))
    written = []
    while len(written) < most and len(read) + len(written) < SETTINGS["context"]:
        logits[:, SETTINGS["banned"]] = -np.inf
        if (token := int(logits.argmax())) in SETTINGS["ends"]:
            break
        written.append(token)
        logits, *past = run(NEXT, np.array([[token]]), *past)
    return TOKENIZER.decode(written)


if __name__ == "__main__":
    for line in sys.argv[1:] or sys.stdin:
        print(write(line.rstrip("\n")))

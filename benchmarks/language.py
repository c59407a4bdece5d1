"""What the language models of the recipes reach, and in how long: the built-in text, and two others where they are given.

REGARD_DATA=FOLDER regard bench language      FOLDER/tinyshakespeare/input.txt.gz as Karpathy has it,
                                              FOLDER/wikitext-2/{train,valid,test}.txt.gz (on a GPU)
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import write
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import train_run
from regard.runs.recipe import load_recipe

SHAKESPEARE = {"train": "tinyshakespeare/input.txt.gz"}
WIKITEXT = {split: f"wikitext-2/{split}.txt.gz" for split in ("train", "valid", "test")}
ON_GPU: dict[str, dict[str, str]] = {"gpt-characters": SHAKESPEARE, "gpt-words": WIKITEXT, "gpt": {}}
ON_CPU: dict[str, dict[str, str]] = {"gpt": {}, "gpt-characters-small": SHAKESPEARE}


def main() -> None:
    results: dict[str, Any] = {}
    folder = Path(os.environ.get("REGARD_DATA", ""))
    for name, data in (ON_GPU if CUDA else ON_CPU).items():
        if all((folder / path).is_file() for path in data.values()):
            print(f"training {name}", flush=True)
            results[name] = trained(name, [f"data.{split}={folder / path}" for split, path in data.items()])
            write("language", {"recipes": results})  # each when it is known: the next may take minutes


def trained(name: str, settings: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        outcome = train_run(load_recipe(name, settings), Path(folder) / name, DEVICE, print)
    progress, result = outcome.progress, outcome.result
    return {
        "parameters": outcome.prepared.example()[0].parameters,
        "steps": progress.step,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "validation_loss": progress.best,
        "at_step": progress.best_step,
        **({"test": result.as_dict()} if result else {}),
    }


if __name__ == "__main__":
    main()

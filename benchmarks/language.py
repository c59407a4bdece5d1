"""What the language models of the recipes reach, and in how long: the built-in text, and tiny Shakespeare where it is given.

REGARD_DATA=FOLDER regard bench language      FOLDER/tinyshakespeare/input.txt.gz as Karpathy has it
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import write
from benchmarks.steps import CUDA, DEVICE
from regard.recipe import load_recipe
from regard.tasks.training import train_run

RECIPES = {"gpt": (), "gpt-characters" if CUDA else "gpt-characters-small": ("tinyshakespeare", "input.txt.gz")}


def main() -> None:
    results: dict[str, Any] = {}
    for name, data in RECIPES.items():
        path = Path(os.environ.get("REGARD_DATA", ""), *data)
        if not data or path.is_file():
            print(f"training {name}", flush=True)
            results[name] = trained(name, [f"data.train={path}"] if data else [])
    write("language", {"recipes": results})


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

"""The figures README gives for the demo: time, scores and pronouns of the recipe `translate`, from a fresh training.

python -m benchmarks.demo
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.measure import write
from regard.commands.demo import pronoun_accuracy
from regard.commands.train import train_run
from regard.runs.folder import choose_device
from regard.runs.recipe import load_recipe


def main() -> None:
    recipe = load_recipe("translate")
    with tempfile.TemporaryDirectory() as folder:
        outcome = train_run(recipe, Path(folder) / "run", choose_device("cpu"), lambda line: None)
    assert outcome.result is not None
    right, total = pronoun_accuracy(outcome.prepared.test, outcome.result.outputs)
    progress = outcome.progress
    result = {
        "recipe": recipe.recipe.name,
        "steps": progress.step,
        "training_seconds": round(progress.seconds, 1),
        "target_tokens": progress.tokens,
        **outcome.result.as_dict(),
        "pronouns_right": right,
        "pronouns": total,
    }
    print("\n".join([*outcome.result.lines(), f"pronouns {right} of {total}", f"{progress.seconds:.1f} s of training"]))
    print(f"written to {write('demo', result).name}")


if __name__ == "__main__":
    main()

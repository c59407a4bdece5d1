"""The Long Range Arena at sizes for a CPU: each kind of attention on the same short inputs, with the same steps and three seeds.

    regard bench lra_small [listops text retrieval pathfinder] [variants=full,window] [seeds=1,2,3] [at_once=2] [train.steps=N]

Settings are those of the command that the head of each recipe has for a CPU, with data that are drawn here. What is named is
measured again, the rest stays as it was recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.lra import joined, one_of, recorded, side_by_side, typed, whole
from benchmarks.lra_exams import SMALL_VARIANTS, examine_small
from benchmarks.lra_table import small_tables

TASKS = ("listops", "text", "retrieval", "pathfinder")  # pixels are somebody's photographs
SETTING = (
    "Each recipe as the command in its head has it for a CPU: `lra-listops` with lists of 5 to 40 symbols, `lra-text` with "
    "built-in remarks of tens of bytes, `lra-retrieval` with pairs of built-in statements, `lra-pathfinder` with 16 x 16 pixels. "
    "`window` is window(8), `bigbird` is bigbird(4), `performer` has 64 features, as inputs are short; what is denoised has "
    "filled in its own inputs before. The checkpoint that is best on validation, scored on the test data once; one thread each, "
    "others beside it. Inputs are not the arena's, and nothing follows for long ones."
)


def record(task: str, variant: str, found: dict[str, Any]) -> None:
    data = joined(recorded("lra_small"), task, variant, found)
    told = {"title": "Long Range Arena at sizes for a CPU", "setting": SETTING, "versions": {}, "rows": [], "curves": []}
    measure.write("lra_small", {**told, "tables": small_tables(data), "data": data})
    print(f"{task} {variant} seed {found['seed']}: {100 * found['accuracy']:.2f}% in {found['seconds']:.0f} s", flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    defaults = {"variants": ",".join(SMALL_VARIANTS), "seeds": "1,2,3", "at_once": "2"}
    names, chosen, settings = typed(arguments, TASKS, defaults)
    variants = [one_of(name, SMALL_VARIANTS, "variant") for name in chosen["variants"].split(",")]
    calls = {
        (task, variant, seed): (examine_small, task, variant, seed, settings)
        for seed in whole(chosen["seeds"])
        for task in names or TASKS
        for variant in variants
    }
    side_by_side(calls, whole(chosen["at_once"])[0], record)


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "lra_small" else ())

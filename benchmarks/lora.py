"""Low-rank fine-tuning of MiniLM-L6 on SST-2: `train.lora=8` beside all weights, and beside `peft` where it is installed.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER regard bench lora [1 2 3]

Steps of 32 texts of like length take turns; then ours are trained to the end, with each seed that is named: three epochs on a
GPU, all trainings at once; one on a CPU, where 20,000 texts show that it learns. Memory is the most that a step takes beyond
weights and optimizer state, which are counted.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.measure import Row, Table, alternate, peak_bytes, row, versions, write
from benchmarks.real import DATA, MINILM, folder, hold_out, hold_out_sentences
from benchmarks.steps import CUDA
from benchmarks.trained import trained
from regard.runs.init_recipe import load_recipe_to_train
from regard.tasks.classification import prepare
from regard.training.lora import Counts, counted
from regard.training.optimizers import make_optimizer

RECIPE, TEXTS, RANK = "finetune-classify", 32, 8
HELD_OUT, SMALL = (1_000, 0) if CUDA else (200, 20_000)  # texts for validation; texts to train on, 0 for all
EPOCHS, AT_ONCE = (3, 6) if CUDA else (1, 1)
DEVICE = torch.device("cuda" if CUDA else "cpu")
WAYS = {
    "all weights": ["train.learning_rate=5e-5"],
    "LoRA": [f"train.lora={RANK}", "train.lora_alpha=16", "train.learning_rate=1e-3"],
}
Step = Callable[[], object]


@cache
def files(into: Path) -> tuple[Path, Path]:
    """Write what is trained on and what is held out."""
    phrases = folder(DATA, "sst2", "train.tsv.gz")
    if not CUDA:
        return hold_out(phrases, HELD_OUT, into, header=True)
    sentences = folder(DATA, "sst2", "train_sentences_6920.tsv.gz")  # whole ones, and no phrase of theirs is trained on
    return hold_out_sentences(phrases, sentences, HELD_OUT, into)


def settings(into: Path, way: str, seed: int = 1) -> list[str]:
    train, valid = files(into)
    found = [f"task.init_from={folder(MINILM)}", f"data.train={train}", f"data.valid={valid}"]
    found += [
        "data.columns=sentence|content,label",
        f"data.test={folder(DATA, 'sst2', 'dev.tsv.gz')}",
        f"train.seed={seed}",
        f"train.epochs={EPOCHS}",
        *WAYS[way],
    ]
    return found + ([] if CUDA else ["train.precision=fp32", f"data.limit={SMALL}"])


def ours(into: Path, way: str) -> tuple[Step, Counts]:
    """One step on the same texts each time."""
    prepared = prepare.prepare(load_recipe_to_train(RECIPE, settings(into, way)), None, lambda line: None)
    model, objective = prepared.model().to(DEVICE).train(), prepared.objective()
    source = prepared.source(packed=False)
    rows = max(source.plan(0), key=len)[:TEXTS]
    batch = source.batch(rows, 0).to(DEVICE)
    optimizer = make_optimizer(model, prepared.recipe.train)

    def step() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=CUDA):
            total = objective(model, batch).total
        total.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, counted(model)


def theirs(into: Path) -> tuple[Step, Counts]:
    """The same texts, targets and rank by `peft`, with torch's fused AdamW."""
    import peft  # type: ignore[import-not-found]
    from transformers import AutoModelForSequenceClassification

    prepared = prepare.prepare(load_recipe_to_train(RECIPE, settings(into, "LoRA")), None, lambda line: None)
    source = prepared.source(packed=False)
    batch = source.batch(max(source.plan(0), key=len)[:TEXTS], 0).to(DEVICE)
    targets = ["query", "key", "value", "attention.output.dense"]
    config = peft.LoraConfig(r=RANK, lora_alpha=16, target_modules=targets, task_type="SEQ_CLS")
    model: Any = peft.get_peft_model(AutoModelForSequenceClassification.from_pretrained(folder(MINILM)), config)
    model.to(DEVICE).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-4, fused=True)
    ids_BL = batch.ids_BL
    seen_BL = torch.arange(ids_BL.shape[1], device=DEVICE) < batch.words[:, None]

    def step() -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=CUDA):
            logits_NC = model(input_ids=ids_BL, attention_mask=seen_BL.long()).logits
            loss = nn.functional.cross_entropy(logits_NC.float(), batch.labels_N)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, counted(model)


def held(counts: Counts) -> int:
    """Bytes of weights, gradients and two moments."""
    return 4 * counts.all + 12 * counts.trained


def scores(into: Path, seeds: Sequence[int]) -> list[list[str]]:
    """Train to the end each way with each seed; return a line of accuracies on the development set for each way."""
    with ProcessPoolExecutor(AT_ONCE, multiprocessing.get_context("spawn")) as pool:
        running = {way: [pool.submit(trained, RECIPE, settings(into, way, seed)) for seed in seeds] for way in WAYS}
        found = []
        for way, runs in running.items():
            ended = [run.result() for run in runs]
            accuracies = [float(one.scores["accuracy"]) for one in ended]
            seconds = f"{statistics.mean(one.seconds for one in ended):.0f}"
            found.append([way, f"{statistics.mean(accuracies):.2%}", seconds, *(f"{each:.2%}" for each in accuracies)])
            print("  ".join(found[-1]), flush=True)
    return found


def main(arguments: Sequence[str] = (), rounds: int = 30 if CUDA else 7) -> None:
    seeds = [int(argument) for argument in arguments] or [1]
    with tempfile.TemporaryDirectory() as name:
        into = Path(name)
        steps, sizes = dict[str, Step](), dict[str, Counts]()
        for way in WAYS:
            steps[way], sizes[way] = ours(into, way)
        if find_spec("peft"):
            steps["peft"], sizes["peft"] = theirs(into)
        seconds = alternate(steps, rounds)
        peaks = {way: peak_bytes(step) for way, step in steps.items()}
        pairs = [("LoRA", other) for other in steps if other != "LoRA"]
        rows: list[Row] = [row(f"a step of {TEXTS} texts", "texts/s", TEXTS, seconds, pairs=pairs, peaks=peaks)]
        table = [
            [way, f"{c.trained:,}", f"{c.trained / c.all:.2%}", f"{held(c) / 1e6:.1f} MB", f"{peaks[way] / 1e6:.1f} MB"]
            for way, c in sizes.items()
        ]
        columns = ["", "parameters that learn", "of all", "weights, gradients, Adam", "a step beyond these"]
        tables: list[Table] = [{"title": "What is held", "columns": columns, "rows": table}]
        scored = ["accuracy on SST-2 dev", "mean", "seconds", *(f"seed {seed}" for seed in seeds)]
        after = f"Accuracy after {EPOCHS} epoch{'s' * (EPOCHS > 1)}, {AT_ONCE} training{'s' * (AT_ONCE > 1)} at once"
        tables.append({"title": after, "columns": scored, "rows": scores(into, seeds)})
    texts = f"{SMALL:,} texts" if SMALL else "all texts but those held out"
    write(
        "lora",
        title="Low-rank fine-tuning of MiniLM-L6 on SST-2",
        setting=f"Rank {RANK} on queries, keys, values and outputs of attention, and the head; {texts}. Learning rate "
        "5e-5 for all weights, 1e-3 for adapters.",
        rows=rows,
        versions=versions("transformers", *(["peft"] if "peft" in steps else [])),
        tables=tables,
    )


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "lora" else ())

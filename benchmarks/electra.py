"""ELECTRA against BERT: the same text, the same body, the same operations; then both fine-tuned on SST-2 (Clark et al. 2020).

    REGARD_DATA=FOLDER regard bench electra      FOLDER/wikitext-2/train.txt.gz, FOLDER/sst2/{train_sentences_6920,dev}.tsv.gz

Each point of the curve is a whole pre-training of its own, with its own schedule, and three fine-tunings of it; ELECTRA takes
fewer steps, as each has more to compute. The last sentences of the training set choose the epoch; the dev set is looked at once.
On a CPU a few steps show that it runs.
"""

from __future__ import annotations

import gzip
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from benchmarks.measure import write
from benchmarks.plot import COLOURS, GRID, INK, MUTED
from benchmarks.real import DATA, folder, hold_out
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import train_prepared, train_run
from regard.runs.cost import training_flops
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.corpus import Running, read_running
from regard.tasks.masked_lm.prepare import Masked
from regard.text.tokenizer import Tokenizer

STEPS = 2000 if CUDA else 8  # of BERT, at the end of the curve
POINTS = (0.25, 0.5, 1.0) if CUDA else (0.5, 1.0)  # of all operations
SEEDS = (1, 2, 3) if CUDA else (1, 2)
HELD_OUT = 500  # sentences that choose the epoch
BODY = dict(width=256, heads=4, layers=6, feedforward=1024, embedding_width=128) if CUDA else dict(width=32, heads=2, layers=1)
BODY |= dict(deviation=0.05, dropout=0.0, maximum_length=128)
GENERATOR = 64 if CUDA else 16
PRE_TRAIN = dict(tokens_per_batch=16_384 if CUDA else 512, learning_rate=2e-3, warmup=0.1, schedule="linear", optimizer="muon")
PRE_TRAIN |= dict(precision="bf16" if CUDA else "fp32", weight_decay=0.05, clip=1.0)
FINE_TUNE = dict(epochs=3.0 if CUDA else 0.02, tokens_per_batch=2048, learning_rate=2e-4, precision="bf16" if CUDA else "fp32")
VOCABULARY = 8192 if CUDA else 1000
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "electra.png"
Finding = dict[str, Any]


def pre_training(family: str, text: Path, steps: int) -> Recipe:
    train = PRE_TRAIN | dict(steps=steps, validate_every=steps, checkpoint_every=steps)
    body = BODY | (dict(generator_width=GENERATOR) if family == "electra" else {})
    settings = [f"model.{key}={value}" for key, value in body.items()] + [f"train.{key}={value}" for key, value in train.items()]
    return load_recipe(family, [f"data.train={text}", "data.valid_fraction=0.01", f"text.size={VOCABULARY}", *settings])


def equal_steps(text: Path, running: Running) -> dict[str, int]:
    """For the same operations; both have passages of one length, and mask as many words of each."""
    each = {
        family: Masked.of(pre_training(family, text, STEPS), running, None).example()[0].flops for family in ("bert", "electra")
    }
    return {family: round(STEPS * each["bert"] / flops) for family, flops in each.items()}


def pre_trained(family: str, text: Path, running: Running, steps: int, into: Path) -> Finding:
    outcome = train_prepared(Masked.of(pre_training(family, text, steps), running, None), into, DEVICE, print)
    progress, spent = outcome.progress, training_flops(outcome.prepared, outcome.progress.tokens)
    return {"steps": steps, "flops": spent, "seconds": round(progress.seconds, 1), "validation_nll": progress.best}


def fine_tuned(start: Sequence[str], splits: Sequence[str], seed: int) -> float:
    """Accuracy on the dev set."""
    settings = [f"train.{key}={value}" for key, value in FINE_TUNE.items()]
    recipe = load_recipe_to_train("finetune-classify", [*start, *splits, *settings, f"train.seed={seed}"])
    with tempfile.TemporaryDirectory() as name:
        outcome = train_run(recipe, Path(name) / "run", DEVICE, lambda line: None)
    assert outcome.result is not None  # there is a test set
    return float(outcome.result.as_dict()["accuracy"])


def sentences(into: Path) -> list[str]:
    """SST-2 as tables of text and label: what to train on, to choose by and to score."""
    train, valid = hold_out(folder(DATA, "sst2", "train_sentences_6920.tsv.gz"), HELD_OUT, into)
    _, *rows = gzip.decompress(folder(DATA, "sst2", "dev.tsv.gz").read_bytes()).decode().splitlines()
    flipped = (row.split("\t") for row in rows)
    (into / "dev.tsv").write_text("".join(f"{text}\t{label}\n" for label, text in flipped), "utf-8")
    return [f"data.train={train}", f"data.valid={valid}", f"data.test={into / 'dev.tsv'}"]


def measured(start: Sequence[str], splits: Sequence[str]) -> Finding:
    found = [fine_tuned(start, splits, seed) for seed in SEEDS]
    return {"accuracy": found, "mean": statistics.mean(found), "spread": statistics.stdev(found)}


def draw(curves: dict[str, list[Finding]], path: Path) -> None:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(7, 4.2), facecolor="white", layout="constrained")
        axes = figure.add_subplot()
        for (family, points), colour in zip(curves.items(), COLOURS):
            flops, means, spreads = ([point[key] for point in points] for key in ("flops", "mean", "spread"))
            axes.errorbar(flops, means, spreads, color=colour, marker="o", capsize=4, linewidth=1.6, label=family)
        axes.set_xlabel("operations of pre-training", color=MUTED)
        axes.set_ylabel(f"SST-2 dev accuracy, mean and spread of {len(points[0]['accuracy'])} seeds", color=MUTED)
        axes.set_title("The same text, the same body, the same operations", loc="left", color=INK, weight="bold", size=11)
        axes.grid(color=GRID, linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, labelcolor=INK)
        figure.savefig(path, dpi=150)


def main() -> None:
    text = folder(DATA, "wikitext-2", "train.txt.gz")
    running = read_running(pre_training("bert", text, STEPS), None, print, ended=False, complete=Tokenizer.with_mask)
    steps = equal_steps(text, running)
    curves: dict[str, list[Finding]] = {}
    with tempfile.TemporaryDirectory() as name:
        splits = sentences(Path(name))
        for family, whole in steps.items():
            for point in POINTS:
                run = Path(name) / f"{family}-{point}"
                found = pre_trained(family, text, running, round(point * whole), run)
                found |= measured([f"task.init_from={run}"], splits)
                print(f"{family}, {found['steps']:,} steps: {found['mean']:.4f} ±{found['spread']:.4f}", flush=True)
                curves.setdefault(family, []).append(found)
    settings = {"body": BODY, "generator_width": GENERATOR, "pre_train": PRE_TRAIN, "fine_tune": FINE_TUNE, "seeds": SEEDS}
    gain = curves["electra"][-1]["mean"] - curves["bert"][-1]["mean"]
    write("electra", {"settings": settings, "points": curves, "electra_minus_bert": gain})
    draw(curves, PICTURE)


if __name__ == "__main__":
    main()

"""Denoising objectives at equal compute: each pre-trains a small Transformer on the built-in reports, which it then sums up.

The texts of the 4,000 reports are given, with 300 of their summaries. Every objective gets the operations that `STEPS` steps of
span corruption take: one with longer targets, fewer steps. Then each model is fine-tuned on the 300 pairs by the same steps, and
scored on the 600 of the test. BART's own comparison is table 1 of Lewis et al. 2020.

    python -m benchmarks.denoising              three seeds, 600 steps: minutes on a GPU, an hour on a CPU
    python -m benchmarks.denoising 60 1 30      steps, seeds and steps of fine-tuning, to try
    python -m benchmarks.denoising 200 1 100 FOLDER     trained there: the same command goes on where it was stopped
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.measure import write
from regard.commands.train import Outcome, train_run
from regard.data.builtin import builtin_rows
from regard.runs.folder import choose_device
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import load_recipe
from regard.tasks.seq2seq_denoising.prepare import Corrupted, prepare

STEPS, SEEDS, PAIRS, TUNE = 600, 3, 300, 150
NOISES = {
    "span_corruption": ("objective.noise_rate=0.15",),
    "permutation+infilling": ("objective.noise_rate=0.3",),
    "infilling": ("objective.noise_rate=0.3",),
    "deletion": ("objective.noise_rate=0.3",),
    "masking": ("objective.noise_rate=0.3",),
    "prefix_lm": (),
    "causal_lm": (),
    "permutation": (),
    "rotation": (),
}
BART = {  # XSum and CNN/DailyMail perplexity of BART's table 1; lower is better
    "masking": "7.08 / 6.10",
    "deletion": "6.90 / 5.87",
    "infilling": "6.61 / 5.83",
    "rotation": "17.14 / 10.59",
    "permutation": "10.93 / 7.89",
    "permutation+infilling": "6.62 / 5.41",
    "causal_lm": "7.00 / 6.56",
}


class Tuned(NamedTuple):
    """A fine-tuned model."""

    steps: int  # of pre-training
    nll: float  # of validation summaries
    rouge_l: float
    exact: float
    seconds: float


def quiet(line: str) -> None: ...


def files(folder: Path) -> tuple[Path, Path]:
    """Write the texts of the reports, and some of them with their summaries."""
    rows = builtin_rows("reports", "train")
    texts, pairs = folder / "texts.jsonl", folder / "pairs.jsonl"
    texts.write_text("".join(json.dumps({"text": f"summarize: {text}"}) + "\n" for text, _ in rows), "utf-8")
    pairs.write_text("".join(json.dumps({"input": a, "target": b}) + "\n" for a, b in rows[:PAIRS]), "utf-8")
    return texts, pairs


def settings_of(noise: str, texts: Path, seed: int) -> list[str]:
    data = [f"data.train={texts}", "data.valid=", "data.test=", "data.valid_fraction=0.05", "data.window=128", "text.size=500"]
    return [*data, f"objective.noise={noise}", *NOISES[noise], f"train.seed={seed}", "train.tokens_per_batch=8192"]


def cost(prepared: Corrupted) -> float:
    """Return the operations of a training step, forwards."""
    source = prepared.source(packed=False)
    return prepared.example()[0].flops * len(source.passages) / len(source.plan(0))


def steps_of(noise: str, texts: Path, steps: int) -> int:
    """Return the steps that cost as much as `steps` of span corruption."""
    costs = [cost(prepare(load_recipe("t5", settings_of(name, texts, 1)), None, quiet)) for name in ("span_corruption", noise)]
    return max(1, round(steps * costs[0] / costs[1]))


def measured(noise: str | None, folder: Path, texts: Path, pairs: Path, steps: int, seed: int, tuned: int) -> Tuned:
    """Pre-train by a noise, or not at all, and fine-tune."""
    done = folder / f"{noise}-{seed}-{steps}-{tuned}.json"
    if done.exists():
        return Tuned(*json.loads(done.read_text("utf-8")))
    began, device = time.perf_counter(), choose_device(None)
    every = [f"train.steps={steps}", f"train.validate_every={steps}", "train.keep=1"]
    every += [f"train.checkpoint_every={max(1, steps // 4)}"]
    start = folder / f"{noise}-{seed}"
    recipe = load_recipe("t5", [*settings_of(noise or "causal_lm", texts, seed), *every])
    _whole(train_run(recipe, start, device, quiet))
    tune = [f"data.train={pairs}", "data.valid=builtin:reports/valid", "data.test=builtin:reports/test", f"train.steps={tuned}"]
    tune += [
        "train.warmup=0.1",
        f"train.validate_every={max(1, tuned // 3)}",
        f"train.checkpoint_every={tuned}",
        f"train.seed={seed}",
    ]
    tune += ["decode.search=greedy", "objective.smoothing=0", f"task.init_from={start}"]
    outcome = train_run(load_recipe_to_train("summarize", tune), folder / f"{noise}-{seed}-tuned", device, quiet)
    _whole(outcome)
    assert outcome.result is not None
    scores = outcome.result.as_dict()
    logged = [json.loads(line) for line in (outcome.run.folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    nll = min(line["valid_nll"] for line in logged if "valid_nll" in line)
    found = Tuned(steps, nll, scores["rouge_l"], scores["exact"], time.perf_counter() - began)
    done.write_text(json.dumps(found), "utf-8")
    return found


def _whole(outcome: Outcome) -> None:
    """End where a training was asked to stop: what comes after it would begin with half of it."""
    if outcome.interrupted:
        raise SystemExit(f"stopped at step {outcome.progress.step}; with a folder for the runs, the same command goes on")


def mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def main(steps: int = STEPS, seeds: int = SEEDS, tuned: int = TUNE, into: str = "") -> None:
    torch.set_num_threads(min(4, torch.get_num_threads()))
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="regard-bench-") as kept:
        folder = Path(into or kept)
        folder.mkdir(parents=True, exist_ok=True)
        texts, pairs = files(folder)
        for name in (None, *NOISES):
            each = 1 if name is None else steps_of(name, texts, steps)  # one step is as good as none
            found: list[Any] = [measured(name, folder, texts, pairs, each, seed, tuned) for seed in range(1, seeds + 1)]
            columns = [mean([getattr(one, key) for one in found]) for key in ("nll", "rouge_l", "exact")]
            took = f"{statistics.mean(one.seconds for one in found):.0f} s"
            rows.append([name or "none", f"{0 if name is None else each:,}", *columns, took, BART.get(name or "", "")])
            print("  ".join(f"{cell:>22}" for cell in rows[-1]), flush=True)
    columns = ["noise", "steps", "summary nll", "ROUGE-L", "exact match", "time", "BART's table 1: XSum / CNNDM perplexity"]
    write(
        "denoising",
        title="Denoising objectives at equal compute",
        setting=f"Transformer of 2 + 2 layers and width 128, pre-trained on the 4,000 built-in reports by the operations of "
        f"{steps:,} steps of span corruption, then fine-tuned for {tuned} steps on {PAIRS} of their summaries; 600 test reports; "
        f"seeds: {seeds}.",
        rows=[],
        versions={},
        tables=[{"title": "After fine-tuning", "columns": columns, "rows": rows}],
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *sys.argv[4:5])

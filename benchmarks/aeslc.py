"""Subjects of e-mails (AESLC): a summariser from scratch, and after pre-training by span corruption or infilling on text.

    python -m benchmarks.aeslc --data FOLDER --into FOLDER                  three seeds of each, scored on the test set
    python -m benchmarks.aeslc --data FOLDER --into FOLDER --part order     every noise at equal compute, scored on dev

FOLDER has aeslc, and imdb_full and wikitext-2 as far as they are wanted. Trainings run side by side. What they choose, weights of
a validation, they choose on dev; `--scored dev` leaves the test set closed, to try settings. Published: PEGASUS, Zhang et al.
2020, table 1; the objectives, BART, Lewis et al. 2020, table 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.aeslc_runs import SIZES, Job, done, mean, write_texts
from benchmarks.denoising import BART, NOISES
from benchmarks.measure import Table, write

COMPARED = ("", "span_corruption", "infilling")
COLUMNS = ["pre-training", "seeds", "steps", "ROUGE-1", "ROUGE-2", "ROUGE-L", "dev ROUGE-L of greedy texts", "dev nll", "seconds"]
PUBLISHED = [["published: Transformer from scratch", "", "", "15.04", "7.39", "14.93", "", "", ""]]
Found = dict[str, Any]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with aeslc, imdb_full and wikitext-2")
    parser.add_argument("--into", type=Path, required=True, help="a folder for the runs; the same one again goes on")
    parser.add_argument("--part", choices=("compare", "order"), default="compare")
    parser.add_argument("--noises", nargs="+", choices=("scratch", *NOISES), help="some of them")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--scored", choices=("test", "dev"), default="test")
    parser.add_argument("--pretrain", type=int, default=0, help="steps of infilling, or what costs as much")
    parser.add_argument("--at-once", type=int, default=9, help="trainings that share the device")
    parser.add_argument("--tiny", action="store_true", help="small models, to try whether everything runs; nothing is recorded")
    parser.add_argument("--out", type=Path, help="a file for a copy of what is recorded")
    return parser.parse_args(arguments)


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """Return the trainings, the longest first."""
    order = options.part == "order"
    chosen = options.noises or (["scratch", *NOISES] if order else [noise or "scratch" for noise in COMPARED])
    size = "tiny" if options.tiny else "order" if order else "base"
    scored = "dev" if order else options.scored
    jobs = [
        Job("" if noise == "scratch" else noise, seed, size, scored, options.into) for seed in options.seeds for noise in chosen
    ]
    return sorted(jobs, key=lambda job: not job.noise)


def table(options: argparse.Namespace, found: Sequence[Found]) -> Table:
    """Return a line for each way of pre-training, the means of its seeds."""
    order, rows = options.part == "order", list[list[str]]()
    for noise in dict.fromkeys(["", *NOISES]):
        some = [one for one in found if one["noise"] == noise]
        if not some:
            continue
        means = [mean([one[key] for one in some]) for key in ("rouge_1", "rouge_2", "rouge_l", "valid_rouge_l")]
        took = mean([one["pretraining_seconds"] + one["seconds"] for one in some], 0)
        rows.append(
            [noise or "none", str(len(some)), f"{some[0]['steps']:,}", *means, mean([one["valid_nll"] for one in some], 3), took]
        )
    if order:
        rows = [[*row, BART.get(row[0], "")] for row in rows]
        return {
            "title": "Objectives at equal compute, scored on dev",
            "columns": [*COLUMNS, "BART's table 1: XSum / CNNDM perplexity"],
            "rows": rows,
        }
    title = "Scored on the test set, with published scores" if options.scored == "test" else "Scored on dev"
    return {"title": title, "columns": COLUMNS, "rows": rows + (PUBLISHED if options.scored == "test" else [])}


def record(options: argparse.Namespace, found: Sequence[Found], seconds: float) -> None:
    made = table(options, found)
    widths = [max(len(line[n]) for line in (made["columns"], *made["rows"])) for n in range(len(made["columns"]))]
    for line in (made["columns"], *made["rows"]):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths)).rstrip(), flush=True)
    if options.tiny:
        return
    size = SIZES["order" if options.part == "order" else "base"]
    parameters = max(one["parameters"] for one in found)
    steps = options.pretrain or size.pretrain
    path = write(
        "aeslc" if options.part == "compare" else "aeslc_order",
        title="Subjects of e-mails (AESLC)",
        setting=f"Transformer of {size.layers} + {size.layers} layers and width {size.width}, {parameters:,} parameters; text: "
        f"e-mails of the training data, reviews, wikitext; every noise gets the operations of {steps:,} steps of "
        f"infilling. {options.at_once} trainings at once, {seconds:,.0f} s until here; seconds are of one beside the others. The "
        "best of four validations by ROUGE-L, beam 4.",
        rows=[],
        versions={},
        tables=[made],
    )
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, options.out)


def main(arguments: Sequence[str] = ()) -> None:
    options, began = options_of(arguments), time.perf_counter()
    jobs, found, failed = jobs_of(options), list[Found](), list[str]()
    write_texts(options.data, options.into, jobs[0].size)
    print(
        f"{len(jobs)} trainings, {options.at_once} at once; texts are ready after {time.perf_counter() - began:.0f} s", flush=True
    )
    with ProcessPoolExecutor(options.at_once, multiprocessing.get_context("spawn")) as pool:
        running: dict[Future[Found], Job] = {pool.submit(done, job): job for job in jobs}
        for future in as_completed(running):
            try:
                found.append(future.result())
            except Exception:
                traceback.print_exc()
                failed.append(running[future].name)
                continue
            record(options, found, time.perf_counter() - began)
    if failed:
        raise SystemExit(f"failed, with what is said above: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])

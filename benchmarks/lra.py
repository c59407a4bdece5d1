"""Long Range Arena: each task with one kind of attention after the other, accuracy, speed and memory, beside what was published.

    regard bench lra [listops text retrieval pixels pathfinder] [variants=full,window] [seeds=1,2,3] [at_once=4] [keep=FOLDER]
        [train.steps=N]

What is named is measured again, the rest stays as it was recorded. Runs are kept where `keep` says, and one that was cut off is
taken up again. Lists and paths are drawn here; other data are where REGARD_DATA=FOLDER says, as far as they are there:
imdb/{train,test}.jsonl.gz, cifar10_jpg/{train,test}.tar.gz (or CIFAR-10's own cifar-10-batches-bin),
aan/new_aan_pairs.{train,eval,test}.tsv. Test data are scored once, with the checkpoint whose validation loss is the lowest;
nothing is chosen by them. Where the arena has no validation set, a tenth of training is held out.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.lra_exams import EXAMS, VARIANTS, examine, files_of, known
from benchmarks.lra_table import PUBLISHED, SETTING, tables
from benchmarks.steps import CUDA
from regard.core.errors import UserError, nearest
from regard.runs.recipe import load_recipe


@dataclass(frozen=True)
class Wish:
    """What is typed behind `regard bench lra`."""

    tasks: tuple[str, ...]
    variants: tuple[str, ...]
    seeds: tuple[int, ...]
    at_once: int
    keep: str  # in which folder; none: nowhere
    settings: tuple[str, ...]

    @classmethod
    def read(cls, arguments: Sequence[str]) -> Wish:
        defaults = {"variants": ",".join(VARIANTS), "seeds": "1,2,3", "at_once": "4" if CUDA else "1", "keep": ""}
        tasks, chosen, settings = typed(arguments, EXAMS, defaults)
        variants = tuple(one_of(name, VARIANTS, "variant") for name in chosen["variants"].split(","))
        return cls(tuple(tasks), variants, whole(chosen["seeds"]), whole(chosen["at_once"])[0], chosen["keep"], tuple(settings))


def typed(
    arguments: Sequence[str], names: Iterable[str], defaults: Mapping[str, str]
) -> tuple[list[str], dict[str, str], list[str]]:
    """What is typed behind a subject: some of these names, choices in place of these defaults, and settings of recipes."""
    named, settings, chosen = list[str](), list[str](), dict(defaults)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            named.append(one_of(argument, names, "task"))
        elif "." in key:
            settings.append(argument)
        else:
            chosen[one_of(key, defaults, "choice")] = value
    return named, chosen, settings


def whole(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdecimal() and int(number) for number in numbers):
        raise UserError(f"{text!r} should be whole numbers above 0, such as seeds=1,2,3 or at_once=4.")
    return tuple(map(int, numbers))


def one_of(name: str, choices: Iterable[str], what: str) -> str:
    if name not in (known := list(choices)):
        raise UserError(f"there is no {what} {name!r} here{nearest(name, known)}")
    return name


def possible(wish: Wish) -> tuple[list[str], list[str]]:
    """Tasks whose files are here and variants that this version knows; of tasks that were typed, none may be missing."""
    tasks, variants = list[str](), list[str]()
    for task in wish.tasks or EXAMS:
        try:
            files_of(EXAMS[task])
            tasks.append(task)
        except UserError as error:
            if wish.tasks:
                raise
            print(f"{task} is left out: {error}", flush=True)
    for variant in wish.variants:
        try:
            load_recipe("lra-listops", VARIANTS[variant])
            variants.append(variant)
        except UserError as error:
            print(f"{variant} is left out: {error}", flush=True)
    return tasks, variants


def recorded(name: str = "lra") -> dict[str, Any]:
    path = measure.RESULTS / f"{name}.{'cuda' if CUDA else 'cpu'}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["data"] if path.is_file() else {}
    return found


def record(task: str, variant: str, found: dict[str, Any]) -> None:
    data = joined(recorded(), task, variant, found)
    told = {"title": "Long Range Arena", "setting": SETTING, "versions": {}, "rows": [], "tables": tables(data), "curves": []}
    measure.write("lra", {**told, "data": data})


def joined(data: dict[str, Any], task: str, variant: str, found: dict[str, Any]) -> dict[str, Any]:
    """With one more training, in the place of an earlier one with the same seed; those with other settings go."""
    before = data.get(task, {}).get(variant, [])
    same = [run for run in before if run["seed"] != found["seed"] and run["given"] == found["given"]]
    data = data | {task: data.get(task, {}) | {variant: sorted([*same, found], key=lambda run: run["seed"])}}
    return {name: {key: data[name][key] for key in VARIANTS if key in data[name]} for name in EXAMS if name in data}


def main(arguments: Sequence[str] = ()) -> None:
    wish = Wish.read(arguments)
    tasks, variants = possible(wish)
    if variants == ["eased"] and not any(known(task, "eased") for task in tasks):
        raise UserError(f"there are no easier sets to begin with for {', '.join(tasks)}; variants=eased is for pathfinder.")
    calls = {
        (task, variant, seed): (examine, task, variant, seed, [*files_of(EXAMS[task]), *wish.settings], wish.keep)
        for seed in wish.seeds
        for task in tasks
        for variant in variants
        if known(task, variant)
    }
    side_by_side(calls, wish.at_once, _found)


Name = tuple[str, str, int]  # task, variant, seed


def side_by_side(calls: Mapping[Name, tuple[Any, ...]], at_once: int, found: Callable[[str, str, dict[str, Any]], None]) -> None:
    """Each in a process of its own. What fails does not take the others with it."""
    context, failed = multiprocessing.get_context("spawn"), dict[str, Exception]()
    with ProcessPoolExecutor(at_once, context, max_tasks_per_child=1) as pool:
        jobs = {pool.submit(*call): name for name, call in calls.items()}
        for job in as_completed(jobs):
            task, variant, _ = jobs[job]
            try:
                found(task, variant, job.result())
            except Exception as error:
                print(error, file=sys.stderr) if isinstance(error, UserError) else traceback.print_exception(error)
                failed[f"{task} {variant}"] = error
    if failed:
        told = f"failed, with what is said above: {', '.join(failed)}"
        raise UserError(told) if all(isinstance(error, UserError) for error in failed.values()) else SystemExit(told)


def _found(task: str, variant: str, found: dict[str, Any]) -> None:
    """Recorded and told, without where files are."""
    found["given"] = [setting for setting in found["given"] if setting not in files_of(EXAMS[task])]
    record(task, variant, found)
    told = f"{100 * found['accuracy']:.2f}%, {found['steps_per_second']:.1f} steps/s"
    print(f"{task} {variant} seed {found['seed']}: {told} (published: {PUBLISHED[task].get(variant)})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "lra" else ())

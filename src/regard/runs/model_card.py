"""README.md of a run: what was trained, on what, at what cost, with which score, and the command that does it again."""

from __future__ import annotations

import platform
from datetime import date

import torch

from regard import __version__
from regard.metrics.classification import one_of
from regard.runs.cost import spent
from regard.runs.folder import Run
from regard.runs.prepared import Prepared
from regard.runs.protocols import Result
from regard.training.progress import Progress

SPLITS = ("train", "valid", "test")


def write_card(run: Run, progress: Progress, result: Result | None, prepared: Prepared, device: torch.device) -> None:
    recipe, amounts = prepared.recipe, prepared.amounts()
    about, model, weights = recipe.recipe, recipe.model, run.weights()
    sizes = " and ".join(f"{len(pieces):,}" for name, pieces in prepared.vocabularies.items() if name.startswith("tokenizer"))
    each = one_of(prepared.unit.split()[-1])
    held = f", {amounts['valid']} to validate with" if "valid" in amounts else ""  # static word vectors have nothing to validate
    learned = f"; {recipe.text.tokenizer} vocabulary of {sizes}" if sizes else ""
    lines = [
        f"# {about.title or about.name}",
        "",
        f"Trained with Regard {__version__} on {date.today()}. Paper: {about.paper or 'none named'}.",
        "",
        "## Scores",
        *([f"- {line}" for line in result.lines()] if result else ["- no test set was given (`data.test`)"]),
        *_validated(recipe.train.best, each, progress),
        "",
        "## Data",
        *[f"- {split}: `{', '.join(where)}`" for split in SPLITS if (where := getattr(recipe.data, split, ()))],
        f"- {amounts['train']} to train on{held}{learned}",
        "",
        "## Model",
        *([f"- began with the weights of `{recipe.task.init_from}`"] if recipe.task.init_from else []),
        f"- {model.family}: {model.summary}, {prepared.example()[0].parameters:,} parameters",
        f"- weights used: `{weights.path.relative_to(run.folder)}`",
        "",
        "## Cost",
        *[f"- {line}" for line in spent(prepared, progress, device).lines()],
        f"- {_machine(device)}",
        "",
        "## Again",
        "```",
        f"regard train {run.folder / 'recipe.toml'} --out ANOTHER_FOLDER",
        "```",
        "`recipe.toml` beside this file has every setting, `metrics.jsonl` every measurement, `samples.txt` what it said.",
    ]
    run.write("README.md", "\n".join(lines) + "\n")


def _validated(figure: str, each: str, progress: Progress) -> list[str]:
    if progress.best is None:
        return []
    told = f"lowest loss, nats {each}:" if figure == "nll" else f"highest {figure}:"
    loss = "" if figure == "nll" or progress.best_nll is None else f", with a loss of {progress.best_nll:.4f} nats {each}"
    return [f"- {told} {progress.best:.4f} in validation, at step {progress.best_step:,}{loss}"]


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        chip = torch.cuda.get_device_name(device)
    else:
        chip = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    return f"{chip}, Python {platform.python_version()}, torch {torch.__version__}"

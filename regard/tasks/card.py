"""README.md of a run: what was trained, on what, at what cost, with which score, and the command that does it again."""

from __future__ import annotations

import platform
from datetime import date

import torch

from regard import __version__
from regard.evaluate.bleu import Scores
from regard.recipe import Recipe
from regard.tasks.cost import model_tree, spent
from regard.tasks.run import Run
from regard.tasks.translate import Prepared
from regard.train.loop import Progress


def write_card(
    run: Run, recipe: Recipe, progress: Progress, scores: Scores | None, prepared: Prepared, device: torch.device
) -> None:
    about, model, weights = recipe.recipe, recipe.model, run.weights()
    lines = [
        f"# {about.title or about.name}",
        "",
        f"Trained with Regard {__version__} on {date.today()}. Paper: {about.paper or 'none named'}.",
        "",
        "## Scores",
        *([f"- {line}" for line in scores.lines()] if scores else ["- no test set was given (`data.test`)"]),
        f"- lowest validation loss {progress.best:.4f} nats a token, at step {progress.best_step:,}",
        "",
        "## Data",
        *[f"- {split}: `{', '.join(where)}`" for split in ("train", "valid", "test") if (where := getattr(recipe.data, split))],
        f"- {len(prepared.train):,} training pairs; {recipe.text.tokenizer} vocabulary of {len(prepared.tokenizers.target):,}",
        "",
        "## Model",
        f"- {model.family}: width {model.width}, {model.heads} heads, {model.depth[0]}+{model.depth[1]} layers, "
        f"feed-forward {model.feedforward}, {model_tree(recipe, prepared.tokenizers).parameters:,} parameters",
        f"- weights used: `{weights.path.relative_to(run.folder)}`",
        "",
        "## Cost",
        *[f"- {line}" for line in spent(recipe, prepared, progress, device).lines()],
        f"- {_machine(device)}",
        "",
        "## Again",
        "```",
        f"regard train {run.folder / 'recipe.toml'} --out ANOTHER_FOLDER",
        "```",
        "`recipe.toml` beside this file has every setting, `metrics.jsonl` every measurement, `samples.txt` what it said.",
    ]
    run.write("README.md", "\n".join(lines) + "\n")


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        chip = torch.cuda.get_device_name(device)
    else:
        chip = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    return f"{chip}, Python {platform.python_version()}, torch {torch.__version__}"

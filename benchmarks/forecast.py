"""Long-term forecasting: data sets, horizons, models and seeds of the published tables, every test window counted.

    python -m benchmarks.forecast data=FOLDER [etth1 ettm1 weather] [models=dlinear,nlinear,patchtst,itransformer]
        [horizons=96,192,336,720] [seeds=1,2,3] [keep=FOLDER] [minutes=60] [section.key=value ...]

`data` has ETTh1.csv, ETTm1.csv and weather.csv, gzipped or not. A cell is a run below `keep`, trained by the commands' own
functions; a cell that is done is not trained again, one that was interrupted goes on where it stood, and after `minutes` no other
one begins. The protocol is that of the papers: splits by months (ETT) or .7/.1/.2, scaling by training, errors of scaled values
over all channels. Unlike PatchTST's and iTransformer's code, the last batch of windows counts too. Beside the models stand the
naive forecasts, and the best linear map, which is the optimum of what DLinear searches by gradient descent.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks import measure
from benchmarks.lra import typed, whole
from benchmarks.steps import CUDA
from regard.commands.evaluate import score_run
from regard.commands.train import train_run
from regard.core.errors import UserError
from regard.runs.folder import Run, choose_device
from regard.runs.recipe import build_recipe, tables_of

HORIZONS = (96, 192, 336, 720)


class Data(NamedTuple):
    file: str
    settings: tuple[str, ...]


DATA = {
    "etth1": Data("ETTh1.csv", ("data.split=ett-hours", "data.season=24")),
    "ettm1": Data("ETTm1.csv", ("data.split=ett-minutes", "data.season=96")),
    "weather": Data("weather.csv", ("data.time=none", "data.season=144")),
}
SMALL = ("etth1",)  # on which the published PatchTST is narrow
TRAIN: dict[str, Any] = dict(
    examples_per_batch=64, learning_rate=1e-3, schedule="cosine", warmup=0.05, beta2=0.999, epsilon=1e-8, epochs=10.0
)
TRAIN |= dict(validate_every=0, checkpoint_every=0, log_every=100, keep=1)


class Model(NamedTuple):
    lookback: int
    model: dict[str, Any]
    train: dict[str, Any]
    narrow: Mapping[str, Any] = MappingProxyType({})


MODELS = {
    "dlinear": Model(336, {"family": "dlinear"}, {}),
    "nlinear": Model(336, {"family": "dlinear", "kind": "nlinear"}, {}),
    "patchtst": Model(
        336,
        {"family": "patchtst", "dropout": 0.2, "activation_dropout": 0.2},
        {"examples_per_batch": 128},
        {"width": 16, "heads": 4, "feedforward": 128, "dropout": 0.3, "activation_dropout": 0.3},
    ),
    "itransformer": Model(
        96, {"family": "itransformer", "width": 512, "feedforward": 512, "layers": 3}, {"learning_rate": 1e-4},
        {"width": 256, "feedforward": 256, "layers": 2},
    ),
}  # fmt: skip
PUBLISHED = {  # MSE at 96, 192, 336, 720: Nie et al. 2023, table 3 (PatchTST/42, DLinear), Zeng et al. 2023, Liu et al. 2024
    ("etth1", "dlinear"): (0.375, 0.405, 0.439, 0.472),
    ("etth1", "nlinear"): (0.374, 0.408, 0.429, 0.440),
    ("etth1", "patchtst"): (0.375, 0.414, 0.431, 0.449),
    ("etth1", "itransformer"): (0.386, 0.441, 0.487, 0.503),
    ("ettm1", "dlinear"): (0.299, 0.335, 0.369, 0.425),
    ("ettm1", "nlinear"): (0.306, 0.349, 0.375, 0.433),
    ("ettm1", "patchtst"): (0.290, 0.332, 0.366, 0.420),
    ("ettm1", "itransformer"): (0.334, 0.377, 0.426, 0.491),
    ("weather", "dlinear"): (0.176, 0.220, 0.265, 0.323),
    ("weather", "nlinear"): (0.182, 0.225, 0.271, 0.338),
    ("weather", "patchtst"): (0.152, 0.197, 0.249, 0.320),
    ("weather", "itransformer"): (0.174, 0.221, 0.278, 0.358),
}


def main(arguments: Sequence[str] = ()) -> None:
    defaults = {"data": "", "keep": "runs/forecast-bench", "seeds": "1,2,3", "minutes": "60", "record": "yes"}
    defaults |= {"models": ",".join(MODELS), "horizons": ",".join(map(str, HORIZONS))}
    sets, chosen, settings = typed(arguments, DATA, defaults)
    models, horizons = chosen["models"].split(","), whole(chosen["horizons"])
    if unknown := [name for name in models if name not in MODELS]:
        raise UserError(f"models={unknown[0]} is not known; choose of {', '.join(MODELS)}.")
    if unknown_h := [horizon for horizon in horizons if horizon not in HORIZONS]:
        raise UserError(f"horizons={unknown_h[0]} has no published row; choose of {', '.join(map(str, HORIZONS))}.")
    until, found = time.monotonic() + 60 * whole(chosen["minutes"])[0], recorded()
    for name in sets or DATA:
        path = find(Path(chosen["data"] or "."), DATA[name].file)
        for horizon in horizons:
            for model in models:
                for seed in whole(chosen["seeds"]):
                    cell = f"{name}-{horizon}-{model}-{seed}"
                    if time.monotonic() > until:
                        print(f"{cell} is not done; the same command goes on with it", flush=True)
                        return
                    found[cell] = run_cell(name, path, horizon, model, seed, Path(chosen["keep"]) / cell, settings)
                    if chosen["record"] == "yes" and not settings:
                        record(found)
    print("\n".join("  ".join(line) for line in table(found)["rows"]))


def find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UserError(f"data={folder} has no {name} or {name}.gz; type data=FOLDER, which has it.")


def run_cell(name: str, path: Path, horizon: int, model: str, seed: int, folder: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Train a cell, or go on with it, and score its test windows."""
    chosen, say = MODELS[model], lambda line: print(line, flush=True)
    narrow = chosen.narrow if name in SMALL else {}
    tables = {
        "recipe": {"name": f"forecast-{model}-{name}"},
        "task": {"name": "forecasting"},
        "data": {"train": [str(path)]},
        "model": {**chosen.model, **narrow, "lookback": chosen.lookback, "horizon": horizon},
        "train": {**TRAIN, **chosen.train, "seed": seed},
    }
    recipe = build_recipe(tables_of(tables, "benchmarks/forecast.py", [*DATA[name].settings, *settings]))
    if not (folder / "README.md").is_file():  # a model card is written last
        folder.parent.mkdir(parents=True, exist_ok=True)
        if code := train_run(recipe, folder, choose_device(None), say).interrupted:
            raise SystemExit(code)
    result = score_run(folder, [], None, None).as_dict()
    last = Run.open(folder).store().newest("step")
    assert last is not None
    seconds = round(last.state["progress"]["seconds"], 1)
    print(f"{folder.name}: MSE {result['mse']:.4f}, MAE {result['mae']:.4f}, {seconds} s of training", flush=True)
    beside = {other: round(row["mse"], 5) for other, row in result["beside"].items()}
    return {"mse": result["mse"], "mae": result["mae"], "windows": result["windows"], "seconds": seconds, "beside": beside}


def recorded() -> dict[str, Any]:
    path = measure.RESULTS / f"forecast.{'cuda' if CUDA else 'cpu'}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["data"] if path.is_file() else {}
    return found


def record(found: Mapping[str, Any]) -> None:
    setting = (
        "MSE and MAE of scaled values over every test window and channel; look-back 336, of itransformer 96. Weights are the "
    )
    setting += (
        "best in validation. 'linear' and 'nlinear' fitted by least squares need no seed. Published: the papers' own tables."
    )
    told = {"title": "Long-term forecasting", "setting": setting, "versions": {}, "rows": [], "curves": []}
    measure.write("forecast", {**told, "tables": [table(found)], "data": dict(sorted(found.items()))})


def table(found: Mapping[str, Any]) -> measure.Table:
    rows, done = [], {tuple(cell.rsplit("-", 1)[0].split("-")) for cell in found}
    for name in DATA:
        for n, horizon in enumerate(HORIZONS):
            for model in MODELS:
                if (name, str(horizon), model) not in done:
                    continue
                runs = [found[cell] for cell in sorted(found) if cell.startswith(f"{name}-{horizon}-{model}-")]
                mse, paper = mean(run["mse"] for run in runs), PUBLISHED[name, model][n]
                beside = ", ".join(f"{other} {value:.3f}" for other, value in runs[0]["beside"].items())
                each = "/".join(f"{run['seconds']:.0f}" for run in runs)
                mae, against = mean(run["mae"] for run in runs), f"{mse / paper - 1:+.1%}"
                told = [f"{name} {horizon}", model, f"{mse:.4f}", f"{mae:.4f}", f"{paper:.3f}"]
                rows.append([*told, against, str(len(runs)), each, beside])
    columns = ["data", "model", "MSE", "MAE", "published", "against it", "seeds", "seconds", "MSE of simple forecasts"]
    return measure.Table(title="Test errors", columns=columns, rows=rows)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A ViT has to learn what a convolutional network has built in: accuracy against the number of training images, four models.

    regard bench image_data_size [vit compact convnet distilled] [sizes=200,1000,6000] [seeds=1] [at_once=1] [keep=FOLDER]
        [train=FOLDER test=FOLDER] [train.steps=N ...]

Dosovitskiy et al. 2021, section 4.3: without inductive bias a Transformer needs more data. All models take the same steps of the
same number of images, however often these come again; the distilled one is the ViT with a distillation token, taught by the
convolutional network that saw the same images. Images are the drawn ones of `builtin:shapes`, or those of `train` and `test`.
Each cell is recorded as it is done, and one that was recorded is not trained again; runs are kept where `keep` says, and one that
was stopped goes on where it stood.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import measure
from benchmarks.lra import side_by_side, typed, whole
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import train_run
from regard.runs.recipe import load_recipe

MODELS = {"vit": "vit", "convnet": "convnet-shapes", "compact": "vit-scenes", "distilled": "deit"}
SIZE, PATCH = 24, 6  # pixels: 16 patches, for minutes on a CPU
SAME = ["train.epochs=0", "train.steps=500", "train.examples_per_batch=64", "train.validate_every=500"]
SAME += ["train.checkpoint_every=100", "train.average=1", "data.flip=true", "data.crop=2"]
SHAPES = "builtin:shapes"
PLACES = {"train": f"{SHAPES}/train", "test": f"{SHAPES}/test"}
SETTING = (
    "Models and settings of the recipes vit, convnet-shapes, vit-scenes (compact: convolutions for tokens) and deit (distilled), "
    f"on images of {SIZE} pixels, in patches of {PATCH}; "
    "the same steps for each: {steps} of 64 images, mirrored and moved by up "
    "to 2 pixels. The last weights are scored, on all test images, once."
)


def trained(model: str, size: int, seed: int, places: dict[str, str], settings: Sequence[str], keep: str) -> dict[str, Any]:
    """Train one model on so many images, or go on with it; a distilled one after its teacher."""
    with tempfile.TemporaryDirectory() as name:
        place, more = Path(keep or name), list[str]()
        if model == "distilled":
            teacher = place / f"convnet-{size}-{seed}"
            run("convnet", size, seed, places, settings, teacher)
            more = [f"objective.teacher={teacher}"]
        outcome = run(model, size, seed, places, [*settings, *more], place / f"{model}-{size}-{seed}")
        assert outcome.result is not None
        seconds = outcome.progress.seconds
        return {"accuracy": outcome.result.as_dict()["accuracy"], "seconds": round(seconds, 1), "seed": seed}


def run(model: str, size: int, seed: int, places: dict[str, str], settings: Sequence[str], folder: Path) -> Any:
    train, valid = places["train"], f"{SHAPES}@count=100/valid"
    data = [f"data.train={train}", f"data.valid={valid}", f"data.limit={size}", f"data.test={places['test']}"]
    if not train.startswith(SHAPES):
        data[1:2] = ["data.valid=", "data.valid_fraction=0.1"]
    shape = [f"model.image_size={SIZE}"] + [f"model.patch={PATCH}"] * (model in ("vit", "distilled"))
    recipe = load_recipe(MODELS[model], [*SAME, *data, *shape, f"train.seed={seed}", *settings])
    return train_run(recipe, folder, DEVICE, lambda line: None)


def recorded() -> dict[str, Any]:
    path = measure.RESULTS / f"image_data_size.{'cuda' if CUDA else 'cpu'}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["data"] if path.is_file() else {}
    return found


def record(images: str, model: str, size: int, found: dict[str, Any], steps: str) -> None:
    data = recorded()
    data.setdefault(images, {}).setdefault(str(size), {}).setdefault(model, {})[str(found["seed"])] = found
    tables = [table(title, data[title]) for title in data]
    told = {"title": "Accuracy against the number of training images", "setting": SETTING.format(steps=steps), "versions": {}}
    measure.write("image_data_size", {**told, "rows": [], "curves": [], "tables": tables, "data": data})
    print(f"{model} on {size:,} images, seed {found['seed']}: {found['accuracy']:.1%} in {found['seconds']:.0f} s", flush=True)


def table(title: str, sizes: dict[str, dict[str, dict[str, dict[str, Any]]]]) -> measure.Table:
    """Return a line for each number of images, and a column for each model: the mean over seeds, and each of several."""
    rows = []
    for size in sorted(sizes, key=int):
        cells = [[100 * found["accuracy"] for found in sizes[size].get(model, {}).values()] for model in MODELS]
        rows.append([f"{int(size):,}", *map(_mean, cells)])
    return measure.Table(title=f"Accuracy in %, {title}", columns=["training images", *MODELS], rows=rows)


def _mean(cell: list[float]) -> str:
    each = f" ({', '.join(f'{score:.1f}' for score in cell)})" if len(cell) > 1 else ""
    return f"{mean(cell):.1f}{each}" if cell else ""


def main(arguments: Sequence[str] = ()) -> None:
    defaults = {"sizes": "200,1000,6000", "seeds": "1", "at_once": "1", "keep": "", **PLACES}
    models, chosen, settings = typed(arguments, MODELS, defaults)
    places = {split: chosen[split] for split in PLACES}
    images = "drawn shapes" if places == PLACES else Path(places["train"]).name
    steps = next((setting.partition("=")[2] for setting in settings if setting.startswith("train.steps=")), "500")
    known = recorded().get(images, {})
    calls = {
        (model, str(size), seed): (trained, model, size, seed, places, settings, chosen["keep"])
        for seed in whole(chosen["seeds"])
        for model in models or MODELS
        for size in whole(chosen["sizes"])
        if str(seed) not in known.get(str(size), {}).get(model, {})
    }

    def done(model: str, size: str, found: dict[str, Any]) -> None:
        record(images, model, int(size), found, steps)

    side_by_side(calls, whole(chosen["at_once"])[0], done)


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "image_data_size" else ())

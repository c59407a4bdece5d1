"""Bits per dimension of MNIST and CIFAR-10: the recipes for a GPU and what differs from them by one choice.

    python -m benchmarks.pixels --mnist FOLDER --cifar FOLDER --runs FOLDER --cells mnist cifar train.epochs=9

MNIST is idx files, CIFAR-10 train.npz and test.npz. Each cell is one `regard train` in a folder of its own below --runs, looked
at on the test images once. A cell that was stopped, with the whole race or by a machine that was taken back, goes on from its
last checkpoint when the same command is given again; one that is done is read from its folder. Settings are for all cells.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.cells import Cells, parser
from benchmarks.steps import DEVICE
from regard.commands.train import train_run
from regard.runs.init_recipe import load_recipe_to_train

TITLE = "Bits per dimension of the test images"
COLUMNS = ("cell", "bits/dim", "PNG files", "parameters", "epochs", "minutes", "published")


class Cell(NamedTuple):
    recipe: str
    settings: tuple[str, ...]
    published: str


LOCAL = "model.visibility=image-local-1d(256, 256)"
CATEGORICAL = ("model.output=categorical", "model.mixtures=10")
CELLS = {
    "mnist": Cell("pixels-mnist", (), "0.621 (250 epochs)"),
    "mnist-categorical": Cell("pixels-mnist", CATEGORICAL, "none"),
    "mnist-linear": Cell("pixels-mnist", ("model.mixer=linear-relu",), "0.644 (250 epochs)"),
    "cifar": Cell("pixels-cifar10", (), "2.90"),
    "cifar-colours": Cell("pixels-cifar10", ("model.coupled=false", LOCAL), "none"),
    "cifar-categorical": Cell("pixels-cifar10", (*CATEGORICAL, "model.coupled=false", LOCAL), "2.90"),
}
TINY = ("model.width=32", "model.heads=2", "model.layers=1", "model.feedforward=32", "train.steps=2", "train.compile=false")
TINY += ("train.tokens_per_batch=3072", "data.limit=64", "train.warmup=0", "train.validate_every=0")


def data_of(cell: Cell, mnist: Path, cifar: Path) -> list[str]:
    """Return the settings that name the files."""
    if cell.recipe == "pixels-mnist":
        places = {split: mnist / f"{name}-images-idx3-ubyte" for split, name in (("train", "train"), ("test", "t10k"))}
    else:
        places = {split: cifar / f"{split}.npz" for split in ("train", "test")}
    return [f"data.{split}={path}" for split, path in places.items()]


def main(arguments: Sequence[str] = ()) -> None:
    options_of = parser(__doc__ or "", CELLS, ("regard",), 1)
    options_of.add_argument("--mnist", type=Path, default=Path("mnist"), help="the four idx files")
    options_of.add_argument("--cifar", type=Path, default=Path("cifar10"), help="train.npz and test.npz")
    options_of.add_argument("--runs", type=Path, default=Path("runs/pixels"), help="where runs are kept")
    options_of.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of all cells")
    settings = [word for word in arguments if "=" in word and not word.startswith("-")]
    options = options_of.parse_args([word for word in arguments if word not in settings])
    cells = Cells(
        "pixels",
        "Images as sequences of pixels",
        "The recipes `pixels-mnist` and `pixels-cifar10`, and what differs from them by one choice; the weights that are best on "
        "2% of the training images, the test images looked at once.",
        {},
        options,
    )

    def run(name: str, cell: Cell) -> None:
        given = [*data_of(cell, options.mnist, options.cifar), *cell.settings, *(TINY if options.tiny else ()), *settings]
        outcome = train_run(
            load_recipe_to_train(cell.recipe, given), options.runs / name, DEVICE, lambda line: print(line, flush=True)
        )
        if outcome.interrupted or outcome.result is None:
            raise SystemExit(outcome.interrupted or 1)
        found, prepared, progress = outcome.result.as_dict(), outcome.prepared, outcome.progress
        parameters = prepared.example()[0].parameters
        epochs = progress.step / len(prepared.source(packed=False).plan(0))
        png = found["others_bits_per_dim"].get("PNG files", 0.0)
        figures = [
            f"{found['bits_per_dim']:.3f}",
            f"{png:.2f}",
            f"{parameters:,}",
            f"{epochs:.1f}",
            f"{progress.seconds / 60:.1f}",
        ]
        cells.tell(TITLE, COLUMNS, [name, *figures, cell.published])

    cells.each({name: partial(run, name, cell) for name, cell in CELLS.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

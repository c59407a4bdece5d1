"""Regard: the whole Transformer family on one attention core.

    import regard

    translator = regard.load("runs/translate")
    translator("the animal did not cross the street because it was too tired", beam=8)
    with regard.probe(translator.model) as seen:
        translator("...")
    seen["decoder.1.cross"].weights(heads=[0])
    translator.show("heads", "the animal did not cross the street")

    small = regard.train("translate", {"train.steps": 200, "model.width": 64}, out="runs/small")

`regard.models` builds any family, `regard.attention` has the parts for your own PyTorch code, `regard.register` adds your own
parts to recipes, `regard.lens` holds the analyses. docs/guides/python.md shows each.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regard import attention, lens, models, register
    from regard.commands.batch import BatchPredictor
    from regard.commands.loaded import LoadedModel
    from regard.lens.analyses.word_senses import WordUses
    from regard.lens.result import LensResult
    from regard.model.probe import probe

__version__ = "0.2.0"
__all__ = [
    "BatchPredictor",
    "LoadedModel",
    "UserError",
    "__version__",
    "attention",
    "lens",
    "load",
    "models",
    "plugin",
    "probe",
    "register",
    "show",
    "train",
    "word_uses",
]


def load(run: Path | str, device: str | None = None, settings: Mapping[str, Any] | None = None) -> LoadedModel:
    """Open a run folder, a Hugging Face folder, or hf:NAME on its hub, ready to be called.

    `settings` are those of a recipe that a trained run may change, such as {"decode.beam": 8}.
    """
    from regard.commands import loaded

    return loaded.load(run, loaded.assignments(settings, {}), device)


def train(
    recipe: str,
    settings: Mapping[str, Any] | None = None,
    *,
    out: Path | str | None = None,
    device: str | None = None,
    verbose: bool = True,
    **sections: Mapping[str, Any],
) -> LoadedModel:
    """Train a recipe, by its name or its .toml file, and return what `load` returns; the same call again continues it.

    Settings are {"train.steps": 100} or, a section at a time, train={"steps": 100}. The run goes to `out`, by default
    runs/RECIPE. `verbose` prints progress to standard error.
    """
    from regard.commands import loaded

    return loaded.train(recipe, loaded.assignments(settings, sections), out, device, verbose)


def plugin(path: Path | str) -> None:
    """Load a plugin: a Python file that calls `regard.register`. Importing such a file does the same."""
    from regard.runs.plugins import load_plugin

    load_plugin(path)


def show(view: str, run: Path | str | LoadedModel, text: str | None = None, **options: Any) -> LensResult:
    """Return what `regard lens RUN TEXT --show VIEW` prints: its numbers, its lines, and a picture in a notebook.

    Options are those of the command: target, hypothesis, data, patch, part, layer, head, words, values, specials.
    """
    from regard.commands.loaded import LoadedModel
    from regard.commands.views import ViewRequest, computed

    if isinstance(run, LoadedModel):
        return run.show(view, text, **options)
    return computed(view, ViewRequest(run=str(run), text=text, **options))


def word_uses(run: Path | str, word: str, sentences: Sequence[str | tuple[str, str]], device: str | None = None) -> WordUses:
    """Return how far apart the vectors of a word in these sentences are, layer by layer; each may come with its sense."""
    from regard.commands.word_uses import word_uses

    return word_uses(str(run), word, sentences, device)


LAZY = {
    "probe": "regard.model.probe:probe",
    "BatchPredictor": "regard.commands.batch:BatchPredictor",
    "LoadedModel": "regard.commands.loaded:LoadedModel",
    "attention": "regard.attention",
    "lens": "regard.lens",
    "models": "regard.models",
    "register": "regard.register",
}
"""Modules that are imported on first use: torch takes seconds, and `regard --help` does without it."""


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    module, _, attribute = LAZY[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})

"""A loaded run, as `regard.load` and `regard.train` return it: call it, also with other search settings for one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.config import Typed, build, format_value
from regard.core.errors import UserError
from regard.core.terminal import print_stderr
from regard.decode.config import DecodeConfig
from regard.runs.recipe import SECTIONS
from regard.tasks.registry import open_run

if TYPE_CHECKING:
    from regard.lens.result import LensResult
    from regard.runs.protocols import Predictor


class LoadedModel:
    """A trained run or a public checkpoint, ready to be called with one input or a list of them.

    model = regard.load("runs/translate")
    model("the cat sleeps", beam=8)        any key of [decode], for this call
    model.model                            the PyTorch module
    model.show("heads", "the cat sleeps")  a view of `regard lens`

    Other attributes are those of the task's predictor, such as `evaluate` or a classifier's `classify`.
    """

    def __init__(self, predictor: Predictor, name: str) -> None:
        self.predictor, self.name = predictor, name

    def __call__(self, *inputs: Any, **decode: Any) -> Any:
        """Return the output for one input, or a list of outputs for a list; `decode` sets keys of [decode] for this call."""
        chosen: Any = with_search(self.predictor, decode) if decode else self.predictor
        return chosen(*inputs)

    def show(self, view: str, text: str | None = None, **options: Any) -> LensResult:
        """Return a view of `regard lens --show VIEW`: numbers, lines of text, and a picture in a notebook."""
        from regard.commands.views import ViewRequest, computed

        return computed(view, ViewRequest(run=self.name, text=text, **options), self.predictor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["predictor"], name) if "predictor" in self.__dict__ else object.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.predictor)})

    def __repr__(self) -> str:
        return f"<{type(self.predictor).__name__} of {self.name}>"


def with_search(predictor: Any, settings: Mapping[str, Any]) -> Any:
    """Return a predictor that shares all with this one but its search settings."""
    if (decode := getattr(predictor, "decode", None)) is None:
        raise UserError(f"{type(predictor).__name__} does no search; leave {next(iter(settings))} out.")
    if "weights" in settings:
        raise UserError("weights are packed when a model is opened; open it again with settings={'decode.weights': ...}.")
    typed = {key: Typed(_text(value)) for key, value in settings.items()}
    return with_decode(predictor, build(DecodeConfig, {**vars(decode), **typed}, "decode"))


def with_decode(predictor: Any, config: DecodeConfig) -> Any:
    """Return a predictor that shares all with this one but its search settings."""
    changed = copy(predictor)
    if (inner := getattr(predictor, "translator", None)) is not None:  # a chatbot's replies are written by a translator
        changed.translator = with_decode(inner, config)
    else:
        changed.decode = config
    return changed


def assignments(settings: Mapping[str, Any] | None, sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return settings from Python as `section.key=value` texts: {"train.steps": 100}, or train={"steps": 100}."""
    for section, table in sections.items():
        if section not in SECTIONS or not isinstance(table, Mapping):
            raise UserError(
                f"{section}={table!r} is not a section of settings; write for instance train={{'steps': 100}}, or "
                "{'train.steps': 100}."
            )
    flat = {f"{section}.{key}": value for section, table in sections.items() for key, value in table.items()}
    return [f"{key}={_text(value)}" for key, value in {**(settings or {}), **flat}.items()]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else format_value(value)


def load(run: Path | str, settings: Sequence[str] = (), device: str | None = None) -> LoadedModel:
    """Open a run folder, a Hugging Face folder, or hf:NAME on its hub."""
    return LoadedModel(open_run(run, device, settings), str(run))


def train(recipe: str, settings: Sequence[str], out: Path | str | None, device: str | None, verbose: bool) -> LoadedModel:
    """Train a recipe and open the run; an interrupted training raises KeyboardInterrupt once its checkpoint is saved."""
    from regard.commands.train import train_run
    from regard.runs.folder import choose_device
    from regard.runs.init_recipe import load_recipe_to_train

    folder = Path(out) if out is not None else Path("runs") / Path(recipe).stem
    resolved = load_recipe_to_train(recipe, list(settings), folder)
    outcome = train_run(resolved, folder, choose_device(device), print_stderr if verbose else lambda line: None)
    if outcome.interrupted:
        raise KeyboardInterrupt(f"saved step {outcome.progress.step:,} in {folder}; the same call continues it")
    return load(folder, device=device)

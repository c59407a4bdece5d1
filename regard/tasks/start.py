"""What a training may begin with instead of chance: a run of ours, a Hugging Face folder, or a model on its hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.errors import UserError
from regard.families.hub import local_folder
from regard.families.public import read_public
from regard.recipe import Recipe, made, named_tables
from regard.tasks.run import Run
from regard.text.foreign import read_foreign
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Start:
    name: str
    settings: dict[str, dict[str, Any]]  # the sections of a recipe that come with the weights: model and text
    vocabulary: int
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    notes: tuple[str, ...] = ()  # for whoever trains it further

    def fill(self, model: nn.Module) -> None:
        """Every weight that both have; what only the model has, such as a new head, stays as it was drawn."""
        own = model.state_dict()
        for name, tensor in self.weights.items():
            if name in own and own[name].shape != tensor.shape:
                raise UserError(
                    f"task.start={self.name}: {name} is {tuple(tensor.shape)} there and {tuple(own[name].shape)} here; leave out "
                    "the model.* settings that change its size."
                )
        if not self.weights.keys() & own.keys():
            raise UserError(f"task.start={self.name}: none of its weights is one of this model's; start from the same family.")
        model.load_state_dict({name: tensor for name, tensor in self.weights.items() if name in own}, strict=False)


@lru_cache(maxsize=1)  # a recipe's settings are read first, its weights later
def start_of(name: str) -> Start:
    if (Path(name) / "recipe.toml").is_file():
        return _of_run(Path(name))
    folder = local_folder(name)
    public = read_public(folder)
    tokenizer = read_foreign(folder)
    if len(tokenizer) > public.vocabulary:
        raise UserError(
            f"{name}: its tokenizer has {len(tokenizer):,} pieces, its model {public.vocabulary:,}; they do not belong together."
        )
    settings = {"model": asdict(public.config), "text": {"tokenizer": "public", "size": public.vocabulary}}
    return Start(name, settings, public.vocabulary, tokenizer, public.weights, public.notes)


def _of_run(folder: Path) -> Start:
    run = Run.open(folder)
    settings = {"model": asdict(run.recipe.model), "text": asdict(run.recipe.text)}
    tokenizer = Tokenizer.load(folder / "tokenizer.json", foreign=True)
    size = run.recipe.text.size if run.recipe.text.tokenizer == "public" else len(tokenizer)
    return Start(str(folder), settings, size, tokenizer, run.weights().tensors("model"))


def load_recipe_to_train(name: str, assignments: Sequence[str]) -> Recipe:
    """As `load_recipe`; where training begins with a checkpoint, with the model and the vocabulary that it has.

    Of the model's settings some may be set anew (dropout, say), of the vocabulary's none.
    """
    tables = named_tables(name, assignments)
    if start := str(tables["task"].get("start", "")):
        settings = start_of(start).settings
        if other := [f"text.{key}" for key, value in tables["text"].items() if value != settings["text"].get(key)]:
            raise UserError(f"{other[0]} cannot be set with task.start={start}, whose vocabulary is taken; leave it out.")
        tables["model"], tables["text"] = settings["model"] | tables["model"], settings["text"]
    return made(tables)

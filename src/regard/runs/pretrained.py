"""What a training may begin with instead of chance: a run of ours, a Hugging Face folder, or a model on its hub.

A checkpoint opened as it is, without training: which task its heads are for, and the recipe that such a run would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.core.config import override
from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.families.base import MASKED_WORDS, Heads
from regard.families.electra import ELECTRAConfig
from regard.families.vectors import VectorsConfig
from regard.interop.huggingface import read_public
from regard.interop.huggingface.hub import local_folder
from regard.interop.huggingface.sentence_transformers import Sentences, read_sentences
from regard.model.mixers.feature_maps import is_drawn
from regard.model.position.absolute import tiled
from regard.model.pruning import restored_weights
from regard.runs.folder import Run
from regard.runs.load import must_fit_weights, vocabulary_of
from regard.runs.recipe import TASKS, Recipe, Tables, TaskConfig, made, typed_task
from regard.text.config import TextConfig
from regard.text.pretrained import read_foreign
from regard.text.tokenizer import Tokenizer, train_tokenizer

Settings = dict[str, dict[str, Any]]
Trained = TypeVar("Trained", bound=nn.Module)
VOCABULARY = "tokenizer.json"
POSITIONS = "positions.scheme.table.weight"
READS = ("embed", "encoder", "decoder", "ahead", "back")  # of a body: what comes with a start, whatever its heads were for
LEFT_BEHIND = "generator."  # of an ELECTRA


@dataclass(frozen=True, eq=False)
class InitCheckpoint:
    name: str
    settings: Settings  # the sections of a recipe that come with the weights: model and text
    vocabulary: int
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    notes: tuple[str, ...] = ()  # for whoever trains it further
    heads: Heads = MASKED_WORDS  # that came with a public body; of a GPT that for words
    labels: tuple[str, ...] = ()  # of its classes or tags

    def fill(self, model: nn.Module) -> None:
        """Every weight that both have; what only the model has, such as a new head, stays as it was drawn."""
        # Features of another mixer, or of another number, are drawn and not learned: the model has its own.
        own = {name: t for name, t in model.state_dict().items() if not is_drawn(name) or _alike(self.weights.get(name), t)}
        weights = {n: self._long_enough(n, t, own) for n, t in self.weights.items() if not is_drawn(n) or n in own}
        if not weights.keys() & own.keys():
            raise UserError(
                f"task.init_from={self.name}: none of its weights is one of this model's; start from the same family."
            )
        for name, tensor in weights.items():
            if name in own and own[name].shape != tensor.shape:
                raise UserError(
                    f"task.init_from={self.name}: {name} is {tuple(tensor.shape)} there and {tuple(own[name].shape)} here; leave "
                    "out the model.* settings that change its size."
                )
        shared = {_part(name) for name in weights} & {_part(name) for name in own}
        if other := sorted(name for name in weights.keys() ^ own.keys() if _part(name) in shared):
            raise UserError(
                f"task.init_from={self.name}: {other[0]} is only {'here' if other[0] in own else 'there'}; leave out the model.* "
                "settings that change its layers."
            )
        model.load_state_dict({name: tensor for name, tensor in weights.items() if name in own}, strict=False)

    def _long_enough(self, name: str, tensor: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """A table of positions is tiled, where the model has more of them."""
        if not name.endswith(POSITIONS) or name not in own or len(own[name]) <= len(tensor):
            return tensor
        return tiled(tensor, len(own[name]), self.settings["model"].get("first_position", 0))

    def whole(self) -> InitCheckpoint:
        """With all heads, those that were pruned as zeros: for whoever knows of no pruned ones. It computes the same."""
        model = self.settings["model"]
        if not model.get("pruned"):
            return self
        weights = restored_weights(self.weights, FAMILIES[model["family"]].config(**model))
        return replace(self, settings=self.settings | {"model": model | {"pruned": ()}}, weights=weights)


def _alike(theirs: Tensor | None, own: Tensor) -> bool:
    return theirs is not None and theirs.shape == own.shape


def _part(name: str) -> str:
    """The module of a model that a weight belongs to; a body is shared, a head may be new."""
    return name.partition(".")[0]


def start_of(name: str) -> InitCheckpoint:
    """By its folder, or by its name on the hub, with hf: before it or not."""
    name = name.removeprefix("hf:")
    return _start_of(name, _state(Path(name)))


def _state(folder: Path) -> tuple[tuple[str, int], ...]:
    """Other than before where a file is: a run may have been trained on since it was last read. What is neither has none."""
    if not any((folder / name).is_file() for name in ("recipe.toml", "config.json")):
        return ()  # and may be as large as a disk
    return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()))


@lru_cache(maxsize=1)  # a recipe's settings are read first, its weights later
def _start_of(name: str, state: tuple[tuple[str, int], ...]) -> InitCheckpoint:
    if (Path(name) / "recipe.toml").is_file():
        return _of_run(Path(name))
    folder = local_folder(name)
    public = read_public(folder)
    tokenizer = read_foreign(folder)
    if len(tokenizer) > public.vocabulary:
        raise UserError(
            f"{name}: its tokenizer has {len(tokenizer):,} pieces, its model {public.vocabulary:,}; they do not belong together."
        )
    text = TextConfig(tokenizer="public", size=public.vocabulary)
    settings = {"model": asdict(public.config), "text": asdict(text)}
    return InitCheckpoint(name, settings, public.vocabulary, tokenizer, public.weights, public.notes, public.heads, public.labels)


def _of_run(folder: Path) -> InitCheckpoint:
    run = Run.open(folder)
    must_fit_weights(run, run.recipe)
    tokenizer = Tokenizer.load(folder / "tokenizer.json", foreign=True)
    size = vocabulary_of(run.recipe, tokenizer)
    weights = {
        _plain(name): tensor for name, tensor in run.weights().tensors("model").items() if not name.startswith(LEFT_BEHIND)
    }
    return InitCheckpoint(str(folder), settings_of(run), size, tokenizer, weights)


def _plain(name: str) -> str:
    """Of a weight: a classifier's and an ELECTRA's lie deeper than those of the BERT or GPT that they are."""
    return name.removeprefix("body.").removeprefix("discriminator.")


def vocabulary(recipe: Recipe, folder: Path | None, start: InitCheckpoint | None, texts: Callable[[], list[str]]) -> Tokenizer:
    """The run's own, if it has begun; else that of its start; else learned from these texts, which are read only then."""
    if folder is not None and (folder / VOCABULARY).exists():
        return Tokenizer.load(folder / VOCABULARY, foreign=True)
    if start is not None:
        return start.tokenizer
    text = recipe.text
    if text.tokenizer == "public":
        raise UserError(
            "text.tokenizer=public is for runs that begin with a checkpoint; give task.init_from, or another tokenizer."
        )
    return train_tokenizer(text.tokenizer, texts(), text.size, lowercase=text.lowercase, minimum_count=text.minimum_count)


def settings_of(run: Run) -> Settings:
    model = run.recipe.model
    body = model.discriminator if isinstance(model, ELECTRAConfig) else model
    return {"model": asdict(body), "text": asdict(replace(run.recipe.text, vectors="", freeze_vectors=False))}


def frozen(model: Trained, task: TaskConfig) -> Trained:
    """With task.freeze, what reads stays as it came, and only what is new learns: heads, and the weights of layers."""
    if task.freeze:
        body = getattr(model, "body", model)
        for part in (part for name, part in body.named_children() if name in READS):
            part.requires_grad_(False)
    return model


OF_HEAD = {"classes": "classify", "tags": "tag", "span": "answer", "replaced": "fill", "head": "fill"}
WITHOUT_MASKS = {"gpt": "write", "elmo": "read"}  # what a head for words is for, where no word is masked
"""The task that a head was trained for, by where its weights lie; of several heads the first here decides."""

TRAIN = {"steps": 1, "warmup": 0}  # of nothing
SAMPLE = {"search": "sample"}


def recipe_of(start: InitCheckpoint, assignments: Sequence[str] = ()) -> Recipe:
    """What a run of these weights would say about itself; it has no data, and a search that suits its task."""
    task = typed_task(assignments) or task_of(start)
    family = start.settings["model"]["family"]
    _must_suit(start, family, task)
    about = {"name": Path(start.name).name or family, "title": f"{start.name}, imported", "paper": ""}
    tables: Tables = {"recipe": about, "task": {"name": task}, **start.settings, "data": {}, "objective": {}}
    tables |= {"train": dict(TRAIN), "decode": dict(SAMPLE) if task == "write" else {}}
    if task == "embed":
        tables |= _pooled(start)
    elif task == "retrieve":
        tables["objective"] = {"pooling": _pooled(start)["objective"]["pooling"]}
    elif task == "classify" and start.heads.classes == 1:
        tables["objective"] = {"name": "regression"}
    elif task == "fill" and "next_sentence" in _parts(start):
        tables["objective"] = {"next_sentence": True}
    override(tables, list(assignments))
    return made(tables)


def task_of(start: InitCheckpoint) -> str:
    """What its weights were trained for: a GPT writes, a body without any head gives vectors."""
    parts, family = _parts(start), start.settings["model"]["family"]
    if family == "gpt" or (family in WITHOUT_MASKS and "head" in parts):
        return WITHOUT_MASKS[family]
    return next((task for head, task in OF_HEAD.items() if head in parts), "embed")


def _must_suit(start: InitCheckpoint, family: str, task: str) -> None:
    if task in TASKS and family not in TASKS[task].families:
        able = " or ".join(TASKS[task].families)
        raise UserError(f"{start.name} is a {family}, and task.name={task} needs a {able}; give another, or leave task.name out.")
    heads = {head for head, its in OF_HEAD.items() if its == task}
    if heads and heads.isdisjoint(_parts(start)):
        raise UserError(
            f"{start.name} was not trained for task {task}: it has no head for it. Train one with task.init_from={start.name}, "
            f"or open it for task.name={task_of(start)}."
        )


def _parts(start: InitCheckpoint) -> set[str]:
    return {name.partition(".")[0] for name in start.weights}


def _pooled(start: InitCheckpoint) -> dict[str, dict[str, Any]]:
    """As a folder of sentence-transformers says; else the mean of as many tokens as there are positions."""
    found = read_sentences(local_folder(start.name)) or Sentences(VectorsConfig(), 0)
    model = start.settings["model"]
    positions = model["maximum_length"] if model.get("position") == "learned" else 0
    cut = min(found.maximum_tokens or positions, positions or found.maximum_tokens)
    return {
        "data": {"maximum_tokens": cut},
        "objective": {"pooling": found.vectors.pooling, "normalised": found.vectors.normalised},
    }

"""Pretrained weights to start training from: those of a run, of a Hugging Face folder, or of a model on its hub.

A checkpoint opened as it is, without training: which task its heads are for, and the recipe that such a run would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import isqrt
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.core.config import override
from regard.core.errors import UserError
from regard.decode.config import MARKS
from regard.families import FAMILIES
from regard.families.base import MASKED_WORDS, Heads
from regard.interop.huggingface import Public, read_public
from regard.interop.huggingface.adapters import CONFIG as ADAPTER
from regard.interop.huggingface.adapters import Adapter, is_adapter
from regard.interop.huggingface.generation import Generation, read_generation
from regard.interop.huggingface.hub import local_folder
from regard.interop.huggingface.sentence_transformers import Sentences, read_sentences
from regard.interop.sentencepiece import holds_pair, read_pair, read_public_tokenizer
from regard.model.embedding import tiled
from regard.model.heads import VectorsConfig
from regard.model.mixers.feature_maps import is_drawn
from regard.model.pruning import restored_weights
from regard.model.vision.positions import Grid, resized
from regard.runs.folder import Run
from regard.runs.load import assign, empty_parameters, model_weights, must_fit_weights, vocabulary_of
from regard.runs.recipe import Recipe, Tables, TaskConfig, build_recipe, typed_task
from regard.runs.task import TASKS
from regard.text.config import NoTextConfig, TextConfig
from regard.text.tokenizer import Tokenizer, train_tokenizer

Settings = dict[str, dict[str, Any]]
Trained = TypeVar("Trained", bound=nn.Module)
GGUF_SUFFIX = ".gguf"
VOCABULARY = "tokenizer.json"
PAIR_VOCABULARIES = ("tokenizer.source.json", "tokenizer.target.json")  # of a model that reads and writes with one each
POSITIONS = "positions.scheme.table.weight"
GRID_POSITIONS = "embed.vectors.table_MD"
READS = ("embed", "source", "target", "encoder", "decoder", "ahead", "back")  # of a body, whatever its heads were for
LEFT_BEHIND = "generator."  # of an ELECTRA


@dataclass(frozen=True, eq=False)
class InitCheckpoint:
    name: str
    settings: Settings  # the sections of a recipe that come with the weights: model and text
    vocabulary: int
    tokenizer: Any  # a Tokenizer; None of a model that reads no text
    weights: dict[str, Tensor]
    notes: tuple[str, ...] = ()  # for whoever trains it further
    heads: Heads = MASKED_WORDS  # that came with a public body; of a GPT that for words
    labels: tuple[str, ...] = ()  # of its classes or tags
    decode: Mapping[str, Any] = field(default_factory=dict)  # settings of a search that came with it
    target_tokenizer: Tokenizer | None = None  # of what is written, where `tokenizer` is of what is read alone

    @property
    def target_vocabulary(self) -> int:
        """Return the number of ids that are written, where it is another than that of ids that are read; else 0."""
        if self.target_tokenizer is None or self.settings["model"].get("tie") in ("all", "inputs"):
            return 0
        return len(self.target_tokenizer)

    @property
    def smallest_vocabulary(self) -> int:
        """Return the number of ids that are read and written."""
        return min(self.vocabulary, len(self.target_tokenizer or ()) or self.vocabulary)

    def fill(self, model: nn.Module) -> None:
        """Every weight that both have; what only the model has, such as a new head, stays as it was drawn."""
        # Features of another mixer, or of another number, are drawn and not learned: the model has its own.
        sizes = {name: tensor.shape for name, tensor in self.weights.items()}
        own = {name: t for name, t in model.state_dict().items() if not is_drawn(name) or sizes.get(name) == t.shape}
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
        known = {name: tensor for name, tensor in weights.items() if name in own}
        if any(parameter.is_meta for parameter in model.parameters()):
            assign(model, {name: tensor.clone() for name, tensor in known.items()}, strict=False)  # others read these too
        else:
            model.load_state_dict(known, strict=False)

    def open(self, build: Callable[[], Trained], part: str = "", head: str = "") -> Trained:
        """Build a model and fill it, or one part of it and one head. What else only the model has is drawn."""
        with empty_parameters():
            model = build()
        self._fill_parts(model, part, head)
        if any(parameter.is_meta for parameter in model.parameters()):
            model = build()
            self._fill_parts(model, part, head)
        return model

    def _fill_parts(self, model: nn.Module, part: str, head: str) -> None:
        self.fill(model.get_submodule(part))
        if head:
            own = {name.removeprefix(f"{head}."): t for name, t in self.weights.items() if name.startswith(f"{head}.")}
            assign(model.get_submodule(head), {name: tensor.clone() for name, tensor in own.items()})

    def _long_enough(self, name: str, tensor: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """A table of positions is tiled, where the model has more of them; that of an image's grid is interpolated."""
        if name.endswith(GRID_POSITIONS) and name in own and len(own[name]) != len(tensor):
            return self._resized(tensor, len(own[name]))
        if not name.endswith(POSITIONS) or name not in own or len(own[name]) <= len(tensor):
            return tensor
        return tiled(tensor, len(own[name]), self.settings["model"].get("first_position", 0))

    def _resized(self, table_MD: Tensor, rows: int) -> Tensor:
        """Return the positions of a square grid that takes so many rows, where there is one."""
        model = self.settings["model"]
        config = FAMILIES[model["family"]].config(**model)
        extra = len(config.extra_tokens)
        side = isqrt(max(0, rows - extra))
        if side * side != rows - extra:
            return table_MD
        grid_GD = resized(table_MD[extra:], Grid(*config.grid), Grid(side, side), config.antialias)
        return torch.cat([table_MD[:extra], grid_GD])

    def whole(self) -> InitCheckpoint:
        """Return the checkpoint with all attention heads, pruned ones as zeros, for formats without pruning."""
        model = self.settings["model"]
        if not model.get("pruned"):
            return self
        weights = restored_weights(self.weights, FAMILIES[model["family"]].config(**model))
        return replace(self, settings=self.settings | {"model": model | {"pruned": ()}}, weights=weights)


def _part(name: str) -> str:
    """The module of a model that a weight belongs to; a body is shared, a head may be new."""
    return name.partition(".")[0]


def start_of(name: str) -> InitCheckpoint:
    """Read a checkpoint by its folder, or by its name on the hub, with hf: before it or not."""
    name = name.removeprefix("hf:")
    if name.endswith(GGUF_SUFFIX) and Path(name).exists():
        return _start_of_gguf(Path(name))
    return _start_of(name, _state(Path(name)))


def _start_of_gguf(path: Path) -> InitCheckpoint:
    """Return the checkpoint of one file of llama.cpp."""
    from regard.interop.gguf.models import read_model  # which most starts do without

    read = read_model(path)
    settings = {"model": read.settings, "text": asdict(TextConfig(tokenizer="public", size=read.vocabulary))}
    return InitCheckpoint(str(path), settings, read.vocabulary, read.tokenizer, read.weights, decode=read.decode)


def _state(folder: Path) -> tuple[tuple[str, int], ...]:
    """Other than before where a file is: a run may have been trained on since it was last read. What is neither has none."""
    if not any((folder / name).is_file() for name in ("recipe.toml", "config.json", ADAPTER)):
        return ()  # and may be as large as a disk
    return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()))


@lru_cache(maxsize=1)  # a recipe's settings are read first, its weights later
def _start_of(name: str, state: tuple[tuple[str, int], ...]) -> InitCheckpoint:
    if (Path(name) / "recipe.toml").is_file():
        return start_of_run(Run.open(name))
    folder = local_folder(name)
    adapter = Adapter(folder) if is_adapter(folder) else None
    folder = folder if adapter is None else local_folder(adapter.base.removeprefix("hf:"))
    public = read_public(folder, adapter)
    family = FAMILIES[public.family]
    if family.has_any("image_classification", "masked_image_modeling", "pixel_lm", "forecasting"):
        settings = {"model": asdict(public.config), "text": {}}
        channels = public.vocabulary if family.has("forecasting") else 0
        return InitCheckpoint(name, settings, channels, None, public.weights, public.notes, public.heads, public.labels)
    pair = read_pair(folder) if family.has("seq2seq") and holds_pair(folder) else None
    tokenizer = pair.source if pair else read_public_tokenizer(folder)
    if len(tokenizer) > public.vocabulary:
        raise UserError(
            f"{name}: its tokenizer has {len(tokenizer):,} pieces, its model {public.vocabulary:,}; they do not belong together."
        )
    written = public.target_vocabulary or public.vocabulary
    if pair is not None:
        _must_be_of(public, pair.target, written, name)
    elif written != public.vocabulary:
        raise UserError(
            f"{name} reads with a vocabulary of {public.vocabulary:,} pieces and writes with another of "
            f"{written:,}, but has no source.spm, target.spm and vocab.json; this version of Regard opens such a folder in "
            "Python alone, with read_public."
        )
    text = asdict(TextConfig(tokenizer="public", size=public.vocabulary)) | ({"joint": False} if pair else {})
    generation = Generation({}, ())
    if family.has_any("causal_lm", "seq2seq"):
        generation = read_generation(folder, public.raw, pair.target if pair else tokenizer, reads_a_source=family.has("seq2seq"))
    settings = {"model": asdict(public.config), "text": text}
    return InitCheckpoint(
        name,
        settings,
        public.vocabulary,
        tokenizer,
        public.weights,
        (*public.notes, *generation.notes),
        public.heads,
        public.labels,
        generation.settings,
        pair.target if pair else None,
    )


def _must_be_of(public: Public, target: Tokenizer, written: int, name: str) -> None:
    """Refuse a tokenizer of what is written that has other pieces than the output layer; a shared table may have more rows."""
    if len(target) > written or (len(target) != written and getattr(public.config, "tie", "all") not in ("all", "inputs")):
        raise UserError(
            f"{name}: its target's tokenizer has {len(target):,} pieces, its model writes {written:,}; they do not belong "
            "together."
        )


def start_of_run(run: Run) -> InitCheckpoint:
    """Return the weights and the vocabulary of a run that is opened already."""
    must_fit_weights(run, run.recipe)
    if run.recipe.text.tokenizer == "none":
        return InitCheckpoint(
            str(run.folder), settings_of(run), _channels_of(run), None, model_weights(run, run.weights()), labels=_labels_of(run)
        )
    files = (VOCABULARY,) if getattr(run.recipe.text, "joint", True) else PAIR_VOCABULARIES
    tokenizer, *target = (Tokenizer.load(run.folder / name, foreign=True) for name in files)
    size, marks = vocabulary_of(run.recipe, tokenizer), marks_of(asdict(run.recipe.decode))
    tensors = model_weights(run, run.weights())
    weights = {_plain(name): tensor for name, tensor in tensors.items() if not name.startswith(LEFT_BEHIND)}
    target_tokenizer = target[0] if target else None
    return InitCheckpoint(
        str(run.folder), settings_of(run), size, tokenizer, weights, decode=marks, target_tokenizer=target_tokenizer
    )


def _labels_of(run: Run) -> tuple[str, ...]:
    """Return the class names of a run that has any."""
    from regard.data.labels import Labels  # with readers of tables, which most models do without

    path = run.folder / "labels.json"
    return Labels.load(path).names if path.is_file() else ()


def _channels_of(run: Run) -> int:
    """Return the number of series that a run forecasts side by side; 0 of other tasks."""
    scaling = run.read_json("scaling.json") or {}
    return len(scaling.get("channels", ()))


def _plain(name: str) -> str:
    """Return the name of a weight in its body: those of a classifier and of an ELECTRA have a prefix."""
    return name.removeprefix("body.").removeprefix("discriminator.")


def has_vocabulary(folder: Path | None) -> bool:
    """Return whether a run in this folder has begun."""
    return folder is not None and any((folder / name).exists() for name in (VOCABULARY, PAIR_VOCABULARIES[0]))


def start_to_train(recipe: Recipe, folder: Path | None) -> InitCheckpoint | None:
    """Return the checkpoint of `task.init_from`; None where there is none, or where the run has begun."""
    return start_of(recipe.task.init_from) if recipe.task.init_from and not has_vocabulary(folder) else None


def vocabulary(recipe: Recipe, folder: Path | None, start: InitCheckpoint | None, texts: Callable[[], list[str]]) -> Tokenizer:
    """The run's own, if it has begun; else that of its start; else learned from these texts, which are read only then."""
    if folder is not None and (folder / VOCABULARY).exists():
        return Tokenizer.load(folder / VOCABULARY, foreign=True)
    if start is not None:
        return start.tokenizer
    return learn_vocabulary(recipe.text, texts)


def learn_vocabulary(text: TextConfig, texts: Callable[[], list[str]]) -> Tokenizer:
    """Learn a vocabulary from these texts, which are not read if it is refused."""
    if text.tokenizer == "public":
        raise UserError(
            "text.tokenizer=public is for runs that begin with a checkpoint; give task.init_from, or another tokenizer."
        )
    return train_tokenizer(text.tokenizer, texts(), text.size, lowercase=text.lowercase, minimum_count=text.minimum_count)


def settings_of(run: Run) -> Settings:
    model = run.recipe.model
    body = getattr(model, "discriminator", model)  # an ELECTRA is continued with the larger of its networks
    if run.recipe.text.tokenizer == "none":
        return {"model": asdict(body), "text": {}}
    text = asdict(replace(run.recipe.text, vectors="", freeze_vectors=False))
    return {"model": asdict(body), "text": {key: value for key, value in text.items() if (key, value) != ("joint", True)}}


def marks_of(decode: Mapping[str, Any]) -> dict[str, Any]:
    """Return the special tokens that a [decode] section names, which those who train a model further need too."""
    return {name: decode[name] for name in MARKS if decode.get(name)}


def frozen(model: Trained, task: TaskConfig) -> Trained:
    """Freeze the body of a model if task.freeze is set: only heads, and the weights of layers, are trained."""
    if task.freeze:
        body = getattr(model, "body", model)
        for part in (part for name, part in body.named_children() if name in READS):
            part.requires_grad_(False)
    return model


def must_have_learned(start: InitCheckpoint, model: nn.Module) -> None:
    """Refuse to freeze a weight of a model with adapters that did not come with its start: it would stay as it was drawn."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad and _plain(name) not in start.weights:
            raise UserError(
                f"task.init_from={start.name} has no {_plain(name)}, which train.lora would leave as it was drawn; leave "
                "train.lora out, or start from a model that has it."
            )


TRAIN = {"steps": 1, "warmup": 0}  # of nothing


def recipe_of(start: InitCheckpoint, assignments: Sequence[str] = ()) -> Recipe:
    """Return the recipe that a run with these weights would have: no data, and a search that suits its task."""
    name = typed_task(assignments) or task_of(start)
    family = start.settings["model"]["family"]
    _must_suit(start, family, name)
    about = {"name": Path(start.name).name or family, "title": f"{start.name}, imported", "paper": ""}
    tables: Tables = {"recipe": about, "task": {"name": name}, **start.settings, "data": {}, "objective": {}}
    tables |= {"train": dict(TRAIN), "decode": {}}
    if name in TASKS and (settings := TASKS[name].adopted_settings) is not None:
        tables |= settings(start)
    override(tables, list(assignments))
    return build_recipe(tables)


def task_of(start: InitCheckpoint) -> str:
    """Return the task that a checkpoint has a head for; one without any head gives vectors of texts.

    A head for one task counts before one for words, which a model may have kept from its pre-training.
    """
    family, parts = start.settings["model"]["family"], set(map(_part, start.weights))
    reads = [task for task in TASKS.values() if (task.text is NoTextConfig) == (start.tokenizer is None)]
    able = [task for task in reads if task.takes(FAMILIES[family]) and not parts.isdisjoint(task.heads)]
    if able:
        return min(able, key=lambda task: "head" in task.heads).name
    takers = [task.name for task in TASKS.values() if task.takes(FAMILIES[family])]
    return takers[0] if takers and "embedding" not in takers else "embedding"


def _must_suit(start: InitCheckpoint, family: str, name: str) -> None:
    task = TASKS.get(name)
    if task is None:
        return  # which is refused with the rest of the recipe
    if not task.takes(FAMILIES[family]):
        able = " or ".join(task.families())
        raise UserError(f"{start.name} is a {family}, and task.name={name} needs a {able}; give another, or leave task.name out.")
    if start.target_tokenizer is not None and not hasattr(task.text, "joint"):
        raise UserError(f"{start.name} has two tokenizers, and task.name={name} reads and writes with one; leave task.name out.")
    if task.heads and set(map(_part, start.weights)).isdisjoint(task.heads):
        other = "" if task_of(start) == name else f", or open it for task.name={task_of(start)}"
        raise UserError(
            f"{start.name} was not trained for task {name}: it has no head for it. Train one with "
            f"task.init_from={start.name}{other}."
        )


def pooled_settings(start: InitCheckpoint) -> Tables:
    """Return the pooling that a folder of sentence-transformers has; else the mean of as many tokens as there are positions."""
    found = read_sentences(local_folder(start.name)) or Sentences(VectorsConfig(), 0)
    model = start.settings["model"]
    positions = model["maximum_length"] if model.get("position") == "learned" else 0
    cut = min(found.maximum_tokens or positions, positions or found.maximum_tokens)
    return {
        "data": {"maximum_tokens": cut},
        "objective": {"pooling": found.vectors.pooling, "normalised": found.vectors.normalised},
    }

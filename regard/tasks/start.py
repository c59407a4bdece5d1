"""What a training may begin with instead of chance: a run of ours, a Hugging Face folder, or a model on its hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.config import Typed, as_typed
from regard.errors import UserError
from regard.families import FAMILIES
from regard.families.bert import MASKED_WORDS, Heads
from regard.families.electra import ELECTRAConfig
from regard.families.hub import local_folder
from regard.families.public import read_public
from regard.model.mixers.features import is_drawn
from regard.model.position import tiled
from regard.model.prune import restored_weights
from regard.recipe import Recipe, Tables, TaskConfig, builtin_names, made, named_tables
from regard.tasks.opening import vocabulary_of
from regard.tasks.run import Run
from regard.text.config import TextConfig
from regard.text.foreign import read_foreign
from regard.text.tokenizer import Tokenizer, train_tokenizer

Settings = dict[str, dict[str, Any]]
Trained = TypeVar("Trained", bound=nn.Module)
OTHER: tuple[str, ...] = ("dropout", "attention_dropout", "word_dropout", "output_dropout", "deviation", "visibility", "pooler")
OTHER += ("mixer", "features", "redraw_every")
MAY_BE_OTHER = tuple(f"model.{key}" for key in OTHER)  # the weights mean the same
MAY_BE_OTHER += ("text.vectors", "text.freeze_vectors")  # which they were before training
VOCABULARY = "tokenizer.json"
POSITIONS = "positions.scheme.table.weight"
READS = ("embed", "encoder", "decoder", "ahead", "back")  # of a body: what comes with a start, whatever its heads were for
LEFT_BEHIND = "generator."  # of an ELECTRA


@dataclass(frozen=True, eq=False)
class Start:
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
            raise UserError(f"task.start={self.name}: none of its weights is one of this model's; start from the same family.")
        for name, tensor in weights.items():
            if name in own and own[name].shape != tensor.shape:
                raise UserError(
                    f"task.start={self.name}: {name} is {tuple(tensor.shape)} there and {tuple(own[name].shape)} here; leave out "
                    "the model.* settings that change its size."
                )
        shared = {_part(name) for name in weights} & {_part(name) for name in own}
        if other := sorted(name for name in weights.keys() ^ own.keys() if _part(name) in shared):
            raise UserError(
                f"task.start={self.name}: {other[0]} is only {'here' if other[0] in own else 'there'}; leave out the model.* "
                "settings that change its layers."
            )
        model.load_state_dict({name: tensor for name, tensor in weights.items() if name in own}, strict=False)

    def _long_enough(self, name: str, tensor: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """A table of positions is tiled, where the model has more of them."""
        if not name.endswith(POSITIONS) or name not in own or len(own[name]) <= len(tensor):
            return tensor
        return tiled(tensor, len(own[name]), self.settings["model"].get("first_position", 0))

    def whole(self) -> Start:
        """With all heads, those that were pruned as zeros: for whoever knows of no pruned ones. It computes the same."""
        model = self.settings["model"]
        if not model.get("pruned"):
            return self
        weights = restored_weights(self.weights, FAMILIES[model["family"]](**model))
        return replace(self, settings=self.settings | {"model": model | {"pruned": ()}}, weights=weights)


def _alike(theirs: Tensor | None, own: Tensor) -> bool:
    return theirs is not None and theirs.shape == own.shape


def _part(name: str) -> str:
    """The module of a model that a weight belongs to; a body is shared, a head may be new."""
    return name.partition(".")[0]


def start_of(name: str) -> Start:
    """By its folder, or by its name on the hub, with hf: before it or not."""
    name = name.removeprefix("hf:")
    return _start_of(name, _state(Path(name)))


def _state(folder: Path) -> tuple[tuple[str, int], ...]:
    """Other than before where a file is: a run may have been trained on since it was last read. What is neither has none."""
    if not any((folder / name).is_file() for name in ("recipe.toml", "config.json")):
        return ()  # and may be as large as a disk
    return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()))


@lru_cache(maxsize=1)  # a recipe's settings are read first, its weights later
def _start_of(name: str, state: tuple[tuple[str, int], ...]) -> Start:
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
    return Start(name, settings, public.vocabulary, tokenizer, public.weights, public.notes, public.heads, public.labels)


def _of_run(folder: Path) -> Start:
    run = Run.open(folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.json", foreign=True)
    size = vocabulary_of(run.recipe, tokenizer)
    weights = {
        _plain(name): tensor for name, tensor in run.weights().tensors("model").items() if not name.startswith(LEFT_BEHIND)
    }
    return Start(str(folder), _settings(run), size, tokenizer, weights)


def _plain(name: str) -> str:
    """Of a weight: a classifier's and an ELECTRA's lie deeper than those of the BERT or GPT that they are."""
    return name.removeprefix("body.").removeprefix("discriminator.")


def vocabulary(recipe: Recipe, folder: Path | None, start: Start | None, texts: Callable[[], list[str]]) -> Tokenizer:
    """The run's own, if it has begun; else that of its start; else learned from these texts, which are read only then."""
    if folder is not None and (folder / VOCABULARY).exists():
        return Tokenizer.load(folder / VOCABULARY, foreign=True)
    if start is not None:
        return start.tokenizer
    text = recipe.text
    if text.tokenizer == "public":
        raise UserError("text.tokenizer=public is for runs that begin with a checkpoint; give task.start, or another tokenizer.")
    return train_tokenizer(text.tokenizer, texts(), text.size, lowercase=text.lowercase, minimum_count=text.minimum_count)


def _settings(run: Run) -> Settings:
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


def load_recipe_to_train(name: str, assignments: Sequence[str], folder: Path | None = None) -> Recipe:
    """As `load_recipe`; where training begins with a checkpoint, with the model and the vocabulary that it has.

    Of the model's settings some may be set anew (dropout, say), of the vocabulary's none. Where the run in `folder` has begun so,
    it remembers them, and its start may be gone.
    """
    tables = named_tables(name, assignments)
    if not (start := str(tables["task"].get("start", ""))):
        return _of_teacher(tables) if tables["objective"].get("name") == "distillation" else made(tables)
    settings = _remembered(folder, start) or _told(start).settings
    if isinstance(tables["task"]["start"], Typed):
        tables |= {section: _still_chosen(section, tables[section], settings[section]) for section in ("text", "model")}
    recipe = made(tables | {section: settings[section] | tables[section] for section in ("text", "model")})
    for name, value, theirs in _different(recipe, settings):
        if name == "model.maximum_length" and recipe.model.maximum_length > settings["model"]["maximum_length"]:
            continue
        raise UserError(
            f"{name}={value} cannot be set with task.start={start}, which has {theirs}; leave it out of the command and of "
            "the recipe."
        )
    return recipe


def _of_teacher(tables: Tables) -> Recipe:
    """What a recipe does not say of a student is its teacher's, but for half of the layers; its vocabulary always is."""
    teacher, wish = str(tables["objective"].get("teacher", "")), tables["model"]
    if teacher and not (teacher.startswith("hf:") or Path(teacher).is_dir()):
        known = next((name for name in builtin_names() if Path(teacher) == Path("runs", name)), None)
        cure = f"train it first, 'regard train {known}'" if known else "give a run that classifies, or a public folder"
        raise UserError(f"objective.teacher={teacher} does not exist; {cure}, or name a model on the hub as hf:NAME.")
    if not teacher:
        return made(tables)  # which refuses it
    settings = start_of(teacher).whole().settings
    model, text = settings["model"], settings["text"]
    if (family := str(wish.get("family", model["family"]))) != model["family"]:
        raise UserError(f"a {family} is to learn, but objective.teacher={teacher} is a {model['family']}; give another teacher.")
    recipe = made(tables | {"text": text | tables["text"], "model": model | {"layers": (model["layers"] + 1) // 2} | wish})
    for name, value, theirs in _different(recipe, settings):
        if name.startswith("text."):
            raise UserError(f"{name}={value}: a student has the vocabulary of its teacher, {teacher}; leave it out.")
        if recipe.objective.inherit and (name != "model.layers" or recipe.model.layers > model["layers"]):
            raise UserError(
                f"{name}={value}: a student that begins with layers of its teacher, {teacher}, has {theirs} there, and no more "
                "layers than it; leave it out, or set objective.inherit=false."
            )
    return recipe


def _different(recipe: Recipe, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """`section.key`, what it is in the recipe and what in these settings, for all that weights depend on."""
    for section, theirs in settings.items():
        for key, value in asdict(getattr(recipe, section)).items():
            if value != theirs[key] and f"{section}.{key}" not in MAY_BE_OTHER:
                yield f"{section}.{key}", as_typed(value), as_typed(theirs[key])


def _told(name: str) -> Start:
    """Whoever did not type it, because the recipe has it, should hear where it stands."""
    try:
        return start_of(name)
    except UserError as error:
        raise UserError(f"task.start={name}: {error}") from None


def _still_chosen(section: str, table: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """A recipe's own body and vocabulary are for training from scratch: a start that is typed is asked for in their stead.

    Of what may be other, what its family has a setting for.
    """
    others = {key for key in theirs if f"{section}.{key}" in MAY_BE_OTHER}
    return {key: value for key, value in table.items() if isinstance(value, Typed) or key in others}


def _remembered(folder: Path | None, start: str) -> Settings | None:
    if folder is None or not (folder / "recipe.toml").is_file() or (run := Run(folder)).never_saved:
        return None
    return _settings(run) if run.recipe.task.start == start else None

"""A run folder: everything one training leaves behind, and all that is needed to use the model again.

recipe.toml  tokenizer.json  data.json  metrics.jsonl  curves.png  samples.txt  README.md  checkpoints/{step,best,average}-N/
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard.core.atomic import explain_os_errors, flush_folder, sweep_drafts
from regard.core.errors import UserError
from regard.core.files import MIB, open_append, read_bounded, read_json, refuse_link_out, write_whole
from regard.core.terminal import print_stderr
from regard.runs.recipe import Recipe, build_recipe, must_exist, read_run_toml, tables_of
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoint import STATE, Checkpoint, Store
from regard.training.checkpoint_files import canonical
from regard.training.config import MAY_CHANGE, TrainConfig
from regard.training.progress import Progress, done

Say = Callable[[str], None]
LARGEST = 256 * MIB  # of a file beside the checkpoints; the largest vocabularies have some 40 MB
CHECKPOINTS = "checkpoints"
RECORD = "data.json"


KINDS = {"last": "step", "best": "best", "average": "average"}
"""Kinds of checkpoints: the name that `--weights` takes, and the name in the store."""


WARNED: set[Path] = set()  # folders of runs whose unfinished training has been told of


@dataclass(frozen=True)
class Run:
    folder: Path
    choice: str = ""  # of its weights: last, best, average, or a checkpoint such as step-400; by default what is used otherwise

    @classmethod
    def open(cls, folder: Path | str, choice: str = "") -> Run:
        folder = Path(folder)
        must_exist(folder)
        if not folder.is_dir():
            raise UserError(
                f"{folder} is a file, not a run folder; give a run, such as 'regard train translate' makes, or hf:NAME."
            )
        if not (folder / "recipe.toml").is_file():
            raise UserError(f"{folder} is not a run: it has no recipe.toml. Runs are made by 'regard train RECIPE --out FOLDER'.")
        run = cls(folder, choice)
        run.refuse_links_out()
        return run

    def refuse_links_out(self) -> None:
        """A run may come from a stranger, who may have put links in the place of its files.

        Whoever uses several disks may link the run's folder, and `checkpoints` in it: those two are followed. No file of the
        person's own is written over there, as checkpoints are new folders that prove what they are. Only the checkpoints of
        another run could be taken for this one's, and in time be deleted, so a link to those is refused.
        """
        for path in self.folder.iterdir():
            if path.is_symlink() and not path.is_dir():
                refuse_link_out(path, self.folder)
        kept = self.folder / CHECKPOINTS
        if kept.is_symlink() and (kept.resolve().parent / "recipe.toml").exists():
            raise UserError(
                f"{kept} is a link to {kept.resolve()}, which are the checkpoints of another run. Link it to a folder of its own."
            )

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """recipe.toml as it is written; read once."""
        return read_run_toml(self.folder / "recipe.toml")

    @cached_property
    def recipe(self) -> Recipe:
        return self.recipe_with(())

    def recipe_with(self, assignments: Sequence[str]) -> Recipe:
        """Return the run's recipe with `section.key=value` settings on top."""
        path = self.folder / "recipe.toml"
        return build_recipe(tables_of(self._settings, str(path), assignments))

    def vocabulary_sizes(self) -> list[int]:
        """Return the sizes of the vocabularies: one, two where source and target have their own, none where there is no text."""
        if self.recipe.text.tokenizer == "none":
            return []
        paths = sorted(self.folder.glob("tokenizer*.json"))
        if not paths:
            raise UserError(f"{self.folder} has no tokenizer.json. Copy it back, or make it again by the same command.")
        if self.recipe.text.tokenizer == "public":
            apart = len(paths) > 1 and self.recipe.model.tie not in ("all", "inputs")
            written = [len(Tokenizer.load(paths[1], foreign=True))] if apart else []
            return [self.recipe.text.size, *written]  # its model's table may be larger
        return [len(Tokenizer.load(path)) for path in paths]

    def store(self, say: Say = print_stderr) -> Store:
        return Store(self.folder / CHECKPOINTS, say)

    def weights(self, say: Say = print_stderr) -> Checkpoint:
        """Return the weights to use: those chosen, else the average of the last checkpoints, else the best, else the newest."""
        self.require_sealed()
        self._warn_if_unfinished(say)
        store, damaged = self.store(say), False
        if self.choice:
            return self._chosen(store)
        for kind in ("average", "best", "step"):
            if (found := store.newest(kind)) is not None:
                if damaged:
                    say(f"using {found.path.name} instead.")
                return found
            damaged = damaged or any(store.folder.glob(f"{kind}-*"))
        begun = any(self.checkpoints())
        raise UserError(
            f"{self.folder} has no checkpoint {'that can be read' if begun else 'yet'}; "
            + ("copy the run again from where it was made, or train it again with " if begun else "train it with ")
            + f"'regard train {self.folder / 'recipe.toml'} --out {'ANOTHER_FOLDER' if begun else self.folder}'."
        )

    def _warn_if_unfinished(self, say: Say) -> None:
        """Say how far the training has come, if it has not come to its end; once a process for every run."""
        if self.folder in WARNED or (newest := max(self.checkpoints(), default=None)) is None:
            return
        config = self.recipe.train
        try:
            state = read_json(newest / STATE, within=newest)
            progress = Progress(**state["progress"])
            steps = int(config.steps if isinstance(config, TrainConfig) else state["steps"])
            unfinished = progress.step < steps and not (isinstance(config, TrainConfig) and done(config, progress))
        except (UserError, KeyError, TypeError, ValueError):
            return  # damaged, which reading the weights reports, or of a version that did not write how many steps there are
        if unfinished:
            WARNED.add(self.folder)
            again = shlex.join(["regard", "train", str(self.folder / "recipe.toml"), "--out", str(self.folder)])
            say(f"{self.folder} is unfinished: it is trained to step {progress.step:,} of {steps:,}. To continue: {again}")

    def _chosen(self, store: Store) -> Checkpoint:
        if self.choice not in KINDS:
            return store.named(self.choice)
        if (found := store.newest(KINDS[self.choice])) is None:
            kept = ", ".join(store.names()) or "none"
            raise UserError(f"{self.folder} has no {self.choice} weights; of its checkpoints these are kept: {kept}.")
        return found

    def checkpoints(self) -> Iterator[Path]:
        """Yield the checkpoints that training could continue from, readable or not."""
        return (self.folder / CHECKPOINTS).glob("step-*")

    @property
    def never_saved(self) -> bool:
        """Begun, but stopped before its first checkpoint: there is nothing to continue, and nothing to lose."""
        saved = self.folder / CHECKPOINTS
        left = saved.iterdir() if saved.is_dir() else ()
        return (self.folder / RECORD).exists() and all(path.name.startswith(".tmp-") for path in left)

    def write(self, name: str, text: str) -> None:
        """A small file, complete or not at all; when this returns it survives a power cut."""
        with explain_os_errors(f"Writing {name}", self.folder):
            write_whole(self.folder / name, text)
            flush_folder(self.folder)
        if name == "recipe.toml":
            for known in ("_settings", "recipe"):
                self.__dict__.pop(known, None)

    def read_json(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.exists():
            return None
        try:
            found = json.loads(read_bounded(path, within=self.folder).decode())
        except (ValueError, RecursionError):  # not JSON, or not even text
            found = None
        if not isinstance(found, dict):
            raise _damaged(path)
        return found

    def record(self) -> dict[str, dict[str, Any]]:
        """Read data.json: sizes (`amounts`) and hashes (`sha256`) of the data by split, and hashes (`seals`) of the run."""
        found = self.read_json(RECORD) or {}
        parts = {part: found.get(part) or {} for part in ("amounts", "sha256", "seals")}
        if not all(isinstance(part, dict) for part in parts.values()):
            raise _damaged(self.folder / RECORD)
        return parts

    def seals(self) -> dict[str, str]:
        """Hashes of what the weights mean nothing without: tokenizers, labels, and all settings but those that may change."""
        paths = sorted(
            [*self.folder.glob("tokenizer*.json"), *self.folder.glob("labels.json"), *self.folder.glob("scaling.json")]
        )
        found = {path.name: hashlib.sha256(read_bounded(path, LARGEST, within=self.folder)).hexdigest() for path in paths}
        tables = self._settings  # as written: a later version may know more keys
        settings = {section: tables.get(section, {}) for section in ("model", "text", "objective", "train")}
        settings["train"] = {key: value for key, value in settings["train"].items() if key not in MAY_CHANGE}
        return found | {"recipe.toml": hashlib.sha256(canonical(settings).encode()).hexdigest()}

    def require_sealed(self) -> None:
        """A flipped bit in a vocabulary or a recipe can leave both readable, and every output wrong."""
        kept = self.record()["seals"]
        for name, seal in self.seals().items():
            if kept.get(name, seal) != seal:
                raise UserError(
                    f"the weights in {self.folder} do not fit its {name}: that file is damaged, edited or from another run (its "
                    "sha256 is not the one in data.json). Copy it again from where the run was made, or train another run."
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process trains in a folder at a time; what those before it left half written is cleared."""
        self.refuse_links_out()
        with open_append(self.folder / ".lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another process is training in {self.folder}; wait for it, stop it, or give another --out."
                ) from None
            sweep_drafts(self.folder)
            yield


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged; restore it from a copy, or delete it and run the same command again.")


def choose_device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name} is not known; give cpu, cuda or cuda:N.") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {name} is not supported; give cpu, cuda or cuda:N.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device {name}: this machine has no CUDA device that torch {torch.__version__} can use; give --device cpu."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name}: this machine has {torch.cuda.device_count()} CUDA devices, numbered from 0.")
    return device

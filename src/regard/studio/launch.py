"""`regard studio`: the listed runs, opened at the first request, and the page served from this machine."""

from __future__ import annotations

import hashlib
import os
import socket
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer

from torch import nn

from regard.core.errors import UserError
from regard.core.files import read_bounded
from regard.model.layers import pack
from regard.runs.folder import Run, Say, choose_device
from regard.runs.protocols import AnswersImages, Draws, ReadsImages
from regard.runs.recipe import HUB
from regard.studio.image_session import ClassifierSession, DrawingSession, QuestionSession, images_of, questions_of
from regard.studio.run_session import ImageSession, RunSession, WordSession
from regard.studio.series_session import SeriesSession
from regard.studio.session import Session
from regard.tasks.captioning.predict import CaptionGenerator
from regard.tasks.dialogue.predict import as_writer
from regard.tasks.forecasting.predict import Forecasts
from regard.tasks.registry import is_public, open_run
from regard.tasks.word_vectors.predict import WordVectorModel
from regard.training.checkpoint_files import MANIFEST
from regard.training.resume import read_snapshot, snapshots


@dataclass(frozen=True)
class RunFolderHandle:
    name: str  # as `open_run` takes it
    device: str
    settings: tuple[str, ...] = ()  # such as decode.beam=8

    @property
    def folder(self) -> Path | None:
        return None if is_public(self.name) else Path(self.name)

    @property
    def steps(self) -> Sequence[int]:
        return () if self.folder is None else sorted(snapshots(self.folder))

    def version(self) -> str | None:
        """Hash of weights and settings, not of times: a copy in the same place is the same run."""
        if self.name.startswith(HUB):
            return ""
        try:
            content = _public_files(Path(self.name)) if is_public(self.name) else _run_files(Run.open(self.name))
        except (OSError, UserError):
            return None
        return hashlib.sha256(content).hexdigest()[:20]

    def open(self, step: int | None) -> Session:
        answers = as_writer(open_run(self.name, self.device, self.settings))
        task = "public" if self.folder is None else Run.open(self.folder).recipe.task.name
        weights = "as the run ended"
        if step is not None:
            assert self.folder is not None
            _rewind(answers.model, snapshots(self.folder)[step])
            weights = f"snapshot of step {step:,}"
        if isinstance(answers, CaptionGenerator):
            assert self.folder is not None
            return ImageSession(answers, Run.open(self.folder).recipe, task, weights)
        if isinstance(answers, ReadsImages):
            recipe = None if self.folder is None else Run.open(self.folder).recipe
            kind = DrawingSession if isinstance(answers, Draws) else ClassifierSession
            return kind(answers, partial(images_of, answers, recipe), task, weights)
        if isinstance(answers, AnswersImages):
            assert self.folder is not None
            return QuestionSession(answers, *questions_of(Run.open(self.folder).recipe), task, weights)
        if isinstance(answers, Forecasts):
            if self.folder is None:
                raise UserError(
                    f"{self.name} has no table of its own to show windows of; make a run of it: regard import {self.name} DIR "
                    "data.train=TABLE.csv."
                )
            return SeriesSession(answers, Run.open(self.folder).recipe_with(self.settings), task, weights)
        if isinstance(answers, WordVectorModel):
            return WordSession(answers, task, weights)
        return RunSession(self.name, answers, task, weights)


def _run_files(run: Run) -> bytes:
    """The settings, and the manifest of the weights that would be opened: it has the sha256 of every one of their files."""
    saved = run.folder / "checkpoints"
    kinds = [sorted(path.name for path in saved.glob(f"{kind}-*")) for kind in ("average", "best", "step")]
    newest = next((names[-1] for names in kinds if names), None)
    manifest = b"" if newest is None else read_bounded(saved / newest / MANIFEST)
    return b"\0".join([read_bounded(run.folder / "recipe.toml"), str(newest).encode(), manifest])


def _public_files(folder: Path) -> bytes:
    """Identify public files by name and size: hashing takes minutes, and they are only replaced as a whole."""
    files = sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")])
    return repr([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]).encode()


def _rewind(model: nn.Module, path: Path) -> None:
    """Weights of an earlier step, for a model that was opened with those of the last."""
    kept, own = read_snapshot(path), model.state_dict()
    if missing := sorted(own.keys() - kept.keys()):
        raise UserError(f"{path} has no {missing[0]}; it is from another model. Delete it, or train the run again.")
    model.load_state_dict({name: kept[name] for name in own})
    if next(model.parameters()).device.type == "cpu":
        pack(model)


def listed(names: Sequence[str], device: str, settings: Sequence[str] = ()) -> dict[str, RunFolderHandle]:
    """Return runs by name: the folder's name, or as it was given if two have the same. None given: all in runs/."""
    if not names:
        names = [str(path.parent) for path in sorted(Path("runs").glob("*/recipe.toml"))]
        if not names:
            raise UserError("there is no run in runs/ yet; make one with 'regard demo', or give a run: 'regard studio RUN'.")
    for name in names:
        if not is_public(name):
            run = Run.open(name)
            if settings:
                run.recipe_with(settings)
    short = [name if name.startswith(HUB) else Path(name).resolve().name for name in names]
    labels = [label if short.count(label) == 1 else name for label, name in zip(short, names)]
    return {label: RunFolderHandle(name, device, tuple(settings)) for label, name in zip(labels, names)}


@dataclass(frozen=True)
class Served:
    """Address and access of studio, as typed."""

    host: str = "127.0.0.1"
    port: int = 8417
    allow_hosts: Sequence[str] = ()
    key_file: Path | None = None
    browser: bool = True


def serve(names: Sequence[str], served: Served, device: str | None, say: Say, settings: Sequence[str] = ()) -> None:
    try:
        from regard.studio import server
        from regard.studio.app import create
        from regard.studio.security import is_loopback
        from regard.studio.server import Server
        from regard.studio.worker import give_back_large_blocks
    except ModuleNotFoundError as error:
        raise UserError(f"studio needs {error.name}, which is not installed; type: pip install 'regard[serve]'") from None
    hosts = server.allowed_hosts(served.host, served.port, served.allow_hosts)
    key, made = server.find_key(served.key_file, os.environ), None
    if key is None and not is_loopback(served.host):
        key = made = server.make_key()
    if served.key_file is not None and server.readable_by_others(served.key_file):
        say(f"studio: others on this machine can read {served.key_file}; type: chmod 600 {served.key_file}")
    runs = listed(names, str(choose_device(device)), settings)
    bound = _bound(served.host, served.port)
    url = server.url(served.host, bound.getsockname()[1])
    summary = f"{len(runs)} run{'s' * (len(runs) != 1)}: {', '.join(runs)}"
    say(f"studio: {url}{f'?key={made}' if made else ''}    {summary}    stop with Ctrl-C")
    listening = Server(create(runs, hosts, key), bound)
    give_back_large_blocks()
    if served.browser and made is None:  # a browser is given its address as an argument, which every user of the machine can read
        Timer(0.5, webbrowser.open, [url]).start()
    listening.run()


def _bound(host: str, port: int) -> socket.socket:
    """Return a bound socket; a port in use is refused in one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise UserError(
            f"studio cannot listen on {host}:{port} ({error}); give another --port, or 0 for any that is free."
        ) from None
    return found

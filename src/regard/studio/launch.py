"""`regard studio`: the listed runs, opened at the first request, and the page served from this machine."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer

from torch import nn

from regard.core.errors import UserError
from regard.model.layers import pack
from regard.runs.folder import Run, Say, choose_device
from regard.runs.protocols import AnswersImages, Draws, ReadsImages
from regard.studio.image_session import ClassifierSession, DrawingSession, QuestionSession, images_of, questions_of
from regard.studio.run_session import ImageSession, RunSession, WordSession
from regard.studio.series_session import SeriesSession
from regard.studio.session import Session
from regard.tasks.captioning.predict import CaptionGenerator
from regard.tasks.dialogue.predict import as_writer
from regard.tasks.forecasting.predict import Forecasts
from regard.tasks.registry import is_public, open_run
from regard.tasks.run_version import labelled, run_version
from regard.tasks.word_vectors.predict import WordVectorModel
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
        return run_version(self.name)

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
    return {label: RunFolderHandle(name, device, tuple(settings)) for label, name in labelled(names, "studio", settings).items()}


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
    bound = server.bind(served.host, served.port, "studio")
    url = server.url(served.host, bound.getsockname()[1])
    summary = f"{len(runs)} run{'s' * (len(runs) != 1)}: {', '.join(runs)}"
    say(f"studio: {url}{f'?key={made}' if made else ''}    {summary}    stop with Ctrl-C")
    listening = Server(create(runs, hosts, key), bound)
    give_back_large_blocks()
    if served.browser and made is None:  # a browser is given its address as an argument, which every user of the machine can read
        Timer(0.5, webbrowser.open, [url]).start()
    listening.run()

"""Sessions: opened runs as the page needs them, and the listed runs. `studio/launch.py` opens them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import nn

from regard.core.errors import UserError, nearest
from regard.decode.beam_trace import SearchTree
from regard.lens.analyses.document import Document
from regard.lens.analyses.image_heads import ImageRoles
from regard.lens.analyses.image_heat import Heat
from regard.lens.analyses.roles import Roles
from regard.lens.analyses.word_senses import WordUses
from regard.lens.subject import Subject
from regard.model.probe import Probe, attentions
from regard.studio.gallery import Gallery
from regard.studio.vocabulary import Vocabulary
from regard.text.tokenizer import Tokenizer

LONGEST = 8192  # tokens of a text
WRITES_NOT = "this model does not write, so there is no search to see; give a translator or a language model."


class Session(Protocol):
    """One opened run: a model, and the inputs that it can be given. What a kind of run cannot do is refused in one sentence."""

    task: str
    weights: str  # where they come from, for people

    @property
    def model(self) -> nn.Module: ...

    @property
    def facts(self) -> Mapping[str, str]:
        """Return family, attentions, parameters and the source of the weights, for people."""
        heads = [found.heads for found in attentions(self.model).values()]
        config = getattr(getattr(self.model, "body", self.model), "config", None)
        return {
            "task": self.task,
            "family": getattr(config, "family", type(self.model).__name__.lower()),
            "attentions": f"{len(heads)}, with {sum(heads)} head{'s' * (sum(heads) != 1)} in all",
            "parameters": f"{sum(parameter.numel() for parameter in self.model.parameters()):,}",
            "weights": self.weights,
        }

    @property
    def example(self) -> str:
        """A text to begin with; the name of an image if the model reads images."""
        ...

    @property
    def gallery(self) -> Gallery | None:
        """The images that can be given to the model; None if it reads text."""
        return None

    @property
    def series(self) -> Mapping[str, Any] | None:
        """The windows of series that can be given to the model; None if it forecasts none."""
        return None

    def subject(self, text: str, target: str | None) -> Subject: ...

    def answer(self, text: str) -> str:
        """Return what `regard predict` prints."""
        ...

    def document(self, text: str) -> Document:
        """Return the weights of sentences and words."""
        raise UserError("this model does not read sentence by sentence; Head shows what its tokens attend to.")

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        """Return a beam search with every step kept."""
        raise UserError(WRITES_NOT)

    def alignment(self, text: str, tokens: Sequence[int]) -> tuple[Sequence[str], Sequence[float]]:
        """Return the input's tokens, and their weights in the last layer when the last of `tokens` was written."""
        raise UserError(WRITES_NOT)

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        raise UserError(WRITES_NOT)

    def roles(self, text: str, target: str | None) -> Roles:
        raise UserError("roles are of heads that read text, and this model has none; choose another measure.")

    @property
    def classes(self) -> Sequence[str]:
        """Return the classes of images that can be drawn; none where a model draws without classes, or draws no images."""
        return ()

    @property
    def questions(self) -> Sequence[str]:
        """Questions about images that can be asked to begin with."""
        return ()

    def heat(self, image: str, question: str) -> tuple[Heat, Sequence[tuple[str, float]]]:
        """Return where a model attended in an image as it answered a question, and the likeliest answers."""
        raise UserError("this model answers no questions about images; give one that does, such as that of vqa-scenes.")

    def draw(self, text: str, image: str, number: int, seen: Callable[[np.ndarray, int], None]) -> str:
        """Draw an image, showing it as it grows; return the name by which it is kept."""
        raise UserError("this model draws no images; give a run that does, such as one of regard train pixels.")

    def image_roles(self, text: str, subject: Subject, seen: Probe) -> ImageRoles:
        """Return how far and in which direction heads look, on the image of a pass."""
        raise UserError("distances and directions are of heads among the patches of an image; this model has none.")

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary with its static vectors."""
        ...

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses: ...


class RunHandle(Protocol):
    """A run that can be opened: as it ended, or at a snapshot."""

    @property
    def folder(self) -> Path | None: ...

    @property
    def steps(self) -> Sequence[int]:
        """Steps of its snapshots."""
        ...

    def open(self, step: int | None) -> Session: ...

    def version(self) -> str | None:
        """Return a text that identifies the files on disk; None if they are gone."""
        ...


class Opened(NamedTuple):
    session: Session
    version: str  # of the files, when they were read


class Runs:
    """The listed runs by name, opened at the first request. No request can open anything else."""

    def __init__(self, openings: Mapping[str, RunHandle]) -> None:
        self.openings = dict(openings)
        self._opened: dict[tuple[str, int | None], Opened] = {}
        self._lock = Lock()  # held while a run is opened, which takes seconds
        self._handing = Lock()
        self._busy: dict[int, Lock] = {}

    def opening(self, name: str) -> RunHandle:
        if name not in self.openings:
            raise UserError(f"there is no run {name[:80]!r} here{nearest(name[:80], self.openings)}")
        return self.openings[name]

    def session(self, name: str, step: int | None = None) -> Session:
        return self.opened(name, step).session

    def opened(self, name: str, step: int | None = None) -> Opened:
        """At most one snapshot of a run is held beside it. A run stays as it was opened until it is `refreshed`."""
        opening = self.opening(name)
        if step is not None and step not in opening.steps:
            raise UserError(f"{name} has no snapshot of step {step}; it has {_listed(opening.steps)}.")
        with self._lock:
            if (name, step) not in self._opened:
                if step is not None:
                    self._opened = {key: one for key, one in self._opened.items() if key[0] != name or key[1] is None}
                version = opening.version() or ""  # before it is opened: what changes meanwhile is noticed
                self._opened[name, step] = Opened(opening.open(step), version)
            return self._opened[name, step]

    def refreshed(self, name: str, step: int | None = None) -> Opened:
        """Return the run as its files are now, opened again if they changed."""
        now = self.opening(name).version()
        with self._lock:
            self._opened = {key: one for key, one in self._opened.items() if key[0] != name or one.version == now}
        return self.opened(name, step)

    def changed(self, name: str, version: str) -> str | None:
        """Return a sentence for a page that shows this version of a run, if its files have changed."""
        now = self.opening(name).version()
        if now is None:
            return (
                f"The files of {name} are gone, or cannot be read any more; you see it as studio read it before. Put them back "
                "and reload this page, or choose another run."
            )
        if now != version:
            return (
                f"The files of {name} have changed since you opened it: it was trained further, or another run took its place. "
                "Reload this page to see it as it is now."
            )
        return None

    def is_open(self, name: str) -> bool:
        return (name, None) in self._opened

    def alone(self, session: Session) -> Lock:
        """A probe is attached to the model, so one pass at a time goes through it."""
        with self._handing:
            return self._busy.setdefault(id(session.model), Lock())


def _listed(steps: Sequence[int]) -> str:
    return f"those of steps {', '.join(map(str, steps))}" if steps else "none: train with train.snapshot_every=N"


def last_weights(seen: Probe, names: Sequence[str]) -> list[float]:
    """Return the weights of the last query in the last of these attentions, as a mean over its heads."""
    last = seen[names[-1]]
    return last.weights(rows=[last.q_BHLK.shape[2] - 1])[0].mean(0)[0].tolist()

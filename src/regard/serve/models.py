"""The models that are served, each with the engine that owns it, and the routes that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from regard.core.errors import UserError, nearest
from regard.decode.config import DecodeConfig
from regard.runs.protocols import Embeds, Predictor, Streams, WritesRows
from regard.runs.routes import Route, Serves, WriteRoute
from regard.serve.errors import Refused
from regard.serve.structured import JsonGuide
from regard.serve.templates import ChatTemplate
from regard.serve.work import Statistics, Ticket, Work
from regard.tasks.registry import open_run
from regard.tasks.run_version import run_version

COMPLETIONS, CHAT, EMBEDDINGS = "/completions", "/chat/completions", "/embeddings"
REPLY = "/reply"  # of a model of dialogues, which chats by it


class Engine(Protocol):
    """The methods of `serve/engine.py` that the HTTP interface calls."""

    def submit(self, work: Work, *, key: str = "", deadline: float | None = None) -> Ticket: ...

    def replace(self, model: Predictor) -> None: ...

    def close(self, *, drain: bool) -> None: ...

    def statistics(self) -> Statistics: ...


@dataclass(frozen=True)
class RunSource:
    """A run as it was typed, to be opened, and opened again when its files have changed."""

    name: str  # as `open_run` takes it
    device: str | None = None
    settings: tuple[str, ...] = ()

    def version(self) -> str | None:
        return run_version(self.name)

    def load(self) -> Predictor:
        return open_run(self.name, self.device, self.settings)

    @property
    def folder(self) -> Path:
        return Path(self.name)


@dataclass(frozen=True)
class Opened:
    """One version of a model, with what belongs to its vocabulary."""

    predictor: Predictor
    template: ChatTemplate | None
    guide: JsonGuide | None
    created: int  # seconds since 1970: when its weights were written


@dataclass(eq=False)
class ServedModel:
    name: str
    source: RunSource
    opened: Opened
    engine: Engine
    version: str | None
    routes: Mapping[str, Route] = field(default_factory=dict)

    @classmethod
    def start(cls, name: str, source: RunSource, engine: Callable[[Predictor], Engine]) -> ServedModel:
        """Open a run and start the engine that owns it."""
        version, opened = source.version(), open_version(source)
        return cls(name, source, opened, engine(opened.predictor), version, routes_of(opened.predictor, name))

    @property
    def predictor(self) -> Predictor:
        return self.opened.predictor

    @property
    def replying(self) -> WriteRoute | None:
        """Return the route by which a model of dialogues writes a reply to turns."""
        route = self.routes.get(REPLY)
        return route if isinstance(route, WriteRoute) else None

    @property
    def paths(self) -> list[str]:
        """Return every path that it answers."""
        streams = isinstance(self.predictor, Streams)
        own = {CHAT: streams or self.replying is not None, COMPLETIONS: streams, EMBEDDINGS: isinstance(self.predictor, Embeds)}
        return sorted([*self.routes, *(path for path, able in own.items() if able)])

    @property
    def decode(self) -> DecodeConfig:
        """Return the settings of the run's own search."""
        return decode_of(self.predictor)

    def reload(self) -> bool:
        """Open the run again if its files have changed, and give the new version to the engine; return whether that was done.

        A run that cannot be read, as while it is being written, stays as it is.
        """
        version = self.source.version()
        if version is None or version == self.version:
            return False
        opened = open_version(self.source)
        if routes_of(opened.predictor, self.name).keys() != self.routes.keys():
            raise UserError(f"{self.name} is now a model of another task; restart the server to serve it.")
        self.engine.replace(opened.predictor)
        self.opened, self.version = opened, version
        return True


@dataclass
class Models:
    """All models by name."""

    served: dict[str, ServedModel]
    ready: bool = True
    reloading: Lock = field(default_factory=Lock)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self.served.values())

    def find(self, name: str | None, path: str) -> ServedModel:
        """Return the model of this name that answers this path; without a name, the only one that does."""
        able = [model for model in self if path in model.paths]
        if name is None:
            if len(able) == 1:
                return able[0]
            if not able:
                raise Refused(
                    f"no model here answers /v1{path}; GET /v1/models lists the routes of each.", status=404, param="model"
                )
            known = ", ".join(model.name for model in able[:12])
            raise Refused(f"{len(able)} models answer this; name one in 'model': {known}.", param="model")
        if (found := self.served.get(name)) is None:
            raise Refused(
                f"there is no model {name[:80]!r} here{nearest(name, self.served)}",
                status=404,
                code="model_not_found",
                param="model",
            )
        if path not in found.paths:
            raise Refused(
                f"model {name!r} does not answer /v1{path}; it answers {', '.join('/v1' + one for one in found.paths)}.",
                code="wrong_model",
                param="model",
            )
        return found

    def reload(self, say: Callable[[str], None]) -> None:
        """Look for newer files of every run. One that cannot be opened is reported, and the version before it stays."""
        with self.reloading:
            for model in self:
                try:
                    if model.reload():
                        say(f"{model.name} is served from its newer files now.")
                except UserError as error:
                    say(f"{model.name} stays as it is: {error}")

    def close(self, *, drain: bool) -> None:
        self.ready = False
        for model in self:
            model.engine.close(drain=drain)


def open_version(source: RunSource) -> Opened:
    predictor = source.load()
    template, guide = None, None
    if isinstance(predictor, Streams):
        template = ChatTemplate.read(source.folder, predictor.tokenizer)
        guide = JsonGuide.of(predictor.tokenizer, decode_of(predictor))
    written = [path.stat().st_mtime for path in source.folder.glob("**/*.safetensors")] if source.folder.is_dir() else []
    return Opened(predictor, template, guide, int(max(written, default=0)))


def routes_of(predictor: Predictor, name: str) -> dict[str, Route]:
    found: Sequence[Route] = predictor.routes() if isinstance(predictor, Serves) else ()
    if not found and not isinstance(predictor, Streams) and not isinstance(predictor, Embeds):
        raise UserError(f"{name} has nothing that is served over HTTP; use 'regard predict'.")
    return {route.path: route for route in found}


def decode_of(predictor: Any) -> DecodeConfig:
    """Return the settings of a model's own search; the usual ones of a model that writes nothing."""
    return predictor.decode if isinstance(predictor, WritesRows) else DecodeConfig()

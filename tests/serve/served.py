"""Models behind the application, without a network or on a port of this machine: what tests of the server share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from threading import Thread
from time import sleep
from typing import Any

from starlette.testclient import TestClient

from regard.runs.protocols import Predictor, Streams
from regard.serve.app import create
from regard.serve.journal import Journal
from regard.serve.keys import Keys
from regard.serve.limits import Limits
from regard.serve.models import Models, Opened, RunSource, ServedModel, decode_of, routes_of
from regard.serve.server import Server
from regard.serve.structured import JsonGuide
from regard.serve.templates import ChatTemplate
from tests.serve.plain_engine import PlainEngine


def model_of(name: str, predictor: Predictor, engine: Any = None, template: ChatTemplate | None = None) -> ServedModel:
    """A model with an engine, by default a plain one, without a run folder."""
    tokenizer = getattr(predictor, "target_tokenizer", predictor.tokenizer)
    guide = JsonGuide.of(tokenizer, decode_of(predictor)) if isinstance(predictor, Streams) else None
    opened = Opened(predictor, template, guide, created=0)
    own = PlainEngine(predictor) if engine is None else engine
    return ServedModel(name, RunSource(name), opened, own, None, routes_of(predictor, name))


def app_of(*models: ServedModel, keys: Keys | None = None, **options: Any) -> Journal:
    limits = options.pop("limits", Limits())
    return create(Models({model.name: model for model in models}), limits, keys, **({"write": None} | options))


@contextmanager
def client_of(*models: ServedModel, **options: Any) -> Iterator[TestClient]:
    """A client of an application with these models, without a network."""
    with TestClient(app_of(*models, **options), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client
    for model in models:
        model.engine.close(drain=True)


@contextmanager
def listening(app: Journal, limits: Limits | None = None) -> Iterator[int]:
    """The real server, on a free port of this machine, in a thread."""
    listener = socket()
    listener.bind(("127.0.0.1", 0))
    server = Server(app, listener, limits or Limits())
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()


def events(body: str) -> list[Any]:
    """The contents of server-sent events; the last is [DONE]."""
    found = [part.removeprefix("data: ") for part in body.split("\n\n") if part]
    assert found[-1] == "[DONE]"
    return [json.loads(part) for part in found[:-1]]


def key_file(folder: Path, *keys: str) -> Path:
    path = folder / "keys.txt"
    path.write_text("".join(f"{key}\n" for key in keys))
    path.chmod(0o600)
    return path

"""`regard serve`: the runs that were named, opened, and served on a socket until SIGTERM."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from regard.core.errors import UserError
from regard.runs.folder import Say, choose_device
from regard.tasks.run_version import labelled

if TYPE_CHECKING:
    from regard.serve.keys import Keys
    from regard.serve.limits import Limits

NEEDED = ("jinja2", "prometheus_client", "uvicorn")  # not imported: the second reads `MULTIPROCESS` when it is
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"  # before prometheus_client is imported


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Address, access and processes, as typed."""

    host: str = "127.0.0.1"
    port: int = 8418
    key_file: Path | None = None
    device: str | None = None
    settings: Sequence[str] = ()  # such as decode.beam=8
    limits: Sequence[str] = ()  # NAME=VALUE
    workers: int = 1
    watch: float = 0.0  # seconds between two looks for newer files; 0: only at SIGHUP
    log_texts: bool = False
    quiet: bool = False  # no line for each request


def serve(names: Sequence[str], serving: Serving, say: Say) -> int:
    """Serve until a signal; return the exit code."""
    limits, keys, runs = _checked(names, serving, say)
    listener = _bound(serving)
    where = f"http://{serving.host}:{listener.getsockname()[1]}/v1"
    say(f"serve: {where}    {len(runs)} model{'s' * (len(runs) != 1)}: {', '.join(runs)}    stop with Ctrl-C")
    if serving.workers == 1:
        return _work(runs, serving, limits, keys, listener, say)
    from regard.serve.workers import Workers

    with tempfile.TemporaryDirectory(prefix="regard-metrics-") as folder, _environment(MULTIPROCESS, folder):
        return Workers(lambda: _work(runs, serving, limits, keys, listener, say), serving.workers, say, _forget_numbers).run()


def plan(names: Sequence[str], serving: Serving, say: Say) -> list[str]:
    """Return the lines of the capacity plan: what the models take, and how many texts are written together."""
    limits, _, runs = _checked(names, serving, say)
    from regard.serve.capacity import lines_of
    from regard.serve.models import RunSource

    device = str(choose_device(serving.device))
    opened = {label: RunSource(name, device, tuple(serving.settings)).load() for label, name in runs.items()}
    return lines_of(opened, limits, serving.workers)


def _checked(names: Sequence[str], serving: Serving, say: Say) -> tuple[Limits, Keys | None, dict[str, str]]:
    """Refuse whatever was mistyped, before anything is opened."""
    try:
        for package in NEEDED:
            if find_spec(package) is None:
                raise ModuleNotFoundError(name=package)
        from regard.serve.keys import Keys
        from regard.serve.limits import read_limits
        from regard.studio.security import is_loopback
        from regard.studio.server import readable_by_others
    except ModuleNotFoundError as error:
        raise UserError(f"serve needs {error.name}, which is not installed; type: pip install 'regard[serve]'") from None
    limits = read_limits(serving.limits)
    if not 0 <= serving.port <= 65535:
        raise UserError(f"--port {serving.port} is not a port; give a number from 1 to 65535, or 0 for any that is free.")
    if not 1 <= serving.workers <= 64:
        raise UserError(f"--workers {serving.workers} is not a number of processes; give 1 to 64.")
    if not (serving.watch == 0 or 1 <= serving.watch <= 86_400):
        raise UserError(f"--watch {serving.watch:g} is no interval; give 1 to 86400 seconds, or 0 to look at SIGHUP only.")
    if serving.key_file is None and not is_loopback(serving.host):
        raise UserError(
            f"--host {serving.host} lets other machines in, and there is no key; give --key-file FILE with a key on each line."
        )
    keys = None if serving.key_file is None else Keys.read(serving.key_file)
    if serving.key_file is not None and readable_by_others(serving.key_file):
        say(f"serve: others on this machine can read {serving.key_file}; type: chmod 600 {serving.key_file}")
    return limits, keys, labelled(names, "serve", serving.settings)


def _bound(serving: Serving) -> socket.socket:
    from regard.studio.server import bind

    return bind(serving.host, serving.port, "serve")


def _work(runs: dict[str, str], serving: Serving, limits: Limits, keys: Keys | None, listener: socket.socket, say: Say) -> int:
    """Open the models and serve them, in this process."""
    from regard.serve.app import create
    from regard.serve.engine import Engine
    from regard.serve.journal import write_line
    from regard.serve.models import Models, RunSource, ServedModel
    from regard.serve.server import Server
    from regard.studio.worker import give_back_large_blocks

    device = str(choose_device(serving.device))
    sources = {label: RunSource(name, device, tuple(serving.settings)) for label, name in runs.items()}
    models = Models(
        {
            label: ServedModel.start(label, source, lambda predictor: Engine(predictor, limits.engine))
            for label, source in sources.items()
        }
    )

    def reload() -> None:
        models.reload(lambda line: say(f"serve: {line}"))

    write = None if serving.quiet else write_line
    try:
        app = create(models, limits, keys, log_texts=serving.log_texts, write=write, watch=reload, every=serving.watch)
        give_back_large_blocks()
        Server(app, listener, limits, reload).run()
    finally:
        models.close(drain=True)
    return 0


def _forget_numbers(child: int) -> None:
    """Take a process that has ended out of the gauges; what it counted stays."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(child)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]

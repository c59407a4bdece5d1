"""A contender in a process of its own: some libraries slow down whoever shares a process with them, some need other versions.

CTranslate2 brings an OpenMP runtime; once it has run, PyTorch's products in the same process take half as long again. It is
`Apart`, in our environment. JoeyNMT is `Abroad`, in its own.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]


class Apart:
    """`build(*arguments)` is called over there and gives the contender; calling this calls it, and waits."""

    def __init__(self, build: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.ours, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, build, arguments), daemon=True)
        self.process.start()

    def __call__(self, given: Any) -> Any:
        self.ask(given)
        return self.answer()

    def ask(self, given: Any) -> None:
        """Call the contender without waiting, so that several may work at once."""
        self.ours.send(given)

    def answer(self) -> Any:
        while not self.ours.poll(1):
            if not self.process.is_alive():  # what it started may hold the pipe open
                raise EOFError(f"a contender ended with status {self.process.exitcode}; what it said is above")
        return self.ours.recv()

    def end(self) -> None:
        """End the process, and give back what it holds."""
        self.ours.close()


def _serve(pipe: Any, build: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    contender = build(*arguments)
    with suppress(EOFError):  # nobody asks any more
        while True:
            pipe.send(contender(pipe.recv()))


class Abroad:
    """`module`, run by another Python, answers by name with what it gave to `serve`; questions and answers are lines of JSON.

    It is ready when this is made, and ends when this is dropped.
    """

    def __init__(self, python: Path, module: str, *arguments: str) -> None:
        command = [str(python), "-m", module, *arguments]
        self.module = module
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        weakref.finalize(self, _end, self.process)
        self._hear()

    def ask(self, name: str, *given: Any) -> Any:
        questions = _open(self.process.stdin)
        with suppress(BrokenPipeError):  # it has ended, as will be heard
            questions.write(json.dumps([name, given]) + "\n")
            questions.flush()
        return self._hear()

    def _hear(self) -> Any:
        line = _open(self.process.stdout).readline()
        if not line:
            raise SystemExit(f"{self.module} ended with status {self.process.wait()}; what it said is above")
        return json.loads(line)


def serve(answers: Mapping[str, Callable[..., Any]]) -> None:
    """The other side of `Abroad`. What libraries print goes to where errors go, so that only answers are heard."""
    heard = sys.stdout

    def say(answer: Any) -> None:
        print(json.dumps(answer), file=heard, flush=True)

    with redirect_stdout(sys.stderr):
        say("ready")
        for line in sys.stdin:
            name, given = json.loads(line)
            say(answers[name](*given))


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # asked for above
    return pipe


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(BrokenPipeError):
        _open(process.stdin).close()
    process.wait()
    _open(process.stdout).close()

"""Studio's server in a process of its own, with a model to look into, and how much memory that process has."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

Kind = Literal["demo", "wide", "long"]


class Served:
    """`with Served("long") as address`: a GPT of 6 layers and 8 heads for 4,096 tokens; `wide` has 12 by 12; `demo` is a run."""

    def __init__(self, kind: Kind, run: str = "") -> None:
        self.asked = (kind, run)

    def __enter__(self) -> str:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *self.asked), daemon=True)
        self.process.start()
        return f"http://127.0.0.1:{ours.recv()}"

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()

    def memory(self) -> int:
        return self._status("VmRSS")

    def peak(self) -> int:
        return self._status("VmHWM")

    def _status(self, key: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def long_text(tokens: int) -> str:
    """Letters, each of which is a token to the models that are not a run."""
    return ("the quick brown fox jumps over the lazy dog, and then " * (tokens // 40))[:tokens]


def _serve(pipe: Connection, kind: Kind, run: str) -> None:
    from regard.studio.app import create
    from regard.studio.launch import _bound, listed
    from regard.studio.server import Server
    from regard.studio.worker import give_back_large_blocks

    openings: dict[str, Any] = dict(listed([run], "cpu")) if kind == "demo" else {kind: _Random(kind)}
    give_back_large_blocks()
    socket = _bound("127.0.0.1", 0)
    pipe.send(socket.getsockname()[1])
    Server(create(openings), socket).run()


class _Random:
    """A language model of bytes with random weights."""

    folder = None
    steps = ()

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def version(self) -> str | None:
        return ""

    def open(self, step: int | None) -> Any:
        from regard.decode.config import DecodeConfig
        from regard.families.gpt import GPT, GPTConfig
        from regard.studio.run_session import RunSession
        from regard.tasks.language_model.predict import TextGenerator
        from regard.text.tokenizer import train_tokenizer

        layers, heads, width = (12, 12, 144) if self.kind == "wide" else (6, 8, 512)
        config = GPTConfig(width=width, heads=heads, layers=layers, feedforward=4 * width, position="sinusoidal")
        model = GPT(config, 8000).eval()
        for attention in model.decoder.blocks:
            attention.self_attention.project.weight.data.mul_(8)  # or every head would look everywhere alike
        writer = TextGenerator(model, train_tokenizer("byte", ["a"], 0), DecodeConfig(search="greedy", maximum_length=4), 8192)
        return RunSession(self.kind, writer, "write", "random")

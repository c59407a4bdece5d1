"""A server in a process of its own whose engine writes nothing until the signal SIGUSR1: `python -m tests.serve.slow_server`."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.core.terminal import Emit
from regard.decode.config import DecodeConfig
from regard.serve.limits import Limits
from regard.serve.server import Server
from regard.text.tokenizer import Tokenizer, train_tokenizer
from tests.serve.plain_engine import PlainEngine
from tests.serve.served import app_of, model_of


@dataclass
class Echo:
    """A language model as the interface sees it; the engine writes in its place."""

    tokenizer: Tokenizer = field(default_factory=lambda: train_tokenizer("byte", [], 0))
    decode: DecodeConfig = field(default_factory=lambda: DecodeConfig(search="greedy"))
    model: nn.Module = field(default_factory=lambda: nn.Linear(1, 1))
    window: int = 64
    start: int = 1

    def predict(self, *arguments: Any) -> None: ...

    def evaluate(self, test: Any) -> Any: ...

    def stream(self, prompt: str, number: int, emit: Emit) -> str:
        raise NotImplementedError

    def searching(self, **settings: Any) -> Echo:
        raise NotImplementedError


def main() -> None:
    engine = PlainEngine(Echo())
    engine.gate.clear()
    signal.signal(signal.SIGUSR1, lambda number, frame: engine.gate.set())
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = Server(app_of(model_of("echo", Echo(), engine)), listener, Limits())
    print(listener.getsockname()[1], flush=True)
    server.run()
    print("ended", flush=True)


if __name__ == "__main__":
    main()

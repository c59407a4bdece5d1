"""Several processes that serve the same socket, each with models of its own; a parent that starts, watches and stops them.

A process that dies is started again, and the others go on meanwhile. The parent loads no model, so it can fork at any time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from regard.core.errors import UserError
from regard.runs.folder import Say

SOON = 30.0  # seconds: a process that dies sooner after its start ...
MOST = 3  # ... so many times in a row ends the server
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Workers:
    """Children by process id, with when each was started."""

    work: Callable[[], int]  # what a child does; returns its exit code
    count: int
    say: Say
    ended: Callable[[int], None] = lambda child: None  # called with the process id of a child that has ended
    clock: Callable[[], float] = time.monotonic
    children: dict[int, float] = field(default_factory=dict)
    stopping: bool = False
    failed: int = 0  # children in a row that died soon after their start

    def run(self) -> int:
        """Start all children and wait until they have ended; return the exit code of the server."""
        before = {number: signal.signal(number, self._forward) for number in FORWARDED}
        worst = 0
        try:
            for _ in range(self.count):
                self._start()
            while self.children:
                child, status = os.wait()
                if child in self.children:
                    worst = max(worst, self._ended(child, os.waitstatus_to_exitcode(status)))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return worst

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # one that came now would find neither parent nor child prepared
        if (child := os.fork()) == 0:
            code = 1
            try:
                for number in FORWARDED:
                    signal.signal(number, signal.SIG_DFL)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the models are open
                signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
                code = self.work()
            except UserError as error:
                self.say(f"regard: {error}")
                code = 2
            finally:
                os._exit(code)
        self.children[child] = self.clock()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)

    def _ended(self, child: int, code: int) -> int:
        """Start a child again that has died; return its exit code if it counts as the server's."""
        began = self.children.pop(child)
        self.ended(child)
        if self.stopping:
            return int(code not in (0, *(-number for number in FORWARDED)))  # one may not have been ready to be stopped
        self.failed = self.failed + 1 if self.clock() - began < SOON else 0
        if code == 2 or self.failed >= MOST:
            self.say(f"serve: process {child} ended with code {code}; the server stops.")
            self._forward(signal.SIGTERM, None)
            return code if code > 0 else 1
        self.say(f"serve: process {child} ended with code {code}; another is started.")
        self._start()
        return 0

    def _forward(self, number: int, frame: object) -> None:
        self.stopping = self.stopping or number != signal.SIGHUP
        for child in list(self.children):
            os.kill(child, number)

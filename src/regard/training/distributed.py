"""Several processes: their group, and what they sum, broadcast and agree on.

`torchrun` or SLURM starts the same command many times and numbers the processes in RANK, WORLD_SIZE and LOCAL_RANK; where these
are not set there is one process, `SINGLE_PROCESS`, no group is made, and everything here costs nothing. Small agreements (stop?
failed?) are numbers on the host and never make a GPU wait. The first process to fail prints its message; the others, which fail
because of it, exit silently.

A process that has had a group ends by `leave`: the group's threads may still release tensors, which aborts Python while it is
taken down. PyTorch cannot end them, because its own caches keep the group.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.training.progress import Interrupt


class FailedElsewhere(UserError):
    """Another process failed and prints the reason."""


@dataclass(frozen=True)
class World:
    """The rank of this process and the collective operations, which all processes call in the same order."""

    rank: int = 0
    size: int = 1
    local: int = 0  # rank on this machine

    @property
    def is_main(self) -> bool:
        """Return whether this is the first process, which writes files and prints."""
        return self.rank == 0

    def local_device(self, device: torch.device) -> torch.device:
        """Return the device of this process: each process of a machine takes its own GPU."""
        if self.size == 1 or device.type != "cuda":
            return device
        if device.index is not None:
            raise UserError(
                f"--device {device} is one GPU, but there are {self.size} processes; give --device cuda: each takes its own."
            )
        if self.local >= (count := torch.cuda.device_count()):
            raise UserError(f"there are more processes than the {count} GPUs of this machine; start --nproc-per-node {count}.")
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place and on its device."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast(self, tensor: Tensor) -> None:
        """Copy the values of the first process to all, in place."""
        if self.size > 1:
            dist.broadcast(tensor, 0)

    def max(self, number: int) -> int:
        if self.size == 1:
            return number
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def sum_on_host(self, number: float) -> float:
        """Return the sum of a number over all processes, on the host."""
        return float(self.all_reduce(torch.tensor(number, dtype=torch.float64))) if self.size > 1 else number

    def broadcast_text(self, text: str) -> str:
        """Return the text of the first process in all processes."""
        if self.size == 1:
            return text
        data = torch.frombuffer(bytearray(text.encode()) or bytearray(1), dtype=torch.uint8)
        length = torch.tensor(len(text.encode()))
        dist.broadcast(length, 0)
        if not self.is_main:
            data = torch.zeros(max(1, int(length)), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return bytes(data[: int(length)].tolist()).decode()

    def send_to_main(self, texts: Iterable[str]) -> None:
        """Send texts, none of them empty, to the first process, which takes them by `texts_from`."""
        for text in texts:
            data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
            dist.send(torch.tensor(len(data)), 0)
            dist.send(data, 0)
        dist.send(torch.tensor(0), 0)

    def texts_from(self, rank: int) -> Iterator[str]:
        """Yield the texts that a process sends to this one, the first."""
        length = torch.tensor(0)
        dist.recv(length, rank)
        while length:
            data = torch.zeros(int(length), dtype=torch.uint8)
            dist.recv(data, rank)
            yield data.numpy().tobytes().decode()
            dist.recv(length, rank)

    def check_equal(self, value: str, otherwise: str) -> None:
        """Raise unless all processes have the same value."""
        number = int.from_bytes(blake2b(value.encode(), digest_size=7).digest(), "big")
        if (self.max(number), -self.max(-number)) != (number, number):
            raise UserError(otherwise)

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Raise in all processes, at the end of the block, if any of them fails in it."""
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        failed = self.max(failure is not None)
        if failure is not None:
            raise failure
        if failed:
            raise FailedElsewhere("another process failed; its own message says why.")


SINGLE_PROCESS = World()


class StopVote:
    """A vote at every step whether any process has received a signal; its result is used one step later, so no process waits."""

    def __init__(self, world: World, interrupt: Interrupt) -> None:
        self.world, self.interrupt = world, interrupt
        self.vote = torch.zeros((), dtype=torch.int64)
        self.pending: Any = None

    def __call__(self) -> bool:
        if self.world.size == 1:
            return bool(self.interrupt)
        known = self._result()
        self.vote = torch.tensor(self.interrupt.signal or 0)
        self.pending = dist.all_reduce(self.vote, dist.ReduceOp.MAX, async_op=True)
        if known:
            self.interrupt.signal = known
        return bool(known)

    def settle(self) -> None:
        """Share a signal that was received after the last vote."""
        self._result()
        self.interrupt.signal = self.world.max(self.interrupt.signal or 0) or None

    def _result(self) -> int:
        if self.pending is not None:
            self.pending.wait()
            self.pending = None
        return int(self.vote)


class SilentLog:
    """The log of all processes but the first: it records and prints nothing."""

    per_second = "per_second"

    def record(self, **values: Any) -> None: ...

    def progress(self, step: int, loss: float, rate: float, speed: float) -> None: ...

    def say(self, line: str, passing: bool = False) -> None: ...

    def render(self) -> None: ...


TIMEOUT = timedelta(minutes=30)  # for a process that is alive but does not answer; one that died is noticed at once
CONTINUES = "Run the same command again, with as many processes as you like: it continues from the newest checkpoint."
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_had_group = False


@contextmanager
def process_group(verb: str = "train", again: str = CONTINUES, timeout: timedelta = TIMEOUT) -> Iterator[World]:
    """Yield the world of this process, with a process group until the end of the block.

    `again` says what to do where another process is gone, and `timeout` how long the group waits for one that is alive.
    """
    if (size := _number("WORLD_SIZE", 1)) == 1:
        yield SINGLE_PROCESS
        return
    if missing := [name for name in VARIABLES if not os.environ.get(name)]:
        raise UserError(
            f"WORLD_SIZE={size} asks for several processes, but {', '.join(missing)} is not set; start them with "
            f"'torchrun --nproc-per-node {size} -m regard {verb} ...', or unset WORLD_SIZE."
        )
    global _had_group
    world, store = World(_number("RANK"), size, _number("LOCAL_RANK")), None
    _had_group = True
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=TIMEOUT))
        # Two backends: gradients are exchanged between GPUs, agreements between hosts.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
        yield world
    except Exception as error:
        failure = _explain(error, again)
        if not _should_report(store, world, isinstance(error, FailedElsewhere)):
            raise SystemExit(2 if isinstance(failure, (UserError, OSError)) else 1) from None
        raise failure from (None if failure is error else error)
    dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """Exit; after a process group without taking Python down."""
    if _had_group:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # their reader has left
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _number(name: str, default: int = 0) -> int:
    given = os.environ.get(name) or str(default)
    if not given.isdecimal():
        raise UserError(f"the environment says {name}={given}, which is not a number of processes; unset it, or use torchrun.")
    return int(given)


def _explain(error: Exception, again: str) -> Exception:
    """Return a plain message where another process has stopped answering, otherwise the error itself."""
    message = str(error).partition("\n")[0]
    if isinstance(error, (UserError, OSError)) or not (isinstance(error, dist.DistError) or "gloo" in message.lower()):
        return error
    return UserError(f"another process is gone ({message[-120:]}). {again}")


def _should_report(store: Any, world: World, elsewhere: bool) -> bool:
    """Return whether this process failed first, by the shared store; the first rank keeps the store open until all have asked."""
    if store is None:
        return True
    try:
        first = not elsewhere and store.add("regard/told", 1) == 1
        asked, deadline = store.add("regard/asked", 1), time.monotonic() + 2
        while world.is_main and asked < world.size and time.monotonic() < deadline:
            time.sleep(0.02)
            asked = store.add("regard/asked", 0)
    except Exception:  # the process that holds the store was killed
        return not elsewhere
    return first

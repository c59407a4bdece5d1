"""Several processes that train as one: who is here, what they add up, and what they agree on.

One process is a world of its own, `ALONE`, for which everything here costs nothing. Small agreements (shall we stop, did anybody
fail) are numbers on the host and never make a GPU wait. How the processes meet and part is told in `launch`.

How processes that train together meet and part.

`torchrun` or SLURM starts the same command many times and numbers the processes in RANK, WORLD_SIZE and LOCAL_RANK; where these
are not set there is one process, and no group is made. The first process to fail tells why; the others, which fail because it
did, leave without a word.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.core.errors import UserError
from regard.training.interrupt import Interrupt


class Elsewhere(UserError):
    """Another process failed, and tells why."""


@dataclass(frozen=True)
class World:
    """This process among those that train together. The methods are called by all of them, in the same order."""

    rank: int = 0
    size: int = 1
    local: int = 0  # rank on this machine

    @property
    def leads(self) -> bool:
        """The first process writes and speaks."""
        return self.rank == 0

    def place(self, device: torch.device) -> torch.device:
        """Each process of a machine takes a GPU of its own."""
        if self.size == 1 or device.type != "cuda":
            return device
        if device.index is not None:
            raise UserError(
                f"--device {device} is one GPU, but {self.size} processes train; give --device cuda: each takes its own."
            )
        if self.local >= (count := torch.cuda.device_count()):
            raise UserError(f"there are more processes than the {count} GPUs of this machine; start --nproc-per-node {count}.")
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place and on the tensor's device."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def given(self, tensor: Tensor) -> None:
        """The first process's values for all, in place."""
        if self.size > 1:
            dist.broadcast(tensor, 0)

    def largest(self, number: int) -> int:
        if self.size == 1:
            return number
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def added(self, number: float) -> float:
        """The sum over all processes, on the host."""
        return float(self.total(torch.tensor(number, dtype=torch.float64))) if self.size > 1 else number

    def tell(self, text: str) -> str:
        """What the first process has to say, whatever the others were given."""
        if self.size == 1:
            return text
        told = torch.frombuffer(bytearray(text.encode()) or bytearray(1), dtype=torch.uint8)
        length = torch.tensor(len(text.encode()))
        dist.broadcast(length, 0)
        if not self.leads:
            told = torch.zeros(max(1, int(length)), dtype=torch.uint8)
        dist.broadcast(told, 0)
        return bytes(told[: int(length)].tolist()).decode()

    def must_agree(self, value: str, otherwise: str) -> None:
        """Refuse to train where the processes do not see the same."""
        number = int.from_bytes(blake2b(value.encode(), digest_size=7).digest(), "big")
        if (self.largest(number), -self.largest(-number)) != (number, number):
            raise UserError(otherwise)

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """What fails in one process fails in all of them, at the end of the block."""
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        failed = self.largest(failure is not None)
        if failure is not None:
            raise failure
        if failed:
            raise Elsewhere("another process of this training failed; its own message says why.")


ALONE = World()


class Stopping:
    """Was any process asked to stop? Every step asks; the answer comes with the next, so nobody waits and all stop at once."""

    def __init__(self, world: World, interrupt: Interrupt) -> None:
        self.world, self.interrupt = world, interrupt
        self.asked = torch.zeros((), dtype=torch.int64)
        self.answer: Any = None

    def __call__(self) -> bool:
        if self.world.size == 1:
            return bool(self.interrupt)
        known = self._answered()
        self.asked = torch.tensor(self.interrupt.signal or 0)
        self.answer = dist.all_reduce(self.asked, dist.ReduceOp.MAX, async_op=True)
        if known:
            self.interrupt.signal = known
        return bool(known)

    def settle(self) -> None:
        """A signal that came too late for a vote is known to all as well."""
        self._answered()
        self.interrupt.signal = self.world.largest(self.interrupt.signal or 0) or None

    def _answered(self) -> int:
        if self.answer is not None:
            self.answer.wait()
            self.answer = None
        return int(self.asked)


class Mute:
    """The log of the processes that say nothing."""

    per_second = "per_second"

    def record(self, **values: Any) -> None: ...

    def progress(self, step: int, loss: float, rate: float, speed: float) -> None: ...

    def say(self, line: str, passing: bool = False) -> None: ...

    def render(self) -> None: ...


PATIENCE = timedelta(minutes=30)  # with a process that is alive but says nothing; one that died is noticed at once
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def together() -> Iterator[World]:
    """All processes of this training, from here to the end of the block."""
    if (size := _number("WORLD_SIZE", 1)) == 1:
        yield ALONE
        return
    if missing := [name for name in VARIABLES if not os.environ.get(name)]:
        raise UserError(
            f"WORLD_SIZE={size} asks for several processes, but {', '.join(missing)} is not set; start them with "
            f"'torchrun --nproc-per-node {size} -m regard train ...', or unset WORLD_SIZE."
        )
    world, store = World(_number("RANK"), size, _number("LOCAL_RANK")), None
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=PATIENCE))
        # Both at once: gradients travel between GPUs, agreements between hosts.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
        yield world
    except Exception as error:
        failure = _explained(error)
        if not _may_tell(store, world, isinstance(error, Elsewhere)):
            raise SystemExit(2 if isinstance(failure, (UserError, OSError)) else 1) from None
        raise failure from (None if failure is error else error)
    dist.destroy_process_group()


def _number(name: str, default: int = 0) -> int:
    given = os.environ.get(name) or str(default)
    if not given.isdecimal():
        raise UserError(f"the environment says {name}={given}, which is not a number of processes; unset it, or use torchrun.")
    return int(given)


def _explained(error: Exception) -> Exception:
    """That another process stopped answering is no mistake of the program."""
    told = str(error).partition("\n")[0]
    if isinstance(error, (UserError, OSError)) or not (isinstance(error, dist.DistError) or "gloo" in told.lower()):
        return error
    return UserError(
        f"another process of this training is gone ({told[-120:]}). Run the same command again, with as many processes as you "
        "like: it continues from the newest checkpoint."
    )


def _may_tell(store: Any, world: World, elsewhere: bool) -> bool:
    """The first to fail may, says the store that they met at; its keeper stays until all have asked, or have had the time to."""
    if store is None:
        return True
    try:
        first = not elsewhere and store.add("regard/told", 1) == 1
        asked, deadline = store.add("regard/asked", 1), time.monotonic() + 2
        while world.leads and asked < world.size and time.monotonic() < deadline:
            time.sleep(0.02)
            asked = store.add("regard/asked", 0)
    except Exception:  # the keeper was killed: there is nobody left to ask
        return not elsewhere
    return first

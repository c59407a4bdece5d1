"""How processes that train together meet and part.

`torchrun` or SLURM starts the same command many times and numbers the processes in RANK, WORLD_SIZE and LOCAL_RANK; where these
are not set there is one process, and no group is made. The first process to fail tells why; the others, which fail because it
did, leave without a word.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from regard.errors import UserError
from regard.train.parallel import ALONE, Elsewhere, World

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

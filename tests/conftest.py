"""The same numbers for every test on every run, and which tests a machine can run.

Property tests have two profiles. `same`, the default: the same examples each time, whatever ran before and however slow the
machine is. `fuzz`: fresh examples, REGARD_FUZZ times as many, in `make fuzz`. Tests marked `gpu` run where there is a CUDA
device, tests marked `page` where there is a Chromium.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import sys
import tempfile

# Before torch and numpy are imported, and for every process that a test starts: pytest-xdist already uses the cores.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, register_random, settings
from hypothesis.internal.conjecture import providers

gc.disable()  # until all tests are imported, none of which is garbage
# Compiled tests and sources are kept for the next run, also where the environment says otherwise, and by what a test starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)
CACHE = tempfile.TemporaryDirectory(prefix="regard-cache-")
os.environ["REGARD_CACHE"] = CACHE.name  # where nothing is left of an earlier run


FUZZ = int(os.environ.get("REGARD_FUZZ", "0"))
if FUZZ:  # in the environment, so that the processes of pytest-xdist draw the same numbers
    os.environ.setdefault("REGARD_FUZZ_SEED", str(random.SystemRandom().randrange(2**31)))
TORCH_SEED = int(os.environ.get("REGARD_FUZZ_SEED", "0"))


class TorchRandom:
    """Torch's global generator, as Hypothesis wants one: it then seeds it for each example, as it does `random` and numpy."""

    def seed(self, number: int) -> None:
        torch.default_generator.manual_seed(number + TORCH_SEED)  # `torch.manual_seed` formats a stack trace each time
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(number + TORCH_SEED)

    def getstate(self) -> torch.Tensor:
        return torch.get_rng_state()

    def setstate(self, state: torch.Tensor) -> None:
        torch.set_rng_state(state)


TORCH_RANDOM = TorchRandom()  # Hypothesis keeps only a weak reference
register_random(TORCH_RANDOM)

settings.register_profile("same", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile(
    "fuzz", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=100 * max(1, FUZZ)
)
settings.load_profile("fuzz" if FUZZ else "same")
if not FUZZ:
    # Hypothesis also tries constants of our own modules, of those that are loaded: that is, of what other tests have imported.
    providers.is_local_module_file = lambda file: False


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FUZZ:
        terminalreporter.write_line(
            f"{FUZZ} times the examples; to let torch draw the same numbers again: REGARD_FUZZ_SEED={TORCH_SEED}"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_gpu = pytest.mark.skip(reason="no CUDA device")
    no_page = pytest.mark.skip(reason="no chromium on PATH")
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(no_gpu)
        if "page" in item.keywords and shutil.which("chromium") is None:
            item.add_marker(no_page)
    items.sort(key=lambda item: "forks" not in item.keywords)  # to fork a process that has run thousands of tests takes long
    if FUZZ:
        _try_more_examples(items)


def pytest_collection_finish() -> None:
    """Leave a million imported objects out of every garbage collection to come, and of what forked processes copy."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def _try_more_examples(items: list[pytest.Item]) -> None:
    """A test that says how many examples it wants gets FUZZ times as many; the others have them from the profile."""
    tests = {
        item.obj for item in items if isinstance(item, pytest.Function) and hasattr(item.obj, "_hypothesis_internal_use_settings")
    }
    for test in tests:
        own = test._hypothesis_internal_use_settings
        if own is not settings.default:
            test._hypothesis_internal_use_settings = settings(own, max_examples=own.max_examples * FUZZ)


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    TORCH_RANDOM.seed(number)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # In a fresh clone the first of two forked processes would write bytecode, and so make other system calls than the second.
    sys.dont_write_bytecode = "forks" in item.keywords
    _seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Once more: a fixture that several tests share draws numbers in the first of them only."""
    _seed(1)

"""A child process whose system calls are counted, and one of which fails, is cut short, or is its last: `ptrace`, no privileges.

What Python does and what Rust does inside safetensors look the same from here, and nothing of ours is patched. A call that is to
fail is not made at all: its number becomes -1 on the way in, and its result the error on the way out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from tests.faults.ptrace import AT_SYSCALL, follow, let_go, registers, set_registers, to_next_call, traceme

# x86-64 numbers: those that take a descriptor first, a path first, and a folder's descriptor and a path.
_BY_HANDLE = {0: "read", 1: "write", 3: "close", 5: "fstat", 8: "lseek", 16: "ioctl", 17: "pread64", 18: "pwrite64", 20: "writev"}
_BY_HANDLE |= {72: "fcntl", 74: "fsync", 75: "fdatasync", 77: "ftruncate", 91: "fchmod", 217: "getdents64", 285: "fallocate"}
_BY_PATH = {2: "open", 4: "stat", 6: "lstat", 21: "access", 82: "rename", 83: "mkdir", 84: "rmdir", 87: "unlink", 90: "chmod"}
_BY_FOLDER = {
    257: "openat",
    258: "mkdirat",
    262: "newfstatat",
    263: "unlinkat",
    264: "renameat",
    268: "fchmodat",
    269: "faccessat",
}
_BY_FOLDER |= {316: "renameat2", 332: "statx", 437: "openat2", 439: "faccessat2", 452: "fchmodat2"}
WRITES = {"write", "pwrite64"}
PAGE = 4096  # bytes
MOST = 20_000  # calls; a child that makes more goes in circles


class Call(NamedTuple):
    name: str
    path: str


@dataclass(frozen=True)
class Fault:
    """`what` is the name of an error, `kill` or `short`; a `lasting` one hits every later call too, as a broken disk does."""

    call: int  # counted from 1
    what: str
    lasting: bool = False
    among: str = ""  # count only calls of this name: two processes may differ by a call that does not matter

    def hits(self, calls: list[Call]) -> bool:
        """Whether the last of these calls is to fail."""
        if self.among and calls[-1].name != self.among:
            return False
        number = sum(call.name == self.among for call in calls) if self.among else len(calls)
        return number >= self.call if self.lasting else number == self.call


class Ended(NamedTuple):
    calls: list[Call]
    code: int  # exit code, or minus the signal
    told: str  # what the action returned


def why_not() -> str:
    """Why calls cannot be traced here; empty if they can."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "system calls are traced on Linux x86-64 only"
    return "" if run(lambda: "traced", Path("/")).told == "traced" else "ptrace is not permitted here"


def run(action: Callable[[], str], folder: Path, fault: Fault | None = None) -> Ended:
    """The action in a child; its file-system calls at or below the folder are counted, and spoiled where the fault says."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    if not (child := os.fork()):
        os.close(reading)
        _be_traced(action, writing)
    os.close(writing)
    try:
        calls, status = _trace(child, folder, fault)
    except BaseException:
        os.kill(child, signal.SIGKILL)  # it stands still, and would until we end
        raise
    with os.fdopen(reading, "rb") as file:
        told = file.read().decode()
    return Ended(calls, os.waitstatus_to_exitcode(status if status is not None else os.waitpid(child, 0)[1]), told)


def _be_traced(action: Callable[[], str], report: int) -> NoReturn:
    code = 1
    try:
        if traceme():
            os.kill(os.getpid(), signal.SIGSTOP)  # from here
            told = action()
            os.kill(os.getpid(), signal.SIGSTOP)  # to here
            os.write(report, told.encode())
        code = 0
    finally:
        os._exit(code)


def _trace(child: int, folder: Path, fault: Fault | None) -> tuple[list[Call], int | None]:
    """The calls made between the two stops, and the wait status if the child ended before the second."""
    calls: list[Call] = []
    spoiled: _Spoiled | None = None
    inside = False
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        return calls, status
    follow(child)
    deliver = 0
    while True:
        to_next_call(child, deliver)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            return calls, status
        reason = os.WSTOPSIG(status)
        deliver = 0 if reason in (AT_SYSCALL, signal.SIGSTOP) else reason
        if reason == signal.SIGSTOP:
            let_go(child)
            return calls, None
        if reason != AT_SYSCALL:
            continue
        inside = not inside
        if not inside and spoiled:
            spoiled.leave()
            spoiled = None
        elif inside and (call := _call(child, folder)):
            calls.append(call)
            if len(calls) > MOST:
                raise RuntimeError(f"the child made {MOST} calls, the last {calls[-1]}, under {fault}")
            if fault and fault.hits(calls):
                if fault.what == "kill":
                    os.kill(child, signal.SIGKILL)
                    return calls, os.waitpid(child, 0)[1]
                spoiled = _Spoiled(child, fault.what, call)


class _Spoiled:
    """One call that does not get what it asked for."""

    def __init__(self, child: int, what: str, call: Call) -> None:
        self.child, self.what = child, what
        self.before = registers(child)
        changed = registers(child)
        if what == "short":
            changed.rdx = max(1, changed.rdx // 2) if call.name in WRITES else changed.rdx
        else:
            changed.orig_rax = 2**64 - 1  # no such call
        set_registers(child, changed)

    def leave(self) -> None:
        after = registers(self.child)
        if self.what == "short":
            after.rdx = self.before.rdx  # a system call leaves it as it was, and compilers rely on that
        else:
            after.rax = 2**64 - getattr(errno, self.what)
        set_registers(self.child, after)


def _call(child: int, folder: Path) -> Call | None:
    """The call that is about to be made, if it is about a file at or below the folder."""
    seen = registers(child)
    number, where = seen.orig_rax, ""
    if name := _BY_HANDLE.get(number):
        where = _behind(child, seen.rdi)
    elif name := _BY_PATH.get(number):
        where = _text(child, seen.rdi)
    elif name := _BY_FOLDER.get(number):
        base = ctypes.c_int(seen.rdi & 0xFFFFFFFF).value
        text = _text(child, seen.rsi)
        where = text if text.startswith("/") or base < 0 else f"{_behind(child, base)}/{text}".rstrip("/")
    if not name or not f"{where}/".startswith(f"{str(folder).rstrip('/')}/"):
        return None
    return Call(name, where)


def _behind(child: int, handle: int) -> str:
    try:
        return os.readlink(f"/proc/{child}/fd/{handle}")  # noqa: PTH115
    except OSError:
        return ""


def _text(child: int, address: int) -> str:
    if not address:
        return ""
    memory, found = os.open(f"/proc/{child}/mem", os.O_RDONLY), b""
    try:
        while b"\0" not in found:  # page by page: a text may end on the next page, and behind its end there may be none
            at = address + len(found)
            found += os.pread(memory, PAGE - at % PAGE, at)
        return found.partition(b"\0")[0].decode(errors="replace")
    finally:
        os.close(memory)

"""The few requests of ptrace(2) that `system_calls` makes, for Linux on x86-64."""

from __future__ import annotations

import ctypes
import os
import signal

AT_SYSCALL = signal.SIGTRAP | 0x80  # how a stop on the way into or out of a system call shows, once `follow` was asked for

_TRACEME, _GETREGS, _SETREGS, _DETACH, _SYSCALL, _SETOPTIONS = 0, 12, 13, 17, 24, 0x4200
_SYSGOOD, _EXITKILL = 1, 0x100000
_NAMES = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"

_libc = ctypes.CDLL(None, use_errno=True)


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in _NAMES.split()]


def traceme() -> bool:
    """Called by the child."""
    return _request(_TRACEME, 0, 0) == 0


def follow(child: int) -> None:
    """Tell its system calls from its signals, and let it not outlive us."""
    _must(_SETOPTIONS, child, _SYSGOOD | _EXITKILL)


def to_next_call(child: int, deliver: int) -> None:
    """Let it run on, with a signal or 0, into or out of its next system call."""
    _must(_SYSCALL, child, deliver)


def let_go(child: int) -> None:
    _must(_DETACH, child, 0)


def registers(child: int) -> Registers:
    found = Registers()
    _must(_GETREGS, child, ctypes.addressof(found))
    return found


def set_registers(child: int, values: Registers) -> None:
    _must(_SETREGS, child, ctypes.addressof(values))


def _must(request: int, child: int, data: int) -> None:
    if _request(request, child, data) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _request(request: int, child: int, data: int) -> int:
    _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    _libc.ptrace.restype = ctypes.c_long
    return int(_libc.ptrace(request, child, None, data))

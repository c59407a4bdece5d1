"""Large blocks go back to the system when they are freed.

glibc takes blocks from the system one by one until the first of them is freed; then it keeps what is smaller than that one for
itself, up to 32 MB, in a pool a thread. A server whose threads each pass a long text once would hold that memory for good.
"""

from __future__ import annotations

import ctypes
import ctypes.util

THRESHOLD = 1 << 20  # bytes
M_MMAP_THRESHOLD = -3  # of mallopt, in malloc.h


def give_back_large_blocks() -> bool:
    """For the whole process. False where there is no glibc: other systems' allocators need not be told."""
    name = ctypes.util.find_library("c")
    mallopt = getattr(ctypes.CDLL(name), "mallopt", None) if name else None
    return mallopt is not None and mallopt(M_MMAP_THRESHOLD, THRESHOLD) == 1

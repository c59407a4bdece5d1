"""BertViz's head view of the same attention: how large its page is, how long that takes, and from which length on it is no use.

It is given weights that are already there, as a list of whole matrices, so what is timed is only the making of the page. What the
browser then does is not: its page fetches D3 and jQuery from the network, and shows nothing without.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import torch

LENGTHS = (24, 64, 128, 256, 512, 1024)
LAYERS, HEADS = 6, 8
PATIENCE = 10.0  # seconds and
LARGEST = 100e6  # bytes: beyond either, nobody waits for a picture


def measured() -> dict[str, Any]:
    missing = [name for name in ("bertviz", "IPython") if find_spec(name) is None]
    if missing:
        return {"skipped": f"{' and '.join(missing)} not installed; make bench installs what is in requirements-peers.txt"}
    rows: dict[str, dict[str, float]] = {}
    for length in LENGTHS:
        seconds, size = _page(length)
        rows[f"{length} tokens"] = {
            "seconds": round(seconds, 3),
            "bytes": size,
            "whole_weights_bytes": 4 * LAYERS * HEADS * length**2,
        }
        if seconds > PATIENCE or size > LARGEST:
            break
    return {"layers": LAYERS, "heads": HEADS, "needs the network": True, "pages": rows}


def _page(length: int) -> tuple[float, int]:
    from bertviz import head_view

    draw = torch.Generator().manual_seed(0)
    attention = [torch.randn(1, HEADS, length, length, generator=draw).softmax(-1) for _ in range(LAYERS)]
    tokens = [f"token{n}" for n in range(length)]
    began = time.perf_counter()
    page = head_view(attention, tokens, html_action="return").data
    return time.perf_counter() - began, len(page.encode())

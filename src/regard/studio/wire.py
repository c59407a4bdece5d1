"""Answers on their way to the page: JSON for small things, raw numbers for matrices, with their shape and type in headers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from starlette.responses import Response


class Json(Response):
    """Plain ASCII, so that half a character in a token cannot break it; a number that is none becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(tidy(content), allow_nan=False, separators=(",", ":")).encode()


def tidy(content: Any) -> Any:
    """Floats to seven digits, which is all that float32 has."""
    if isinstance(content, float):
        return float(f"{content:.7g}") if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(key): tidy(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [tidy(value) for value in content]
    if isinstance(content, np.ndarray):
        return tidy(content.tolist())
    if isinstance(content, np.generic):
        return tidy(content.item())
    return content


def numbers(array: np.ndarray) -> Response:
    """Little-endian, rows last to first as numpy keeps them."""
    plain = np.ascontiguousarray(array)
    headers = {"x-shape": ",".join(map(str, plain.shape)), "x-type": str(plain.dtype)}
    return Response(plain.tobytes(), media_type="application/octet-stream", headers=headers)


def refusal(status: int, sentence: str) -> Json:
    return Json({"error": sentence}, status_code=status)

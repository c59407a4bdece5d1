"""Nothing that is not a number is ever saved: a checkpoint full of NaN would take the place of the last good one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class NonFinite(Exception):
    """A value about to be saved is NaN or infinite; the message names it."""


def require_finite_tensors(part: str, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        values = tensor.float() if tensor.itemsize == 1 else tensor  # isfinite knows no 8-bit floats
        finite = torch.isfinite(values)
        if not finite.all():
            bad = int(finite.numel() - finite.sum())
            raise NonFinite(f"{part}.{name} has {bad:,} of {finite.numel():,} values that are NaN or infinite.")


def require_finite_json(where: str, value: Any) -> None:
    """Refuse NaN and infinity, and keys that JSON would quietly turn into strings."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NonFinite(f"{where} is {value}.")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}; JSON keeps only strings as keys.")
            require_finite_json(f"{where}.{key}", inner)
    if isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            require_finite_json(f"{where}[{index}]", inner)


def finite_number(value: object) -> float | None:
    """A number as a float; None for texts, for NaN and infinity, and for integers that no float holds."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None

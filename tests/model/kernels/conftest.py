"""What the tests of kernels need: Triton's interpreter corrected, and no gradients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from regard.model.kernels.decode_step import HAS_TRITON


@pytest.fixture(autouse=True, scope="module")
def _numpy_scalars() -> Iterator[None]:
    """The interpreter takes loop bounds from arrays of one number, which numpy 2.4 no longer turns into one."""
    if not HAS_TRITON:
        yield
        return
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def with_index(tensor: type, scope: object) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = with_index
    yield
    interpreter._patch_lang_tensor = patch


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield

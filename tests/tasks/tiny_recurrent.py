"""Tiny recurrent translators, trained once: what tests of the recurrent family share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.command import RECIPE, regard, tiny

MODEL = """[model]
family = "recurrent"
width = 16
dropout = 0.1
"""


@cache
def recipe() -> Path:
    """That of the tiny translator, with another model."""
    before, _, rest = RECIPE.format(tiny().parent).partition("[model]")
    path = tiny().parent / "recurrent.toml"
    path.write_text(before + MODEL + rest[rest.index("[train]") :])
    return path


@cache
def trained(attention: str) -> Path:
    """A run of twenty steps: to be read, not changed."""
    run = tiny().parent / f"recurrent-{attention}"
    result = regard("train", recipe(), f"model.attention={attention}", "--out", run)
    assert result.code == 0, result.err
    return run

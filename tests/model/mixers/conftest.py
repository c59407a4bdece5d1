"""What the tests of mixers share."""

from __future__ import annotations

import pytest

from regard.model.mixers import causal_scan, linear


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short sequences have many chunks, in groups, in several segments."""
    monkeypatch.setattr(causal_scan, "CHUNK", 4)
    monkeypatch.setattr(linear, "CHUNK", 4)
    monkeypatch.setattr(causal_scan, "GROUP", 2)
    monkeypatch.setattr(linear, "AT_A_TIME", 2 * 2 * 12 * 4 * 20)

"""What `explain` says of a trained run, against the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.commands.explain import explain_rows, explain_tree
from regard.tasks.registry import open_run


def explained_as_it_is(run: Path) -> dict[str, Any]:
    """All of its parts together have as many parameters as the model that the run is opened with."""
    told = explain_rows(str(run), [])
    own = sum(parameter.numel() for parameter in open_run(run, "cpu").model.parameters())
    assert told["parameters"] == told["figures"]["parameters"] == own
    assert f"{own:,}" in explain_tree(str(run), [])
    return told

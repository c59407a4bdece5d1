"""The runs that a server is given: their names, and whether the files of one have changed since it was opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from regard.core.errors import UserError
from regard.core.files import read_bounded
from regard.runs.folder import Run
from regard.runs.recipe import HUB
from regard.tasks.registry import is_public
from regard.training.checkpoint_files import MANIFEST


def labelled(names: Sequence[str], verb: str, settings: Sequence[str] = ()) -> dict[str, str]:
    """Return runs by the name of their folder, or as they were given if two have the same. None given: all in runs/.

    Settings that a run does not take are refused here, before a server starts.
    """
    if not names:
        names = [str(path.parent) for path in sorted(Path("runs").glob("*/recipe.toml"))]
        if not names:
            raise UserError(f"there is no run in runs/ yet; make one with 'regard demo', or give a run: 'regard {verb} RUN'.")
    for name in names:
        if not is_public(name):
            run = Run.open(name)
            if settings:
                run.recipe_with(settings)
    short = [name if name.startswith(HUB) else Path(name).resolve().name for name in names]
    labels = [label if short.count(label) == 1 else name for label, name in zip(short, names)]
    return dict(zip(labels, names))


def run_version(name: str) -> str | None:
    """Return a hash of weights and settings, not of times: a copy in the same place is the same run. None: it cannot be read."""
    if name.startswith(HUB):
        return ""
    try:
        content = _public_files(Path(name)) if is_public(name) else _run_files(Run.open(name))
    except (OSError, UserError):
        return None
    return hashlib.sha256(content).hexdigest()[:20]


def _run_files(run: Run) -> bytes:
    """The settings, and the manifest of the weights that would be opened: it has the sha256 of every one of their files."""
    saved = run.folder / "checkpoints"
    kinds = [sorted(path.name for path in saved.glob(f"{kind}-*")) for kind in ("average", "best", "step")]
    newest = next((names[-1] for names in kinds if names), None)
    manifest = b"" if newest is None else read_bounded(saved / newest / MANIFEST)
    return b"\0".join([read_bounded(run.folder / "recipe.toml"), str(newest).encode(), manifest])


def _public_files(folder: Path) -> bytes:
    """Identify public files by name and size: hashing takes minutes, and they are only replaced as a whole."""
    files = sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")])
    return repr([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]).encode()

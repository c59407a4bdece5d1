"""The checkpoint store: one folder per saved state, complete or absent; the reader takes the newest that verifies.

`checkpoints/step-00000400/` holds `model.safetensors`, `optimizer.safetensors` and other tensors, `state.json` (counters,
hyperparameters) and `MANIFEST.json`. `core/atomic.py` makes a folder appear all at once, `checkpoint_files.py` writes and
verifies its files, also from several processes. Nothing is ever unpickled.

NaN and infinity are never saved: a checkpoint full of NaN would replace the last good one.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import __version__
from regard.core.atomic import atomic_folder, discard, explain_os_errors, flush_file, list_complete, make_folder, sweep
from regard.core.errors import UserError, nearest
from regard.training.checkpoint_files import (
    Damaged,
    canonical,
    is_sharded,
    parts_of,
    read_json,
    read_shards,
    read_tensors,
    seal,
    verify,
    write_tensors,
    write_text,
)

STATE = "state.json"
_TENSORS = ".safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A verified saved state. `tensors` reads from its folder: call it before `save` or `keep` deletes the folder."""

    path: Path
    kind: str
    step: int
    state: dict[str, Any]

    @property
    def sharded(self) -> bool:
        """Return whether several processes wrote it, each a part."""
        return is_sharded(self.path)

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors saved under this name, unsharded and on the CPU."""
        path = self.path / f"{name}{_TENSORS}"
        with explain_os_errors(f"Reading the checkpoint {self.path.name}", self.path.parent):
            known = parts_of(self.path) if self.sharded else [path.stem for path in self.path.glob(f"*{_TENSORS}")]
            if name not in known:
                raise UserError(f"The checkpoint {self.path} holds no tensors called {name!r}{nearest(name, known)}")
            return read_shards(self.path, name) if self.sharded else read_tensors(path)


class Store:
    """The checkpoints of one run, in `runs/NAME/checkpoints`."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print) -> None:
        self.folder = folder
        self._say = say
        self._said: set[str] = set()

    def save(
        self,
        kind: str,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        write: Callable[[Path], None] | None = None,
    ) -> Path:
        """Write one checkpoint; when this returns it survives a power cut. Until then the old state of the folder is kept.

        `write` may add more files, which it has flushed, before the folder is sealed.
        """
        for name in (kind, *tensors):
            if not (name.isidentifier() and name.isascii()):
                raise ValueError(f"{name!r} cannot name a checkpoint or a file of one; use letters, digits and _.")
        if step < 0:
            raise ValueError(f"A checkpoint's step is 0 or more, not {step}.")
        for part, named in tensors.items():
            require_finite_tensors(part, named)
        require_finite_json("state", state)
        text = canonical(dict(state))
        final = self.folder / _name(kind, step)
        with explain_os_errors(f"Saving the checkpoint {final.name}", self.folder):
            make_folder(self.folder)
            sweep(self.folder)
            with atomic_folder(final) as draft:
                write_text(draft / STATE, text)
                for part, named in tensors.items():
                    path = draft / f"{part}{_TENSORS}"
                    write_tensors(path, named)
                    shutil.copymode(draft / STATE, path)
                    flush_file(path)
                if write is not None:
                    write(draft)
                seal(draft, {"kind": kind, "step": step, "regard": __version__, "torch": torch.__version__})
        return final

    def newest(self, *kinds: str) -> Checkpoint | None:
        """Return the latest good checkpoint of these kinds (default: any kind); at equal steps, of the kind named first."""
        rejected = {}
        for place in self._places(*kinds):
            try:
                checkpoint = _read(place)
            except Damaged as damage:
                rejected[place.name] = str(damage)
                continue
            self._report(rejected, f"using {place.name} instead.")
            return checkpoint
        self._report(rejected, "no other is left.")
        return None

    def names(self) -> list[str]:
        """Return the names of all checkpoints, oldest first; not yet verified."""
        return [place.name for place in reversed(self._places())]

    def named(self, name: str) -> Checkpoint:
        """Return the checkpoint of this name; leading zeros of its step may be left out."""
        kind, _, digits = name.rpartition("-")
        found = [place for place in self._places(kind) if digits.isdecimal() and place.step == int(digits)]
        if not found:
            raise UserError(f"there is no checkpoint {name!r} in {self.folder}; kept are {', '.join(self.names()) or 'none'}.")
        try:
            return _read(found[0])
        except Damaged as damage:
            raise UserError(f"{found[0].path} is damaged ({damage}); choose another: {', '.join(self.names())}.") from None

    def all(self, kind: str) -> list[Checkpoint]:
        """Return every good checkpoint of a kind, oldest first."""
        good, rejected = [], {}
        for place in self._places(kind):
            try:
                good.append(_read(place))
            except Damaged as damage:
                rejected[place.name] = str(damage)
        self._report(rejected, "leaving it out.")
        return good[::-1]

    def keep(self, kind: str, count: int) -> None:
        """Delete all but the newest `count` of a kind; never the newest good one, however many newer are damaged."""
        if count < 1:
            raise UserError(f"Keeping {count} checkpoints would delete the last one; keep 1 or more.")
        places = self._places(kind)
        if len(places) <= count:
            return
        good = next(filter(_is_good, places), None)  # usually the first, so one folder is read, not all
        if good is None:
            return  # a person may still repair one by hand
        with explain_os_errors("Deleting old checkpoints", self.folder):
            for place in reversed(places[count:]):
                if place != good:
                    discard(place.path)

    def _places(self, *kinds: str) -> list[_Place]:
        """Return the places of checkpoints, newest first; not yet verified."""
        with explain_os_errors("Looking for checkpoints", self.folder):
            found = list_complete(self.folder)
        places = [place for name, path in found.items() if (place := _parse(name, path))]
        order = {kind: rank for rank, kind in enumerate(kinds or sorted({place.kind for place in places}))}
        chosen = [place for place in places if place.kind in order]
        return sorted(chosen, key=lambda place: (-place.step, order[place.kind]))

    def _report(self, rejected: Mapping[str, str], consequence: str) -> None:
        for name, reason in rejected.items():
            fault = f"{self.folder.name}/{name} is damaged ({reason})"
            if fault not in self._said:
                self._said.add(fault)
                self._say(f"{fault}; {consequence}")


@dataclass(frozen=True)
class _Place:
    """A folder that is named like a checkpoint."""

    name: str
    kind: str
    step: int
    path: Path


def _name(kind: str, step: int) -> str:
    return f"{kind}-{step:08d}"


def _parse(name: str, path: Path) -> _Place | None:
    kind, _, digits = name.rpartition("-")
    if not (digits.isascii() and digits.isdecimal()) or name != _name(kind, int(digits)):
        return None
    return _Place(name, kind, int(digits), path)


def _read(place: _Place) -> Checkpoint:
    manifest = verify(place.path)
    if (manifest.get("kind"), manifest.get("step")) != (place.kind, place.step):
        raise Damaged("the manifest is of another checkpoint")
    state = read_json(place.path / STATE)
    if not isinstance(state, dict):
        raise Damaged(f"{STATE}: not an object")
    return Checkpoint(place.path, place.kind, place.step, state)


def _is_good(place: _Place) -> bool:
    try:
        _read(place)
    except Damaged:
        return False
    return True


class NonFinite(Exception):
    """A value about to be saved is NaN or infinite; the message names it."""


def require_finite_tensors(part: str, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        values = tensor.float() if tensor.itemsize == 1 else tensor  # isfinite does not support 8-bit floats
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
    """Return a number as a float; None for text, NaN, infinity, and integers too large for a float."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None

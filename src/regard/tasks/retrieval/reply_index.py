"""The index of a retriever: replies with their contexts (`replies.jsonl`), and their vectors (`index.safetensors`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.files import write_whole
from regard.core.terminal import print_stderr
from regard.data.sources.dialogues import Exchange, read_dialogues
from regard.runs.folder import Run
from regard.training.checkpoint_files import fingerprint, read_tensors, write_tensors

REPLIES, INDEX = "replies.jsonl", "index.safetensors"
MANIFEST = "MANIFEST.json"


@dataclass(frozen=True)
class ReplyIndex:
    exchanges: tuple[Exchange, ...]

    @classmethod
    def of(cls, exchanges: Sequence[Exchange]) -> ReplyIndex:
        """Each once, in their order."""
        return cls(tuple(dict.fromkeys(exchanges)))

    @classmethod
    def load(cls, path: Path) -> ReplyIndex:
        if not path.is_file():
            raise UserError(
                f"There are no replies at {path}. Copy them back, or make them again by the same 'regard train' command."
            )
        return cls.of([Exchange(dialogue.turns[:-1], dialogue.turns[-1]) for dialogue in read_dialogues([str(path)])])

    def save(self, path: Path) -> None:
        """Write dialogues, one on each line, whose last turn is the reply."""
        lines = (json.dumps({"turns": [*e.context, e.reply]}, ensure_ascii=False) for e in self.exchanges)
        write_whole(path, "".join(f"{line}\n" for line in lines))

    def __len__(self) -> int:
        return len(self.exchanges)

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.exchanges).encode()).hexdigest()


def indexed(run: Run, key: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Vectors of the run by the key of what they were made of; made, and kept, where it has none or those of something else."""
    path = run.folder / INDEX
    name = hashlib.sha256(f"{fingerprint(run.weights().path / MANIFEST)} {key}".encode()).hexdigest()
    try:
        found = read_tensors(path).get(name) if path.is_file() else None
    except UserError:  # half a file: it is made again
        found = None
    if found is not None:
        return found.numpy()
    made = make()
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_tensors(temporary, {name: torch.from_numpy(made)})
        temporary.replace(path)
    except OSError as error:
        print_stderr(f"{path} cannot be written ({error.strerror}), so its vectors are computed again each time")
    return made

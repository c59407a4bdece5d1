"""The loop that a careful user writes around any model: texts of like length together, padded to the longest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tokenizers

Run = Callable[[np.ndarray, np.ndarray], np.ndarray]  # ids and mask to logits


class Careful:
    def __init__(self, folder: Path, run: Run) -> None:
        self.tokenizer, self.run = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), run
        self.tokenizer.no_padding()

    def __call__(self, texts: Sequence[str], batch: int) -> np.ndarray:
        """Probabilities, in the order of the texts."""
        rows = [encoded.ids for encoded in self.tokenizer.encode_batch_fast(list(texts))]
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found: list[np.ndarray | None] = [None] * len(rows)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            lengths = np.array([len(rows[n]) for n in chosen])
            mask = np.arange(lengths.max()) < lengths[:, None]
            ids = np.zeros(mask.shape, np.int64)
            ids[mask] = np.concatenate([rows[n] for n in chosen])
            for n, logits in zip(chosen, self.run(ids, mask.astype(np.int64))):
                found[n] = logits
        return softmax(np.array(found))


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities: np.ndarray = raised / raised.sum(-1, keepdims=True)
    return probabilities

"""What was taken for what: a table of true rows and said columns, or where it would be too wide, the most frequent confusions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WIDE = 12  # classes: up to here the whole table is shown


def confusion_lines(labels: Sequence[str], confusion_CC: np.ndarray) -> list[str]:
    """For the terminal."""
    if len(labels) > WIDE:
        return _most_frequent(labels, confusion_CC)
    width = max(5, *(len(label) for label in labels))
    header = "  ".join(f"{label:>6}" for label in labels)
    rows = ["  ".join(f"{n:>{max(6, len(label))},}" for n, label in zip(row, labels)) for row in confusion_CC]
    return [f"{'said:':<{width}}  {header}", *(f"{label:<{width}}  {row}" for label, row in zip(labels, rows))]


def _most_frequent(labels: Sequence[str], confusion_CC: np.ndarray) -> list[str]:
    wrong = confusion_CC - np.diag(confusion_CC.diagonal())
    places = [divmod(int(n), len(labels)) for n in np.argsort(-wrong, axis=None, kind="stable")[:WIDE]]
    return [f"{wrong[t, s]:,} x {labels[t]} taken for {labels[s]}" for t, s in places if wrong[t, s]]

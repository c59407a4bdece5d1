"""A metric of your own: the length of translations relative to their references.

    regard evaluate runs/translate --plugin examples/metric.py

A metric gets all outputs and the test set as the task reads it; for translation, pairs with `source` and `target`.
"""

from collections.abc import Sequence
from typing import Any

import regard


def length_ratio(outputs: Sequence[str], test: Sequence[Any]) -> float:
    """Return output words per reference word."""
    return sum(len(text.split()) for text in outputs) / sum(len(pair.target.split()) for pair in test)


regard.register.metric("length_ratio", length_ratio, tasks=["translation"])

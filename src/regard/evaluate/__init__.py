"""How good outputs are, in figures that others can compare with theirs."""

from __future__ import annotations

from regard.evaluate.bleu import Scores, corpus_scores

__all__ = ["Scores", "corpus_scores"]

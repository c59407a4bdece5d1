"""Dialogue scores: perplexity, diversity, similarity to the true reply, and its rank among others.

perplexity     of the true replies, by token, end token counted; for generative models
distinct-n     share of distinct n-grams among all n-grams of the replies (Li et al. 2016); words are separated by spaces
BLEU, exact    the model's reply against the true one
recall@k       the true reply is among the k best of ten: itself and nine others of the test set, drawn with a fixed seed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from regard.core.rng import generator
from regard.data.batching.pairs import EncodedPairs, cuts, make_batch
from regard.metrics.bleu import corpus_scores
from regard.objectives.base import Model
from regard.text.specials import PAD

CANDIDATES = 10
RECALLS = (1, 2, 5)
SEED = 10  # of the candidates, the same for all models


@dataclass(frozen=True, kw_only=True)
class DialogueScores:
    """Scores of replies."""

    replies: int
    recall: Mapping[int, float]  # from 0 to 1, by k
    candidates: int
    distinct: tuple[float, float]  # of single words, and of two
    bleu: float
    exact: float  # percent
    perplexity: float | None = None

    def lines(self) -> list[str]:
        recall = "  ".join(f"@{k} {share:.3f}" for k, share in self.recall.items())
        likely = [] if self.perplexity is None else [f"perplexity   {self.perplexity:8.2f}  a token of the true replies"]
        return [
            *likely,
            f"recall       {recall}  of {self.replies:,} true replies, each among {self.candidates}",
            f"BLEU         {self.bleu:8.2f}  exact match {self.exact:.2f}%",
            f"distinct-1   {self.distinct[0]:8.4f}  distinct-2 {self.distinct[1]:.4f}",
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "replies": self.replies,
            "perplexity": self.perplexity,
            **{f"recall_{k}": share for k, share in self.recall.items()},
            "candidates": self.candidates,
            "bleu": self.bleu,
            "exact": self.exact,
            "distinct_1": self.distinct[0],
            "distinct_2": self.distinct[1],
        }


def score_replies(
    outputs: Sequence[str], replies: Sequence[str], scores_NC: np.ndarray, perplexity: float | None = None
) -> DialogueScores:
    """Return the scores of outputs against true replies; `scores_NC` scores the candidates, the true reply first."""
    said = corpus_scores(outputs, replies)
    return DialogueScores(
        replies=len(replies),
        recall=recalls(scores_NC),
        candidates=scores_NC.shape[1],
        distinct=(distinct(outputs, 1), distinct(outputs, 2)),
        bleu=said.bleu,
        exact=said.exact,
        perplexity=perplexity,
    )


def distinct(texts: Sequence[str], n: int) -> float:
    """Return the share of distinct n-grams; 0 where there are none."""
    grams = [tuple(words[i : i + n]) for words in map(str.split, texts) for i in range(len(words) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def candidates(replies: Sequence[str], count: int = CANDIDATES, seed: int = SEED) -> np.ndarray:
    """Return rows_NC: the number of each reply, then those of others with a different text, as many as there are.

    The same replies have the same candidates for every model.
    """
    numbers = {text: number for number, text in reversed(list(enumerate(replies)))}  # the first that says it
    texts = np.array(sorted(numbers.values()))
    own = np.array([numbers[text] for text in replies])
    others = min(count, len(texts)) - 1
    found = np.empty((len(replies), others + 1), np.int64)
    for row, number in enumerate(own):
        # One more than is needed: the true reply may be among them.
        drawn = generator(seed, "candidates", row).choice(texts, others + 1, replace=False) if others else texts[:0]
        found[row] = [number, *drawn[drawn != number][:others]]
    return found


def recalls(scores_NC: np.ndarray, ks: Sequence[int] = RECALLS) -> dict[int, float]:
    """Return how often the first candidate is among the k best; ties count against it."""
    rank_N = (scores_NC[:, 1:] >= scores_NC[:, :1]).sum(1)
    return {k: float((rank_N < k).mean()) for k in ks if k < scores_NC.shape[1]}


@torch.no_grad()
def log_likelihoods(model: Model, pairs: EncodedPairs, budget: int) -> np.ndarray:
    """Return log p of each target with its <eos>, given its source; `budget` is the padded size of a batch."""
    found, device = np.zeros(len(pairs)), next(model.parameters()).device  # type: ignore[attr-defined]
    longest = np.maximum(pairs.source.lengths, pairs.target.lengths) + 1
    order = np.argsort(longest, kind="stable")
    for begin, end in cuts(longest[order], budget):
        rows = order[begin:end]
        batch = make_batch(pairs, rows).to(device)
        logits_BVL = model.head(model.hidden(*batch.inputs)).float().mT
        nats_BL = F.cross_entropy(logits_BVL, batch.target_out_BL, ignore_index=PAD, reduction="none")
        found[rows] = -nats_BL.double().sum(1).cpu().numpy()
    return found


def perplexity(log_likelihoods_N: np.ndarray, tokens: int) -> float:
    """Return the perplexity of texts with this many tokens; infinity where it overflows."""
    nats = -float(log_likelihoods_N.sum()) / tokens
    return exp(nats) if nats < 700 else float("inf")

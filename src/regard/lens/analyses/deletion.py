"""Deletion test of explanations: take words away in the order of an explanation and measure how fast the loss rises.

An explanation that ranks words by what they matter should, by its first words, take most from the log-likelihood of what the
model says (a deletion test; Samek et al. 2017). The area under the curve is the mean loss over all numbers of words taken: the
larger, the better the explanation. Beside it stand orders drawn at random, which know nothing, and the order of what each word
takes away when it alone is gone, which has asked the model itself. A word is taken by taking its vector; its place stays.

Dims: B copies, N words that can be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.gradients import gradient_times_input, input_side, integrated_gradients, word_shares
from regard.lens.analyses.image_attention import begin_of, rolled_out
from regard.lens.analyses.image_relevance import relevances
from regard.lens.analyses.rollout import flow, mean_weights, rollout
from regard.lens.display import report
from regard.lens.plots import charts
from regard.lens.plots.charts import Curve
from regard.lens.result import NotebookView
from regard.lens.subject import Subject

COPIES = 32
DRAWS = 20
RANDOM, ALONE, RELEVANCE = "random order", "each word alone", "relevance"
Explain = Callable[[Subject, str], np.ndarray]
"""Map a subject and the stack whose words are ranked to a number for each token."""


def _attention(subject: Subject, stack: str) -> np.ndarray:
    """Return the mean weight on each token, over all heads, queries and layers that attend to it."""
    seen = subject.record()
    looking = [name for name in seen if subject.around(name)[1] is subject.sides[stack]]
    return np.mean([mean_weights(seen[name]).mean(0) for name in looking], axis=0)


def _rollout(subject: Subject, stack: str) -> np.ndarray:
    """Return the share of each token in all places; of an image, in what the head reads."""
    if subject.image is None or subject.outputs is not None:
        return rollout(subject).of(stack)
    seen = subject.record()
    return rolled_out(subject, seen, begin_of(subject, seen))[-1]


def _relevance(subject: Subject, stack: str) -> np.ndarray:
    """Return the relevance of each patch of an image for the class that is scored."""
    return np.asarray(relevances(subject)[1](int(subject.targets_L[0])))


EXPLANATIONS: Mapping[str, Explain] = {
    "attention": _attention,
    "rollout": _rollout,
    RELEVANCE: _relevance,
    "flow": lambda subject, stack: flow(subject).of(stack),
    "gradient × input": lambda subject, stack: gradient_times_input(subject).of(stack),
    "integrated gradients": lambda subject, stack: integrated_gradients(subject, steps=16).of(stack),
}


@dataclass(frozen=True)
class Deletion(NotebookView):
    """Rise of the nll by explanation, after each share of the words is taken away."""

    FORMAT = "regard.deletion.1"
    title: str
    texts: int
    shares: tuple[float, ...]
    curves: Mapping[str, tuple[float, ...]]
    spread: tuple[float, ...]  # of random orders: standard deviation over draws
    areas: Mapping[str, float]
    chance: tuple[float, float]  # mean and standard deviation of the area over random orders
    left_out: Mapping[str, str]  # explanations that a text was too long for, and what they said

    @property
    def best(self) -> str:
        return max((name for name in self.areas if name not in (RANDOM, ALONE)), key=lambda name: self.areas[name])

    @property
    def verdict(self) -> str:
        mean, deviation = self.chance
        clear = self.areas[self.best] - mean > 2 * deviation
        return f"{self.best} predicts the model best" if clear else "no explanation does clearly better than chance"

    def lines(self) -> list[str]:
        mean, deviation = self.chance
        rows = [
            [name, area, area / mean if mean > 0 else None, (area - mean) / deviation if deviation > 0 else None]
            for name, area in sorted(self.areas.items(), key=lambda item: -item[1])
        ]
        texts = f"{self.texts} text{'s' if self.texts > 1 else ''}"
        told = f"words taken away in the order of each explanation; {texts}: {self.verdict}"
        left_out = [f"{name} is left out: {reason}" for name, reason in self.left_out.items()]
        return report(self.title, told, ["order", "mean more nll", "× random", "deviations above"], rows) + left_out

    def figure(self) -> Figure:
        found = {
            name: Curve(self.shares, ys, self.spread if name == RANDOM else None)
            for name, ys in sorted(self.curves.items(), key=lambda item: -self.areas[item[0]])
        }
        caption = f"{self.verdict}; shaded: a standard deviation of random orders"
        return charts.curves(self.title, caption, found, "share of words taken away", "more nll")

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | {"best": self.best}


def deletion(subjects: Sequence[Subject], explanations: Mapping[str, Explain] = EXPLANATIONS, draws: int = DRAWS) -> Deletion:
    """Test explanations on one text, or as the mean over several. One that a text is too long for is left out with a note."""
    if not subjects:
        raise UserError("there is no text to take words from; give one.")
    shares = np.linspace(0, 1, 11)
    found: dict[str, list[np.ndarray]] = {}
    left_out: dict[str, str] = {}
    chances, areas = list[np.ndarray](), list[np.ndarray]()
    for subject in subjects:
        curves, random_DC = _curves(subject, explanations, draws, shares, left_out)
        for name, curve in curves.items():
            found.setdefault(name, []).append(curve)
        chances.append(random_DC)
        areas.append(random_DC.mean(1))
    complete = {name: np.mean(curves, axis=0) for name, curves in found.items() if name not in left_out}
    random_DC, areas_D = np.mean(chances, axis=0), np.mean(areas, axis=0)
    complete[RANDOM] = random_DC.mean(0)
    title = subjects[0].title if len(subjects) == 1 else f"{subjects[0].title}, and {len(subjects) - 1} more"
    return Deletion(
        title=title,
        texts=len(subjects),
        shares=tuple(shares.tolist()),
        curves={name: tuple(curve.tolist()) for name, curve in complete.items()},
        spread=tuple(random_DC.std(0).tolist()),
        areas={name: float(curve.mean()) for name, curve in complete.items()},
        chance=(float(areas_D.mean()), float(areas_D.std())),
        left_out=left_out,
    )


def _curves(
    subject: Subject, explanations: Mapping[str, Explain], draws: int, shares: np.ndarray, left_out: dict[str, str]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return a curve for each explanation and for random orders, at these shares of the words."""
    stack, side = input_side(subject)
    takeable = [n for n, special in enumerate(side.special) if not special]
    if len(takeable) < 2:
        raise UserError(f"{subject.title[:60]!r} has fewer than two words that could be taken away; give a longer text.")
    base = float(subject.nll().item())
    alone = _losses(subject, stack, [[n] for n in takeable]) - base
    scores = {ALONE: alone}
    for name, explain in explanations.items():
        if name == RELEVANCE and (subject.image is None or subject.outputs is not None):
            continue  # it is of the class of an image
        try:
            scores[name] = explain(subject, stack)[takeable]
        except UserError as error:
            left_out[name] = str(error)
    orders = {name: [takeable[n] for n in np.argsort(-score, kind="stable")] for name, score in scores.items()}
    draw = np.random.default_rng(0)
    orders |= {f"{RANDOM} {d}": draw.permutation(takeable).tolist() for d in range(draws)}
    curves = {}
    places = np.linspace(0, 1, len(takeable) + 1)
    for name, order in orders.items():
        losses = _losses(subject, stack, [order[:count] for count in range(len(order) + 1)]) - base
        curves[name] = np.interp(shares, places, losses)
    chance = np.stack([curves.pop(f"{RANDOM} {d}") for d in range(draws)])
    return curves, chance


@torch.no_grad()
def _losses(subject: Subject, stack: str, gone: Iterable[Sequence[int]]) -> np.ndarray:
    """nll of the subject's targets without each of these sets of words."""
    sets, length, found = list(gone), len(subject.sides[stack]), []
    for start in range(0, len(sets), COPIES):
        batch = sets[start : start + COPIES]
        shares_BL = torch.ones(len(batch), length)
        for row, words in enumerate(batch):
            shares_BL[row, list(words)] = 0
        with word_shares(subject, {stack: shares_BL}):
            found.append(subject.nll(len(batch)).float().cpu().numpy())
    return np.concatenate(found)

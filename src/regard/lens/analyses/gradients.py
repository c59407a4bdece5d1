"""Attribution by gradients: gradient × input, and integrated gradients, summed on the way from no words to all.

Gradient × input multiplies each word's vector by the slope of the prediction's log-probability there. Integrated gradients
(Sundararajan, Taly & Yan 2017) take the mean slope along the straight way from a text without words, whose positions stay, to the
text. Their sum is what the words add to the log-probability (completeness); how much is missing is shown, for that is the error
of the sum that stands for the integral.

Dims: P predictions, N tokens of all stacks together, B copies, L output positions, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.lens.analyses.input_masking import word_shares
from regard.lens.display import Cell, brief, sentence, table, visible
from regard.lens.plots import charts
from regard.lens.plots.charts import Grid
from regard.lens.result import NotebookView
from regard.lens.subject import Subject

COPIES = 32
STEPS = 64
NAMED = 4


@dataclass(frozen=True)
class Attribution(NotebookView):
    """A number for every prediction and every token that was read."""

    title: str
    method: str
    predictions: tuple[str, ...]
    tokens: tuple[str, ...]
    stacks: tuple[str, ...]  # of each token, which stack read it
    values_PN: np.ndarray
    logprobs: tuple[float, ...]  # of the predictions
    missing: tuple[float, ...] | None = None  # of completeness, by prediction: what words add, less the sum of the values

    def of(self, stack: str) -> np.ndarray:
        """Return for each token of a stack the sum of absolute attributions over all predictions."""
        return np.abs(self.values_PN[:, [n for n, own in enumerate(self.stacks) if own == stack]]).sum(0)

    def lines(self) -> list[str]:
        rows: list[list[Cell]] = []
        for prediction, logprob, values_N in zip(self.predictions, self.logprobs, self.values_PN):
            order = np.argsort(-np.abs(values_N), kind="stable")[:NAMED]
            strongest = " · ".join(f"{visible(self.tokens[n])} {brief(values_N[n], signed=True)}" for n in order if values_N[n])
            rows.append([visible(prediction), logprob, strongest])
        told = [sentence(self.title), f"{self.method}: what each word adds to the log-probability of what is said"]
        if self.missing is not None:
            told += [f"completeness: the sums miss what the words add by at most {brief(max(map(abs, self.missing)), 3)} nats"]
        return [*told, "", *table(["prediction", "log p", "strongest words"], rows)]

    def figure(self) -> Figure:
        caption = f"{self.method}: predictions down, words across{told_apart(self.stacks)}"
        down, across = ([visible(name) for name in names] for names in (self.predictions, self.tokens))
        return charts.grid(self.title, caption, Grid(self.values_PN, down, across, signed=True, parted=parted(self.stacks)))

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": "regard.attribution.1",
            "title": self.title,
            "method": self.method,
            "predictions": list(self.predictions),
            "tokens": list(self.tokens),
            "stacks": list(self.stacks),
            "values": self.values_PN,
            "logprobs": list(self.logprobs),
            "missing": None if self.missing is None else list(self.missing),
        }


def parted(stacks: Sequence[str]) -> list[int]:
    """Return the places where one stack's tokens end and another's begin."""
    return [n for n in range(1, len(stacks)) if stacks[n] != stacks[n - 1]]


def told_apart(stacks: Sequence[str]) -> str:
    return "; right of the line, words already written" if parted(stacks) else ""


def gradient_times_input(subject: Subject) -> Attribution:
    scored = scored_positions(subject)
    values, logprobs = _slopes(subject, scored, torch.ones(len(scored)))
    return _attribution(subject, scored, "gradient × input", values, logprobs)


def integrated_gradients(subject: Subject, steps: int = STEPS) -> Attribution:
    """Integrate at the middles of `steps` parts of the way; parts are short where the predictions change much."""
    if steps < 1:
        raise UserError(f"{steps} steps lead nowhere; give 1 or more.")
    scored = scored_positions(subject)
    edges, logprobs_EP = _parts(subject, scored, steps)
    middles_S, widths_S = (edges[1:] + edges[:-1]) / 2, edges.diff()
    positions = [position for position in scored for _ in range(steps)]
    slopes, _ = _slopes(subject, positions, middles_S.repeat(len(scored)), whole=True)
    values_PN = (slopes.reshape(len(scored), steps, -1) * widths_S.numpy()[:, None]).sum(1)
    missing_P = (logprobs_EP[-1] - logprobs_EP[0]).numpy() - values_PN.sum(1)
    return _attribution(subject, scored, f"integrated gradients, {steps} steps", values_PN, logprobs_EP[-1].numpy(), missing_P)


def _parts(subject: Subject, scored: Sequence[int], steps: int) -> tuple[Tensor, Tensor]:
    """Edges of as many parts of the way from 0 to 1, and the log-probabilities at each: those that change most are halved."""
    edges = torch.tensor([0.0, 1.0])
    logprobs_EP = _logprobs(subject, edges)[:, scored]
    while (more := min(steps + 1 - len(edges), max(1, len(edges) // 8))) > 0:
        change = logprobs_EP.diff(dim=0).abs().amax(1) + edges.diff()  # long parts are halved too, where nothing changes
        chosen = change.topk(more).indices
        middles = (edges[chosen] + edges[chosen + 1]) / 2
        edges = torch.cat([edges, middles])
        logprobs_EP = torch.cat([logprobs_EP, _logprobs(subject, middles)[:, scored]])
        order = edges.argsort()
        edges, logprobs_EP = edges[order], logprobs_EP[order]
    return edges, logprobs_EP


def scored_positions(subject: Subject) -> list[int]:
    found = (subject.targets_L != IGNORED).nonzero().flatten().tolist()
    if not found:
        raise UserError("there is nothing that this text could be scored on; give more of it, or what should follow it.")
    return found


def predictions(subject: Subject, positions: Sequence[int]) -> tuple[str, ...]:
    return tuple(subject.choices(int(subject.targets_L[position])) for position in positions)


def _attribution(
    subject: Subject,
    scored: Sequence[int],
    method: str,
    values_PN: np.ndarray,
    logprobs_P: np.ndarray,
    missing_P: np.ndarray | None = None,
) -> Attribution:
    stacks = tuple(stack for stack, side in subject.sides.items() for _ in side.tokens)
    tokens = tuple(token for side in subject.sides.values() for token in side.tokens)
    missing = None if missing_P is None else tuple(missing_P.tolist())
    return Attribution(
        subject.title, method, predictions(subject, scored), tokens, stacks, values_PN, tuple(logprobs_P.tolist()), missing
    )


def _slopes(
    subject: Subject, positions: Sequence[int], shares_P: Tensor, *, whole: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Slope × vector of every token and the log-probability, for each pair of an output position and a share of the words.

    A copy each, so that one backward pass answers for all of them. `whole`: times the whole vector, not its share.
    """
    values, logprobs = [], []
    for start in range(0, len(positions), COPIES):
        chosen, shares_B = positions[start : start + COPIES], shares_P[start : start + COPIES]
        given = {stack: shares_B[:, None].expand(-1, len(side)) for stack, side in subject.sides.items()}
        with torch.enable_grad(), word_shares(subject, given) as entered:
            logits_BLV = subject.forward(len(chosen))
            logprob_B = _chosen_logprobs(logits_BLV, subject, chosen)
            vectors = [entered[stack] for stack in subject.sides]
            slopes = torch.autograd.grad(logprob_B.sum(), vectors)
        parts = [(slope * vector.detach()).float().sum(-1) for slope, vector in zip(slopes, vectors)]
        values_BN = torch.cat(parts, 1).cpu()
        values.append(values_BN / shares_B[:, None] if whole else values_BN)
        logprobs.append(logprob_B.detach().cpu())
    return torch.cat(values).numpy(), torch.cat(logprobs).numpy()


def _chosen_logprobs(logits_BLV: Tensor, subject: Subject, positions: Sequence[int]) -> Tensor:
    """Copy b answers for output position positions[b]."""
    rows_B, places_B = torch.arange(len(positions)), torch.tensor(positions)
    targets_B = subject.targets_L[places_B].to(logits_BLV.device)
    return logits_BLV[rows_B, places_B].float().log_softmax(-1)[rows_B, targets_B]


@torch.no_grad()
def _logprobs(subject: Subject, shares_B: Tensor) -> Tensor:
    """logprobs_BL of every target, IGNORED ones as anything, when words enter by each of these shares."""
    given = {stack: shares_B[:, None].expand(-1, len(side)) for stack, side in subject.sides.items()}
    with word_shares(subject, given):
        logits_BLV = subject.forward(len(shares_B)).float().cpu()
    targets_BL1 = subject.targets_L.clamp(min=0).expand(len(shares_B), -1)[..., None]
    return logits_BLV.log_softmax(-1).gather(-1, targets_BL1)[..., 0]

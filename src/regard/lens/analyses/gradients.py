"""Attribution by gradients: gradient × input, and integrated gradients, summed on the way from no words to all.

Gradient × input multiplies each word's vector by the slope of the prediction's log-probability there. Integrated gradients
(Sundararajan, Taly & Yan 2017) take the mean slope along the straight way from a text without words, whose positions stay, to the
text. Their sum is what the words add to the log-probability (completeness); how much is missing is shown, for that is the error
of the sum that stands for the integral.

Words are taken away, or let in by degrees, by the one change to its input that every family understands: the vector of a token is
multiplied by a share before its position is added. 1 is the text as it is, 0 a place where no word stands. Each copy in a batch
has its own shares, so that a text is asked many times in one pass; and gradients arrive at the vectors.

Dims: P predictions, N tokens of all stacks together, B copies, L output positions or tokens, V choices, D width of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.families import family_of
from regard.lens.display import Cell, brief, sentence, table, visible
from regard.lens.plots import charts
from regard.lens.plots.charts import Grid
from regard.lens.result import NotebookView
from regard.lens.subject import Subject, TokenRow
from regard.model.embedding import Embed

COPIES = 32
STEPS = 64
NAMED = 4


@dataclass(frozen=True)
class Attribution(NotebookView):
    """A number for every prediction and every token that was read."""

    FORMAT = "regard.attribution.1"
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
            rows.append([visible(prediction), logprob, strongest(self.tokens, values_N, signed=True)])
        told = [sentence(self.title), f"{self.method}: what each word adds to the log-probability of what is said"]
        if self.missing is not None:
            told += [f"completeness: the sums miss what the words add by at most {brief(max(map(abs, self.missing)), 3)} nats"]
        return [*told, "", *table(["prediction", "log p", "strongest words"], rows)]

    def figure(self) -> Figure:
        caption = f"{self.method}: predictions down, words across"
        return word_grid(self.title, caption, self.values_PN, self.predictions, self.tokens, self.stacks, signed=True)


def strongest(tokens: Sequence[str], values_N: np.ndarray, *, signed: bool = False) -> str:
    """Name the tokens with the largest numbers."""
    order = np.argsort(-np.abs(values_N), kind="stable")[:NAMED]
    return " · ".join(f"{visible(tokens[n])} {brief(values_N[n], signed=signed)}" for n in order if values_N[n])


def word_grid(
    title: str, caption: str, values: np.ndarray, down: Sequence[str], words: Sequence[str], stacks: Sequence[str], signed: bool
) -> Figure:
    """Draw a number for every word that was read, with a line between those of one stack and of the next."""
    parted = [n for n in range(1, len(stacks)) if stacks[n] != stacks[n - 1]]
    apart = "; right of the line, words already written" if parted else ""
    rows, columns = ([visible(name) for name in names] for names in (down, words))
    return charts.grid(title, f"{caption}{apart}", Grid(values, rows, columns, signed=signed, parted=parted))


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


def _attribution(
    subject: Subject,
    scored: Sequence[int],
    method: str,
    values_PN: np.ndarray,
    logprobs_P: np.ndarray,
    missing_P: np.ndarray | None = None,
) -> Attribution:
    said = tuple(subject.choices(int(subject.targets_L[position])) for position in scored)
    missing = None if missing_P is None else tuple(missing_P.tolist())
    logprobs = tuple(logprobs_P.tolist())
    return Attribution(subject.title, method, said, subject.tokens, subject.stacks, values_PN, logprobs, missing)


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
            slopes = torch.autograd.grad(logprob_B.sum(), list(entered.values()))
        parts = [(slope * vector.detach()).float().sum(-1) for slope, vector in zip(slopes, entered.values())]
        values_BN = torch.cat([_on_side(subject, stack, dict(zip(entered, parts))) for stack in subject.sides], 1).cpu()
        values.append(values_BN / shares_B[:, None] if whole else values_BN)
        logprobs.append(logprob_B.detach().cpu())
    return torch.cat(values).numpy(), torch.cat(logprobs).numpy()


def _on_side(subject: Subject, stack: str, values: Mapping[str, Tensor]) -> Tensor:
    """Return values_BN of all tokens of a side: 0 of those that were not read, such as the class token before an image."""
    found_BL, count = values.get(stack), len(subject.sides[stack])
    if found_BL is None:
        return next(iter(values.values())).new_zeros(len(next(iter(values.values()))), count)
    return F.pad(found_BL, (count - found_BL.shape[1], 0))


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


EMBEDS = {"source": "encoder", "target": "decoder"}  # of an encoder-decoder: which stack each feeds
Shares = Mapping[str, Tensor]  # by stack, share_BL of every word


class Entry(NamedTuple):
    """The module where tokens enter, and its part that makes their own vectors before positions are added."""

    whole: nn.Module
    vectors: nn.Module


def entries(subject: Subject) -> dict[str, Entry]:
    """Return the entries by the stack that reads them."""
    model: Any = subject.model
    if family_of(model).has("captioning"):
        target = model.writer.target
        return {"encoder": Entry(model.encoder, model.encoder.cells), "decoder": Entry(target, target.tokens)}
    if subject.image is not None and not subject.image.ahead:
        if not hasattr(model.embed, "cells"):
            raise UserError(
                "this model reads pixels together with where they are, so none can be taken away from its place; --show latents "
                "shows what it attends to."
            )
        return {subject.image.stack: Entry(model.embed, model.embed.cells)}
    found = {name: part for name, part in model.named_children() if isinstance(part, Embed)}
    only = next(iter(subject.sides))
    return {EMBEDS.get(name, only): Entry(part, part.tokens) for name, part in found.items()}


def input_side(subject: Subject) -> tuple[str, TokenRow]:
    """Return the tokens that the model reads: the source if there is one, else the text itself, or the image."""
    if subject.image is not None:
        return subject.image.stack, subject.sides[subject.image.stack]
    stack = "encoder" if "encoder" in subject.sides else "decoder"
    return stack, subject.sides[stack]


@contextmanager
def word_shares(subject: Subject, shares: Shares) -> Iterator[dict[str, Tensor]]:
    """Within, words enter by these shares. Yields the vectors of the latest pass, as they entered: vectors_BLD by stack."""
    entered: dict[str, Tensor] = {}
    reading: list[str] = []  # two stacks may have one table of words between them
    pictured, before = (None, 0) if subject.image is None else (subject.image.stack, subject.image.first)

    def begin(stack: str) -> Any:
        return lambda module, inputs: reading.append(stack)

    def scale(module: nn.Module, inputs: Any, vectors_BLD: Tensor) -> Tensor:
        stack = reading.pop()
        if stack in shares:
            first = before if stack == pictured else 0
            shares_BL = shares[stack][:, first : first + vectors_BLD.shape[1]]
            vectors_BLD = vectors_BLD * shares_BL.to(vectors_BLD)[..., None]
        if torch.is_grad_enabled():
            vectors_BLD = vectors_BLD if vectors_BLD.requires_grad else vectors_BLD.requires_grad_()
        entered[stack] = vectors_BLD
        return vectors_BLD

    found = entries(subject)
    with ExitStack() as hooks:
        for stack, entry in found.items():
            hooks.enter_context(entry.whole.register_forward_pre_hook(begin(stack)))
        for part in {entry.vectors: None for entry in found.values()}:
            hooks.enter_context(part.register_forward_hook(scale))
        yield entered

"""One pass of a model over an input: what each position says, and references from which every weight can be rebuilt.

The pass is also checked: for some rows of every attention, the rebuilt weights times the values are compared with what the kernel
handed to the output projection. The page shows the largest difference.

Weights come as exact rows and tiles, pooled overviews and thumbnails. A head of 4,096 tokens is rebuilt in blocks of rows, of
which only what is asked for stays. Pooling takes the largest weight of a tile, so that a single strong link is seen from afar.

Dims: H heads, L queries, M keys, R and C rows and columns asked for, Y and X of a picture.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.lens.analyses.head_statistics import MEASURES, head_statistics
from regard.lens.analyses.image_attention import pooler, readings
from regard.lens.subject import ImageTokens, Subject, TokenRow
from regard.model.probe import Probe, Seen, attentions, kv_heads, probe
from regard.studio.session import LONGEST, Session

TOP = 6  # choices told of each position
CHECKED = 6  # rows of each attention
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}
ROOM = 300 << 20  # bytes of references kept
KEPT = 12  # looks
NESTED = (
    "this model looks at the words of one sentence after the other, so no matrix holds all of its words; Run shades what it "
    "looked at, and Ablate and Layers ask what matters."
)
WITHOUT = "this model has no attention, so there are no weights to draw; Run shows what it says, and Layers what its words did."


@dataclass(frozen=True)
class PassRequest:
    run: str
    text: str
    target: str | None = None
    step: int | None = None  # of a snapshot
    version: str = ""  # of the run's files

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Fidelity:
    """Difference between rebuilt and computed contexts, relative to the largest number."""

    largest: float
    rows: int
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.largest <= self.tolerance


@dataclass(frozen=True)
class ModelPass:
    asked: PassRequest
    session: Session
    subject: Subject
    seen: Probe
    steps: list[dict[str, Any]]
    faith: Fidelity
    seconds: float

    @property
    def nbytes(self) -> int:
        parts = [t.untyped_storage() for s in self.seen.seen.values() for t in (s.q_BHLK, s.k_BHMK, s.v_BHMK)]
        return sum({part.data_ptr(): part.nbytes() for part in parts}.values())

    @property
    def why(self) -> str | None:
        """There is no attention to draw, if there is none."""
        return None if len(self.seen) else NESTED if self.subject.nested else WITHOUT

    @property
    def nll(self) -> float | None:
        return mean_nll(self.steps)

    def attention(self, name: str) -> Seen:
        if name not in self.seen.seen:
            raise UserError(f"there is no attention {name[:60]!r}; there are {', '.join(self.seen)}.")
        return self.seen[name]

    def as_dict(self) -> dict[str, Any]:
        sides = {stack: token_row_dict(side) for stack, side in self.subject.sides.items()}
        shapes = {name: shape(seen) for name, seen in self.seen.seen.items()}
        outputs = None if self.subject.outputs is None else token_row_dict(self.subject.outputs)
        shared = kv_heads(self.subject.model)
        return {
            "id": self.asked.id,
            "title": self.subject.title,
            "sides": sides,
            "outputs": outputs,
            "attentions": [
                {"name": n, "heads": h, "kv_heads": shared[n], "queries": q, "keys": k} for n, (h, q, k) in shapes.items()
            ],
            "image": None if self.subject.image is None else self._patches(self.subject.image),
            "apart": self.subject.apart,
            "why": self.why,
            "nested": self.subject.nested,
            "steps": self.steps,
            "nll": self.nll,
            "faith": {**asdict(self.faith), "holds": self.faith.holds},
            "seconds": self.seconds,
        }

    def _patches(self, image: ImageTokens) -> dict[str, Any]:
        """Return which tokens are patches, and the attentions among all of them."""
        names = [name for name in self.seen if name.endswith(".self") and self.subject.between(name) == (image.stack,) * 2]
        pixels = {"patch": image.patch, "size": image.image_YXC.shape[:2], "tokens": image.tokens, "ahead": image.ahead}
        place = {"rows": image.rows, "columns": image.columns, "first": image.first, "stack": image.stack}
        reads = {"pooled": pooler(self.subject, self.seen), "latents": bool(readings(self.subject, self.seen))}
        return {**place, **pixels, **reads, "attentions": names}


def token_row_dict(side: TokenRow) -> dict[str, Any]:
    return {"tokens": side.tokens, "words": side.words, "special": side.special}


def run_pass(asked: PassRequest, session: Session, alone: Lock) -> ModelPass:
    began = perf_counter()
    with alone:
        subject = session.subject(asked.text, asked.target)
        longest = max(len(side.tokens) for side in subject.sides.values())
        if longest > LONGEST:
            raise UserError(f"this text is {longest:,} tokens long, and studio looks into {LONGEST:,} at most; give less of it.")
        with torch.no_grad(), probe(subject.model) as seen, contexts(subject.model) as given:
            logits_LV = subject.forward(1)[0]
    if subject.nested:  # what was seen is of single sentences, and of no side
        seen.seen.clear()
    faith = check(seen, given)
    steps = [] if subject.series is not None else outputs_of(logits_LV, subject)  # numbers are no choices
    return ModelPass(asked, session, subject, seen, steps, faith, perf_counter() - began)


@contextmanager
def contexts(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Yield the input of each attention's output projection in the latest pass."""
    given: dict[str, Tensor] = {}
    with ExitStack() as hooks:
        for name, found in attentions(model).items():
            keep = partial(lambda name, _, arguments: given.update({name: arguments[0]}), name)
            hooks.enter_context(found.out.register_forward_pre_hook(keep))
        yield given


@torch.no_grad()
def check(seen: Probe, given: dict[str, Tensor]) -> Fidelity:
    worst, rows, tolerance = 0.0, 0, 0.0
    for name in seen:
        one = seen[name]
        length, context_BLD = one.q_BHLK.shape[2], given.get(name)
        if context_BLD is None or context_BLD.shape[1:2] != (length,):  # it handed out weights, and one word's context at a time
            continue
        some = sorted({round(n * (length - 1) / max(1, CHECKED - 1)) for n in range(CHECKED)})
        rebuilt_RD = (one.weights(rows=some)[0] @ one.v_BHMK[0].float()).transpose(0, 1).flatten(1)
        context_RD = context_BLD[0, some].float()
        scale = max(float(context_BLD[0].abs().max()), 1e-6)
        worst, rows = max(worst, float((rebuilt_RD - context_RD).abs().max()) / scale), rows + len(some)
        tolerance = max(tolerance, TOLERANCE.get(one.q_BHLK.dtype, 1e-4))
    return Fidelity(worst, rows, tolerance)


@torch.no_grad()
def outputs_of(logits_LV: Tensor, subject: Subject) -> list[dict[str, Any]]:
    """Return for each output position its likeliest choices and the probability of its target."""
    steps = []
    for logits_RV, targets_R in zip(logits_LV.split(256), subject.targets_L.split(256)):
        logprob_RV = logits_RV.float().log_softmax(-1).cpu()
        likely_RK = logprob_RV.topk(min(TOP, logprob_RV.shape[1]))
        for logprob_V, numbers, values, target in zip(
            logprob_RV, likely_RK.indices.tolist(), likely_RK.values.exp().tolist(), targets_R.tolist()
        ):
            top = [{"choice": subject.choices(n), "id": n, "p": p} for n, p in zip(numbers, values)]
            steps.append({"top": top, **_scored(logprob_V, target, subject)})
    return steps


def _scored(logprob_V: Tensor, target: int, subject: Subject) -> dict[str, Any]:
    if target == IGNORED:
        return {"target": None, "nll": None, "p": None, "rank": None}
    logprob = float(logprob_V[target])
    rank = 1 + int((logprob_V > logprob).sum())
    return {"target": subject.choices(target), "nll": -logprob, "p": float(np.exp(logprob)), "rank": rank}


def mean_nll(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the mean loss of the positions that have a target; None where there are none."""
    scored = [step["nll"] for step in steps if step["nll"] is not None]
    return float(np.mean(scored)) if scored else None


class PassCache:
    """The last few, as many as fit; the newest always does."""

    def __init__(self, room: int = ROOM, most: int = KEPT) -> None:
        self.room, self.most = room, most
        self._kept: OrderedDict[str, ModelPass] = OrderedDict()
        self._lock = Lock()

    def get(self, id: str) -> ModelPass | None:
        with self._lock:
            if (found := self._kept.get(id)) is not None:
                self._kept.move_to_end(id)
            return found

    def keep(self, new: ModelPass) -> ModelPass:
        with self._lock:
            self._kept[new.asked.id] = new
            self._kept.move_to_end(new.asked.id)
            held = self._kept.values()
            while len(held) > 1 and (len(held) > self.most or sum(one.nbytes for one in held) > self.room):
                self._kept.popitem(last=False)
            return new

    def forget(self, run: str, version: str) -> None:
        """Drop passes of other versions of this run, which would keep their models in memory."""
        with self._lock:
            gone = [id for id, kept in self._kept.items() if kept.asked.run == run and kept.asked.version != version]
            for id in gone:
                del self._kept[id]


BLOCK = 1 << 20  # weights held at once
THUMB = 32  # rows and columns of a thumbnail at most
MOST = 1 << 22  # exact weights in one answer


def shape(seen: Seen) -> tuple[int, int, int]:
    """Heads, queries, keys."""
    return seen.q_BHLK.shape[1], seen.q_BHLK.shape[2], seen.k_BHMK.shape[2]


@torch.no_grad()
def blocks(seen: Seen, heads: Sequence[int], rows: range) -> Iterator[tuple[range, np.ndarray]]:
    """weights_HRM of these heads, some rows at a time."""
    step = max(1, BLOCK // (len(heads) * shape(seen)[2]))
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        yield some, seen.weights(heads, some)[0].float().cpu().numpy()


def exact(seen: Seen, heads: Sequence[int], rows: range, columns: range) -> np.ndarray:
    """weights_HRC, float32."""
    found = np.empty((len(heads), len(rows), len(columns)), np.float32)
    for some, weights_HRM in blocks(seen, heads, rows):
        begin = some.start - rows.start
        found[:, begin : begin + len(some)] = weights_HRM[:, :, columns.start : columns.stop]
    return found


def pooled(seen: Seen, heads: Sequence[int], rows: range, columns: range, size: int) -> np.ndarray:
    """largest_HYX: the largest weight of each tile, with at most `size` tiles along either side."""
    tall, wide = (max(1, -(-len(side) // size)) for side in (rows, columns))
    down, across = -(-len(rows) // tall), -(-len(columns) // wide)
    found = np.zeros((len(heads), down, across), np.float32)
    for some, weights_HRM in blocks(seen, heads, rows):
        part = weights_HRM[:, :, columns.start : columns.stop]
        part_HRX = np.maximum.reduceat(part, np.arange(0, len(columns), wide), axis=2) if wide > 1 else part
        for offset, row in enumerate(some):
            y = (row - rows.start) // tall
            np.maximum(found[:, y], part_HRX[:, offset], out=found[:, y])
    return found


def as_bytes(weights: np.ndarray) -> np.ndarray:
    """0 to 1 as 0 to 255: for pictures, whose colours are no finer."""
    return np.rint(np.clip(weights, 0, 1) * 255).astype(np.uint8)


def thumbnails(seen: Seen) -> np.ndarray:
    """largest_HYX of all heads, each scaled to its own largest weight, as bytes."""
    heads, queries, keys = shape(seen)
    found = pooled(seen, range(heads), range(queries), range(keys), THUMB)
    return as_bytes(found / np.maximum(found.max((1, 2), keepdims=True), 1e-9))


def statistics(model_pass: ModelPass) -> dict[str, Any]:
    """Return a number for each head, by measure and attention."""
    found = head_statistics(model_pass.subject, model_pass.seen)
    return {measure: found.field(measure) for measure in MEASURES}

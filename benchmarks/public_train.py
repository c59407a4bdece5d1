"""Training T5 and LLaMA as they are public, from the same weights on the same batches: ours against Hugging Face's.

    python -m benchmarks.public_train --cells t5 --rounds 5

T5 base reads 512 tokens and writes 114, as in its span corruption; LLaMA, of 124M parameters, reads 1,024. Every system trains in
a process of its own, so that all compile at once; then they take turns. All must find the same loss first, in float32.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.cells import Cells, parser
from benchmarks.measure import alternate, row, versions
from benchmarks.peers import public
from benchmarks.peers.apart import Apart
from benchmarks.steps import CUDA, DEVICE, must_agree, ours, theirs, times
from regard.data.batching.pairs import EncodedPairs, PairBatches, Ragged, make_batch
from regard.data.batching.windows import Windows
from regard.objectives.causal_lm import CausalLMConfig, CausalLMLoss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import PairMarks

FIRST = 3  # ids below have a part to play
STEPS = 8 if CUDA else 1  # of a turn
BATCHES = 4  # that are trained on again and again
SYSTEMS = ("regard", "hugging face, compiled", "hugging face")
MARKS = PairMarks(pad=0, start=0, after_source=(1,), after_target=(1,))  # of T5
Step = Callable[[], None]


class Cell(NamedTuple):
    shape: str
    case: str
    batch: int
    read: int
    written: int  # 0: a decoder alone
    floor: float
    goal: float

    @property
    def tokens(self) -> int:
        return self.batch * (self.read + self.written)


CELLS = {
    "t5": Cell("t5-base", "T5 base, 64 pairs of 512 and 114 tokens", 64, 512, 114, 1.5, 2.2),
    "llama": Cell("llama-124m", "LLaMA, 124M, 32 texts of 1,024 tokens", 32, 1024, 0, 1.2, 1.4),
}
TINY = {name: cell._replace(batch=4, read=24, written=cell.written and 10) for name, cell in CELLS.items()}


def pairs(cell: Cell, words: int) -> EncodedPairs:
    """Return pairs whose sides have these lengths with their end tokens."""
    random = np.random.default_rng(1)
    sides = (random.integers(FIRST, words, (BATCHES * cell.batch, length - 1)).tolist() for length in (cell.read, cell.written))
    return EncodedPairs(*map(Ragged, sides), marks=MARKS)


def windows(cell: Cell, words: int) -> Windows:
    text = np.random.default_rng(1).integers(FIRST, words, (BATCHES * cell.batch + 1) * cell.read + 1)
    return Windows(text, cell.read, cell.batch * cell.read, seed=1)


def t5_loss(model: nn.Module, batch: Any) -> Tensor:
    """The source has no padding, so that no mask is needed."""
    source_BM, labels_BL = batch
    return model(input_ids=source_BM, labels=labels_BL, use_cache=False).loss


def llama_loss(model: nn.Module, ids_BL: Tensor) -> Tensor:
    inputs, aims = ids_BL[:, :-1].contiguous(), ids_BL[:, 1:].contiguous()
    return model(input_ids=inputs, labels=inputs, shift_labels=aims, use_cache=False).loss


def build_ours(cell: Cell, folder: Path) -> tuple[Step, float]:
    """Return what takes a step, and the loss of a token of the first batch before any step."""
    model = public.ours(folder, DEVICE)
    words = model.head.project.weight.shape[0]
    few = np.arange(2)
    if cell.written:
        data, objective = pairs(cell, words), Seq2SeqLoss(Seq2SeqConfig(smoothing=0.0))
        source: Any = PairBatches(data, cell.batch * cell.read, 1, packed=CUDA)
        batch: Any = make_batch(data, few).to(DEVICE)
    else:
        objective, source = CausalLMLoss(CausalLMConfig()), windows(cell, words)  # type: ignore[assignment]
        batch = source.batch(few, 0).to(DEVICE)
    with torch.no_grad():
        loss = float(objective(model, batch).total) / batch.tokens
    return ours(model, objective, source), loss


def build_theirs(cell: Cell, folder: Path, compiled: bool) -> tuple[Step, float]:
    """Return what takes a step, and the loss of a token of the first batch before any step."""
    model = public.theirs(folder, DEVICE)
    batches: list[Any]
    if cell.written:
        data, loss_of = pairs(cell, model.config.vocab_size), t5_loss
        made = [make_batch(data, np.arange(n, n + cell.batch)).to(DEVICE) for n in range(0, len(data), cell.batch)]
        batches = [(batch.source_BM, batch.target_out_BL) for batch in made]
        few: Any = tuple(part[:2] for part in batches[0])
    else:
        source, loss_of = windows(cell, model.config.vocab_size), llama_loss  # type: ignore[assignment]
        rows = np.arange(cell.batch * (len(source) // cell.batch)).reshape(-1, cell.batch)
        drawn = [source.batch(each, 0) for each in rows]
        batches = [torch.cat([batch.ids_BL, batch.next_BL[:, -1:]], 1).to(DEVICE) for batch in drawn]
        few = batches[0][:2]
    with torch.no_grad():
        loss = float(loss_of(model, few))
    return theirs(model, loss_of, batches, compiled), loss


def build(system: str, cell: Cell, folder: Path, steps: int) -> Callable[[str], float]:
    """Return, in a process of its own, what says the first loss, and what takes the steps of a turn."""
    made = partial(build_ours, cell, folder) if system == "regard" else partial(build_theirs, cell, folder, "compiled" in system)
    step, loss = made()
    turn = times(step, steps)

    def asked(what: str) -> float:
        if what != "loss":
            turn()
            if CUDA:
                torch.cuda.synchronize()
        return loss

    return asked


def race(cell: Cell, cells: Cells) -> None:
    options = cells.options
    with tempfile.TemporaryDirectory() as name:
        folder = public.save(cell.shape, Path(name), tiny=options.tiny)
        systems = {system: Apart(build, system, cell, folder, STEPS) for system in SYSTEMS if system in options.systems}
        losses = {system: torch.tensor(run("loss")) for system, run in systems.items()}
    for other in losses.values():
        must_agree(next(iter(losses.values())), other)
    for _ in range(2 if CUDA else 1):  # all at once: kernels are compiled and chosen, steps captured
        for run in systems.values():
            run.ask("turn")
        for run in systems.values():
            run.answer()
    seconds = alternate({name: partial(run, "turn") for name, run in systems.items()}, options.rounds, warm_up=1)
    told = {name: f"{float(loss):.6f}" for name, loss in losses.items()}
    cells.tell(
        "Loss of a token before any step, in float32", ["cell", *SYSTEMS], [cell.case, *(told.get(s, "") for s in SYSTEMS)]
    )
    bar = "regard / hugging face, compiled"
    compared = [("regard", other) for other in systems if other != "regard"] if "regard" in systems else []
    bars = {bar: {"floor": cell.floor, "goal": cell.goal}} if ("regard", "hugging face, compiled") in compared else {}
    cells.add(row(cell.case, "tokens/s", STEPS * cell.tokens, seconds, bars=bars, pairs=compared))
    for run in systems.values():
        run.end()


def main(arguments: Sequence[str] = ()) -> None:
    options = parser(__doc__ or "", CELLS, SYSTEMS, 5).parse_args(arguments)
    cells = Cells(
        "public_train",
        "T5 and LLaMA as they are public: training",
        "Random weights and text, no dropout, bf16 autocast on a GPU, fused AdamW, clipping at 1. Tokens read and written.",
        versions("transformers"),
        options,
    )
    chosen = TINY if options.tiny else CELLS
    cases = {name: cell.case for name, cell in CELLS.items()}
    cells.each({name: partial(race, cell, cells) for name, cell in chosen.items()}, cases)


if __name__ == "__main__":
    main(sys.argv[1:])

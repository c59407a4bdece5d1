"""Training a recurrent translator on a CPU: ours against JoeyNMT's, of equal size, from the same weights, on the same pairs.

    python -m benchmarks.train_rnn

Before any clock runs both must find the same loss. JoeyNMT packs every batch and goes word by word whether it must or not; ours
goes word by word with input feeding alone, and then each matrix learns once, after the last word.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from benchmarks.measure import Bar, Row, alternate, row, write
from benchmarks.peers import joeynmt
from benchmarks.peers.joeynmt_recurrent import begin_alike
from benchmarks.steps import SETTINGS, must_agree, ours, times
from benchmarks.train_translate import Whole, pairs_of
from regard.data.batching.pairs import PairBatches, make_batch
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss

WORDS, PAIRS, BATCHES = 8000, 64, 8
LSTM = RecurrentConfig(width=256, layers=1, dropout=0.0, attention="luong", mixer="bilinear", input_feeding=True)
CASES = {
    "LSTM, bilinear, input feeding": LSTM,
    "GRU, additive, input feeding": replace(LSTM, cell="gru", mixer="additive"),
    "LSTM, bilinear": replace(LSTM, input_feeding=False),
}
BAR: dict[str, Bar] = {"regard / joeynmt": {"floor": 1.2, "goal": 2.0}}


def race(name: str, config: RecurrentConfig, lengths: tuple[int, int], rounds: int) -> Row:
    """An epoch of eight batches: theirs as drawn and padded, ours as the loader cuts them."""
    data = pairs_of(WORDS, BATCHES * PAIRS, lengths)
    objective = Seq2SeqLoss(Seq2SeqConfig(smoothing=0.0))
    longer = np.maximum(data.source.lengths, data.target.lengths) + 1
    source = PairBatches(data, round(float(longer.mean()) * PAIRS * 1.02), 1)
    model = Recurrent(config, WORDS, WORDS)
    begin_alike(model)
    batches = [make_batch(data, rows) for rows in Whole(data, PAIRS, 1).plan(0)]
    trainer = joeynmt.trainer(model, batches, bf16=False)
    with torch.no_grad():
        expected = objective(model, batches[0]).total / batches[0].tokens
    must_agree(expected, torch.tensor(trainer.ask("loss")))
    contenders: dict[str, Callable[[], object]] = {
        "regard": times(ours(copy.deepcopy(model), objective, source, replace(SETTINGS, precision="fp32")), len(source.plan(0))),
        "joeynmt": partial(trainer.ask, "epoch"),
    }
    tokens = int(data.target.lengths.sum()) + len(data)
    case = f"{name}, {'25 + 25' if lengths == (25, 25) else f'{lengths[0]} to {lengths[1]}'} tokens"
    measured = row(case, "target tokens/s", tokens, alternate(contenders, rounds, warm_up=1), bars=BAR)
    print(case, {name: round(ratio, 2) for name, ratio in measured["ratios"].items()}, flush=True)
    return measured


def main(rounds: int = 5) -> None:
    if torch.cuda.is_available():
        raise SystemExit("this race is for a CPU; hide the GPU with CUDA_VISIBLE_DEVICES=")
    if not joeynmt.ready():
        raise SystemExit(joeynmt.remark())
    rows = [race(name, config, lengths, rounds) for name, config in CASES.items() for lengths in ((25, 25), (5, 45))]
    write(
        "train_rnn",
        title="Training a recurrent translator",
        setting="One layer, bidirectional encoder, width 256, 8,000 words tied, no dropout, fp32, fused AdamW, clipping at 1. "
        "JoeyNMT pads batches as drawn and sorts each, as its training does; ours sorts by length. " + joeynmt.remark(),
        rows=rows,
        versions=joeynmt.version(),
    )


if __name__ == "__main__":
    main()

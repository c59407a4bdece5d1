"""Training a Transformer to translate: ours against Hugging Face's Marian, torch.nn.Transformer and, on a CPU, JoeyNMT.

All start from the same weights and train on the same pairs. Before any clock runs, all must find the same loss.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, row, versions, write
from benchmarks.peers import joeynmt
from benchmarks.peers.marian import marian
from benchmarks.peers.torch_transformer import TorchTransformer
from benchmarks.steps import CUDA, DEVICE, SETTINGS, must_agree, ours, theirs, times
from regard.data.batching.pairs import Batch, EncodedPairs, PairBatches, Ragged, make_batch
from regard.families.transformer import Transformer, TransformerConfig
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import PAD

BASE = TransformerConfig(dropout=0.0)
SMALL = replace(BASE, width=256, heads=4, feedforward=1024, layers=3)
IGNORED = -100


class Whole(PairBatches):
    """Batches of `tokens` pairs, in the order they come."""

    def plan(self, epoch: int) -> list[np.ndarray]:
        return list(np.arange(len(self.data)).reshape(-1, self.tokens))


def marian_loss(model: nn.Module, batch: Batch) -> Tensor:
    labels = batch.target_out_BL.masked_fill(batch.target_out_BL == PAD, IGNORED)
    mask = (batch.source_BM != PAD).long()
    return model(input_ids=batch.source_BM, attention_mask=mask, decoder_input_ids=batch.target_in_BL, labels=labels).loss


def torch_loss(model: nn.Module, batch: Batch) -> Tensor:
    logits_BLV = model(batch.source_BM, batch.target_in_BL)
    return nn.functional.cross_entropy(logits_BLV.flatten(0, 1), batch.target_out_BL.flatten(), ignore_index=PAD)


PEERS = {"marian": (marian, marian_loss), "nn.Transformer": (TorchTransformer, torch_loss)}


def pairs_of(words: int, count: int, lengths: tuple[int, int]) -> EncodedPairs:
    """Both sides of a pair are about as long, as in real text; the end token is counted."""
    random = np.random.default_rng(1)
    drawn = random.integers(lengths[0], lengths[1] + 1, count)
    sides = [np.clip(np.round(drawn * random.normal(1, 0.15, count)), *lengths).astype(int) for _ in "ab"]
    return EncodedPairs(*(Ragged([random.integers(4, words, n - 1).tolist() for n in side]) for side in sides))


def race(
    case: str, config: TransformerConfig, words: int, pairs: int, lengths: tuple[int, int], rounds: int, bf16: bool = CUDA
) -> Row:
    """An epoch of eight batches of `pairs` each: theirs as drawn and padded, ours as the loader cuts them, packed on a GPU."""
    data = pairs_of(words, 8 * pairs, lengths)
    drawn, objective = Whole(data, pairs, 1), Seq2SeqLoss(Seq2SeqConfig(smoothing=0.0))
    longer = np.maximum(data.source.lengths, data.target.lengths) + 1
    source = PairBatches(data, round(float(longer.mean()) * pairs * 1.02), 1, packed=CUDA)
    model = Transformer(config, words, words).to(DEVICE)
    batches = [make_batch(data, rows).to(DEVICE) for rows in drawn.plan(0)]
    settings = replace(SETTINGS, precision="bf16" if bf16 else "fp32")
    contenders = {"regard": times(ours(copy.deepcopy(model), objective, source, settings), len(source.plan(0)))}
    with torch.no_grad():
        expected = objective(model, batches[0]).total / batches[0].tokens
    for name, (build, loss) in PEERS.items():
        with torch.no_grad():
            must_agree(expected, loss(build(model).to(DEVICE), batches[0]))
        for compiled in (True, False) if CUDA else (False,):
            step = theirs(build(model).to(DEVICE), loss, batches, compiled, bf16)
            contenders[f"{name}{', compiled' if compiled else ''}"] = times(step, len(batches))
    if not CUDA and joeynmt.ready():
        trainer = joeynmt.trainer(model, batches, bf16)
        must_agree(expected, torch.tensor(trainer.ask("loss")))
        contenders["joeynmt"] = partial(trainer.ask, "epoch")
    seconds = alternate(contenders, rounds, warm_up=5 if CUDA else 1)  # all shapes are compiled and recorded in these
    tokens = int(data.target.lengths.sum()) + len(data)
    floor = {"floor": 2.0, "goal": 4.0} if CUDA else {"floor": 1.3, "goal": 2.5}
    measured = ["regard / marian, compiled"] if CUDA else ["regard / marian", "regard / nn.Transformer"]
    return row(case, "target tokens/s", tokens, seconds, bars=dict.fromkeys(measured, floor))


def main(rounds: int = 5) -> None:
    remark = "" if CUDA else f" {joeynmt.remark()}"
    if CUDA:
        rows = [race("base, 64 + 64 tokens", BASE, 32_000, 512, (64, 64), rounds)]
        rows += [race("base, 8 to 64 tokens", BASE, 32_000, 512, (8, 64), rounds)]
    else:
        rows = [race("small, 25 + 25 tokens", SMALL, 8000, 64, (25, 25), rounds)]
        rows += [race("small, 5 to 45 tokens", SMALL, 8000, 64, (5, 45), rounds)]
        rows += [race("small, 5 to 45 tokens, bf16", SMALL, 8000, 64, (5, 45), rounds, bf16=True)]
    write(
        "train_translate",
        title="Training a Transformer to translate",
        setting="Base: 6 + 6 layers, width 512, 32,000 words; small: 3 + 3 layers, width 256, 8,000 words. No dropout, bf16 "
        "autocast on a GPU, fp32 on a CPU where nothing else is said, fused AdamW, clipping at 1. Peers pad batches as drawn, "
        "which is their trainers' default; ours sorts by length, and packs on a GPU." + remark,
        rows=rows,
        versions=versions("transformers") | ({} if CUDA else joeynmt.version()),
    )


if __name__ == "__main__":
    main()

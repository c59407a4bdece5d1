"""BERT-base on masked words, lengths 32 to 512: ours packed, against Hugging Face's padded, eager and compiled."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import alternate, row, versions, write
from benchmarks.peers.bert import bert
from benchmarks.steps import CUDA, DEVICE, must_agree, ours, theirs, times
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import MaskedBatch, MaskedPassages, Masking, Passages
from regard.data.batching.pairs import Ragged
from regard.families.bert import BERT, BERTConfig
from regard.objectives.masked_lm import MaskedLMConfig, MaskedLMLoss

VOCABULARY, MASK, TEXTS = 30_522, 103, 128 if CUDA else 4
IGNORED = -100
Padded = tuple[Tensor, Tensor, Tensor]  # ids, attention mask, labels


class Shuffled(MaskedPassages):
    """Texts of all lengths in every batch, as many in each: what a padded system meets when nothing sorts for it."""

    def plan(self, epoch: int) -> list[np.ndarray]:
        rows = epoch * len(self.passages) + np.random.default_rng(epoch).permutation(len(self.passages))
        return list(rows.reshape(-1, TEXTS))


def padded(batch: MaskedBatch, lengths: np.ndarray) -> Padded:
    """The same texts and masks as rows of 512."""
    ids = torch.zeros(len(lengths), 512, dtype=torch.long)
    labels, seen = torch.full_like(ids, IGNORED), torch.zeros_like(ids)
    flat_labels = torch.full_like(batch.ids_BL[0], IGNORED)
    flat_labels[batch.masked_M] = batch.targets_M
    start = 0
    for row_, length in enumerate(lengths.tolist()):
        ids[row_, :length] = batch.ids_BL[0, start : start + length]
        labels[row_, :length] = flat_labels[start : start + length]
        seen[row_, :length] = 1
        start += length
    return ids.to(DEVICE), seen.to(DEVICE), labels.to(DEVICE)


def loss(model: nn.Module, batch: Padded) -> Tensor:
    ids, seen, labels = batch
    return model(input_ids=ids, attention_mask=seen, labels=labels).loss


def main(rounds: int = 5) -> None:
    random = np.random.default_rng(1)
    model = BERT(BERTConfig(dropout=0.0), VOCABULARY).to(DEVICE)
    texts = Ragged([random.integers(999, VOCABULARY, length - 2).tolist() for length in random.integers(32, 513, 8 * TEXTS)])
    passages = Passages(texts.flat, texts.offsets[:-1], 512, SpecialTokens(101, 102, 102), seed=1)
    source = Shuffled(passages, 10**9, Masking(1, MASK, range(999, VOCABULARY)), packed=True)
    objective, plan = MaskedLMLoss(MaskedLMConfig()), source.plan(0)
    lengths = texts.lengths + 2
    batches = [padded(source.batch(rows, 0), lengths[rows]) for rows in plan]
    peer, eager = bert(model), bert(model)
    few = source.batch(plan[0][:3], 0)
    with torch.no_grad():
        total = objective(copy.deepcopy(model), few.to(DEVICE)).total / few.tokens
        must_agree(total, loss(peer, padded(few, lengths[plan[0][:3]])))
    steps = {
        "regard": ours(model, objective, source),
        "hugging face, compiled": theirs(peer, loss, batches, compiled=True),
        "hugging face": theirs(eager, loss, batches, compiled=False),
    }
    epochs = {name: times(step, len(batches)) for name, step in steps.items()}
    seconds = alternate(epochs, rounds, warm_up=5)  # in which all shapes are compiled and recorded
    bars = {"regard / hugging face, compiled": {"floor": 2.0, "goal": 4.0}}
    write(
        "train_mlm",
        title="Training BERT-base on masked words",
        setting=f"An epoch of {len(batches)} batches of {TEXTS} texts, lengths uniform in 32 to 512, the same masks; Hugging "
        "Face pads to 512. No dropout, bf16 autocast on a GPU, fused AdamW, clipping at 1.",
        rows=[row("lengths 32 to 512", "real tokens/s", int(lengths.sum()), seconds, bars=bars)],
        versions=versions("transformers"),
    )


if __name__ == "__main__":
    main()

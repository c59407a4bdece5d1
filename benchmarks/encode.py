"""Encoding with BERT-base, 64 texts of mixed lengths at a time: ours packed, Hugging Face's padded, eager and compiled."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import Row, alternate, row, versions, write
from benchmarks.peers.bert import bert
from benchmarks.steps import CUDA, DEVICE
from regard.core.packing import Packing, to_device
from regard.data.batching.pairs import pad
from regard.families.bert import BERT, BERTConfig
from regard.training.compile import compile_stacks

VOCABULARY, TEXTS, BATCHES = 30_522, 64 if CUDA else 16, 8
PRECISION = torch.bfloat16 if CUDA else torch.float32
Padded = tuple[Tensor, Tensor]  # ids, attention mask


def texts(low: int, high: int) -> list[list[np.ndarray]]:
    random = np.random.default_rng(1)
    return [[random.integers(999, VOCABULARY, n) for n in random.integers(low, high + 1, TEXTS)] for _ in range(BATCHES)]


def race(case: str, low: int, high: int, rounds: int) -> Row:
    model = BERT(BERTConfig(dropout=0.0), VOCABULARY).to(DEVICE).eval()
    peer = bert(model).bert.eval()
    batches = texts(low, high)
    _must_agree(model, peer, batches[0][:4])
    model, peer = model.to(PRECISION), peer.to(PRECISION)
    packed = [_packed(batch) for batch in batches]
    padded = [_padded(batch) for batch in batches]

    def ours() -> list[Tensor]:
        if CUDA:
            return [model.hidden(*batch) for batch in packed]
        return [model.hidden(*batch) for batch in by_length]

    def theirs(called: torch.nn.Module) -> list[Tensor]:
        return [called(input_ids=ids, attention_mask=mask).last_hidden_state for ids, mask in padded]

    by_length = [part for batch in batches for part in _buckets(batch)]
    if CUDA:
        compile_stacks(model)
    compiled = torch.compile(peer)
    contenders = {"regard": ours, "hugging face, compiled": lambda: theirs(compiled), "hugging face": lambda: theirs(peer)}
    if not CUDA:
        del contenders["hugging face, compiled"]
    seconds = alternate(contenders, rounds, warm_up=3 if CUDA else 1)
    tokens = sum(len(text) for batch in batches for text in batch)
    bars = {"regard / hugging face": {"floor": 1.7, "goal": 2.5}} if CUDA and high == 512 else {}
    return row(case, "real tokens/s", tokens, seconds, bars=bars)


def _packed(batch: list[np.ndarray]) -> tuple[Tensor, Packing]:
    ids = torch.from_numpy(np.concatenate(batch))[None]
    return ids.to(DEVICE), to_device(Packing.of([len(text) for text in batch]), DEVICE)


def _padded(batch: list[np.ndarray]) -> Padded:
    ids, lengths = pad(batch)
    return ids.to(DEVICE), (torch.arange(ids.shape[1]) < lengths[:, None]).long().to(DEVICE)


def _buckets(batch: list[np.ndarray], size: int = 4) -> list[tuple[Tensor, Tensor]]:
    """On a CPU: texts of like length together."""
    order = sorted(batch, key=len)
    return [pad(order[start : start + size]) for start in range(0, len(order), size)]


def _must_agree(model: BERT, peer: torch.nn.Module, batch: list[np.ndarray]) -> None:
    """In float32: vectors of unit variance, the padding's left out."""
    (ours_TD,), (ids, mask) = model.hidden(*_packed(batch)), _padded(batch)
    theirs_BLD = peer(input_ids=ids, attention_mask=mask).last_hidden_state
    difference = (ours_TD - theirs_BLD[mask.bool()]).abs().max().item()
    if not difference < 1e-3:
        raise SystemExit(f"the systems disagree by {difference}")


@torch.no_grad()
def main(rounds: int = 10) -> None:
    rows = [race("lengths 32 to 512", 32, 512, rounds)] if CUDA else [race("lengths 8 to 128", 8, 128, 3)]
    write(
        "encode",
        title="Encoding with BERT-base",
        setting=f"{TEXTS} texts a batch, lengths uniform; bf16 weights on a GPU, fp32 on a CPU. Hugging Face pads each batch to "
        "its longest text; ours packs on a GPU and sorts by length on a CPU.",
        rows=rows,
        versions=versions("transformers"),
    )


if __name__ == "__main__":
    main()

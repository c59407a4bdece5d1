"""A step: memory that runs out costs micro-batches alone, what is computed again is the same, a burst closes the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.pairs import EncodedPairs, PairBatches, Ragged
from regard.data.loader import Loader
from regard.families.transformer import Transformer, TransformerConfig
from regard.objectives.base import Loss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.training.compile import fuse
from regard.training.config import TrainConfig
from regard.training.optimizers import make_optimizer
from regard.training.step import Stepper

CONFIG = TrainConfig(steps=6, tokens_per_batch=60, learning_rate=1e-2, warmup=0, schedule="constant", seed=3)
PAIRS = EncodedPairs(*(Ragged([[4 + (n * k) % 9 for k in range(2 + n % 4)] for n in range(24)]) for _ in "ab"))
OBJECTIVE = Seq2SeqLoss(Seq2SeqConfig())


class Memory:
    """An objective for which batches of more than `most` pairs are too large."""

    def __init__(self, most: int) -> None:
        self.most, self.sizes = most, list[int]()

    def __call__(self, model: nn.Module, batch: object) -> Loss:
        self.sizes.append(len(batch.source_BM))
        loss = OBJECTIVE(model, batch)
        if len(batch.source_BM) > self.most:
            loss.total.backward()  # some of the gradient is there already when it happens
            raise torch.OutOfMemoryError("pretended")
        return loss


def taken(config: TrainConfig, objective: object, dropout: float = 0.0, steps: int = 6) -> tuple[dict, list[str], Stepper]:
    model = Transformer(TransformerConfig(width=16, heads=2, feedforward=24, layers=1, dropout=dropout), 13, 13, seed=1)
    fuse(model, config)
    loader = Loader(PairBatches(PAIRS, config.tokens_per_batch, config.seed), accumulate=config.accumulate)
    said: list[str] = []
    stepper = Stepper(model.train(), objective, loader, make_optimizer(model, config), config, said.append)
    for step, work in enumerate(loader.start(0, steps), 1):
        stepper(step, work, config.learning_rate)
    return {name: p.detach().clone() for name, p in model.named_parameters()}, said, stepper


def test_out_of_memory_is_more_micro_batches_of_the_same_batch():
    objective = Memory(most=3)
    found, said, stepper = taken(CONFIG, objective)
    expected, _, _ = taken(replace(CONFIG, accumulate=stepper.loader.accumulate), OBJECTIVE)
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert stepper.measured().loss == pytest.approx(taken(CONFIG, OBJECTIVE)[2].measured().loss, rel=1e-4)
    assert stepper.loader.accumulate > 1
    assert "the same batches" in said[0]
    assert max(objective.sizes) > 3 >= objective.sizes[-1]


def test_what_fits_nowhere_is_told():
    with pytest.raises(UserError, match="not even one example at a time"):
        taken(CONFIG, Memory(most=0))


def test_what_is_computed_again_is_the_same_with_dropout_too():
    kept, again = (
        taken(CONFIG, OBJECTIVE, dropout=0.3)[0],
        taken(replace(CONFIG, activation_checkpointing=True), OBJECTIVE, dropout=0.3)[0],
    )
    assert all(torch.equal(kept[name], again[name]) for name in kept)


def test_recomputing_keeps_less():
    def kept(recompute: bool) -> int:
        model = Transformer(TransformerConfig(width=16, heads=2, feedforward=24, layers=4, dropout=0.0), 13, 13).train()
        fuse(model, replace(CONFIG, activation_checkpointing=recompute))
        seen: list[int] = []

        def note(tensor: torch.Tensor) -> torch.Tensor:
            seen.append(tensor.nbytes)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            model(torch.ones(2, 6, dtype=torch.long), torch.tensor([6, 6]), torch.ones(2, 6, dtype=torch.long))
        return sum(seen)

    assert kept(recompute=True) < kept(recompute=False) / 3


class Bursts:
    """Not a number in the nth step, and only there."""

    def __init__(self, nth: int, value: float) -> None:
        self.nth, self.value, self.calls = nth, value, 0

    def __call__(self, model: nn.Module, batch: object) -> Loss:
        self.calls += 1
        loss = OBJECTIVE(model, batch)
        return replace(loss, total=loss.total * (self.value if self.calls == self.nth else 1.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_after_a_burst_nothing_passes_the_gate(value):
    """The host need not look at every step: whenever it does, the weights are those from before the burst."""
    before, _, _ = taken(CONFIG, OBJECTIVE, steps=3)
    after, _, stepper = taken(CONFIG, Bursts(4, value), steps=6)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert stepper.measured().burst == 4

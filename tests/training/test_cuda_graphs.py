"""A step that is recorded does what the step does: on a tape here, as a CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.core.packing import Packing, shape_key
from regard.data.batching.windows import WindowBatch, Windows
from regard.data.loader import Loader
from regard.families.gpt import GPT, GPTConfig
from regard.model.kernels.cuda_graph import Step
from regard.objectives.causal_lm import CausalLMConfig, CausalLMLoss
from regard.training.compile import MOST, PLAIN, CaptureError, StepGraphs
from regard.training.config import TrainConfig
from regard.training.optimizers import make_optimizer
from regard.training.step import Stepper
from tests.decode.tape import TapeRecorder

VOCABULARY, STEPS = 50, 14
TINY = GPTConfig(width=32, heads=2, layers=2, feedforward=64, maximum_length=16, dropout=0.0)
CONFIG = TrainConfig(steps=STEPS, optimizer="adamw", learning_rate=3e-3, warmup=4, schedule="cosine", clip=0.5, weight_decay=0.1)


class Again:
    """Not recorded at all: the step is run once more. What a recording must do, by the plainest means."""

    def __init__(self) -> None:
        self.recorded = 0

    def warm_up(self, step: Step) -> None:
        step()

    def record(self, step: Step) -> Step:
        self.recorded += 1
        return step


class Never(Again):
    def record(self, step: Step) -> Step:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")


def windows(apart: bool = False, packed: bool = False) -> Windows:
    ids = np.random.default_rng(0).integers(0, VOCABULARY, 16 * 40).astype(np.uint16)
    return Windows(ids, 16, 64, seed=1, starts=np.arange(0, len(ids), 23), apart=apart, packed=packed)


def trained(
    prepare: Callable[[Stepper], None], config: TrainConfig = CONFIG, device: str = "cpu", apart: bool = False
) -> tuple[nn.Module, Stepper]:
    model = GPT(TINY, VOCABULARY).to(device)
    loader = Loader(windows(apart, packed=config.precision == "bf16" and apart))
    stepper = Stepper(model, CausalLMLoss(CausalLMConfig()), loader, make_optimizer(model, config), config, print)
    prepare(stepper)
    model.train()
    for step in range(1, STEPS + 1):
        stepper(step, loader.work(step - 1), config.learning_rate / step)
    return model, stepper


def by(recorder: Again) -> Callable[[Stepper], None]:
    def prepare(stepper: Stepper) -> None:
        stepper.graphs = StepGraphs(torch.device("cpu"), recorder)

    return prepare


def plainly(stepper: Stepper) -> None:
    stepper.graphs = None


def alike(one: nn.Module, other: nn.Module, tolerance: float = 1e-4) -> None:
    """By what they say: a weight whose gradient is nothing but rounding, as the bias of a key, Adam may lead anywhere."""
    device = next(one.parameters()).device
    ids = torch.arange(48, device=device).view(3, 16)
    with torch.no_grad():
        torch.testing.assert_close(one.eval()(ids), other.eval()(ids), rtol=tolerance, atol=tolerance)


def test_batches_are_copied_into_the_one_that_was_recorded() -> None:
    recorder = Again()
    (found, stepper), (expected, plain) = trained(by(recorder)), trained(plainly)
    alike(found, expected)
    assert recorder.recorded >= 1
    assert stepper.read_stats().loss == pytest.approx(plain.read_stats().loss, rel=1e-5)
    assert all(isinstance(group["lr"], float) for group in stepper.optimizer.param_groups)  # as checkpoints have it


def test_what_cannot_be_recorded_is_said_and_trained_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found, stepper = trained(by(Never()))
    alike(found, trained(plainly)[0])
    assert stepper.graphs is None
    said = capsys.readouterr().out
    assert said.count("cannot be captured as CUDA graphs (operation not permitted when stream is capturing)") == 1


@pytest.mark.parametrize("apart", [False, True])
def test_a_pass_asks_the_host_for_nothing(apart: bool) -> None:
    """The tape refuses what would make a capture fail."""
    model, loader = GPT(TINY, VOCABULARY).train(), Loader(windows(apart))
    stepper = Stepper(model, CausalLMLoss(CausalLMConfig()), loader, make_optimizer(model, CONFIG), CONFIG, print)
    (batch,) = loader.work(0).batches
    TapeRecorder().record(lambda: stepper._pass([batch], 0))  # type: ignore[arg-type]


def numbered(length: int, documents: Packing | None = None) -> WindowBatch:
    ids = torch.arange(length)[None]
    return WindowBatch(ids, ids, length, documents)


def test_each_shape_is_recorded_once_and_only_so_many() -> None:
    recorder, seen = Again(), list[Tensor]()
    recordings = StepGraphs(torch.device("cpu"), recorder)
    for length in [4] * (PLAIN + 3) + [5] * (PLAIN - 1) + [n for n in range(6, 6 + MOST + 4) for _ in range(PLAIN + 1)]:
        recordings.learn(numbered(length), lambda batch: seen.append(batch.ids_BL.clone()))
        assert seen[-1].shape == (1, length)
    assert recorder.recorded == MOST


def test_likeness_is_of_shapes_and_of_what_kernels_are_told() -> None:
    packed = [Packing.of(lengths, longest) for lengths, longest in (([3, 5], 8), ([4, 4], 8), ([8], 8), ([3, 5], 16))]
    one, other_lengths, fewer, longer = (shape_key(numbered(8, packing)) for packing in packed)
    assert one == other_lengths
    assert len({one, fewer, longer, shape_key(numbered(8)), shape_key(numbered(9))}) == 5


def test_a_failed_recording_tells_its_first_line() -> None:
    recordings = StepGraphs(torch.device("cpu"), Never())
    for _ in range(PLAIN):
        recordings.learn(numbered(4), lambda batch: None)
    with pytest.raises(CaptureError, match=r"^operation not permitted when stream is capturing$"):
        recordings.learn(numbered(4), lambda batch: None)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_gpu_records_and_learns_the_same(optimizer: str, precision: str, apart: bool) -> None:
    config = replace(CONFIG, optimizer=optimizer, weight_decay=0.0, precision=precision)  # type: ignore[arg-type]
    run = partial(trained, config=config, device="cuda", apart=apart)
    (found, stepper), (expected, plain) = run(lambda stepper: None), run(plainly)
    assert stepper.graphs is not None
    assert stepper.graphs.captured
    alike(found, expected, 1e-4 if precision == "fp32" else 2e-2)
    assert stepper.read_stats().loss == pytest.approx(plain.read_stats().loss, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("setting", ["dropout", "drop_path"])
def test_dropout_is_drawn_anew_in_every_replay(setting: str) -> None:
    """And as it would be without: the seed of a step decides."""
    with patch("tests.training.test_cuda_graphs.TINY", replace(TINY, **{setting: 0.3})):
        (found, stepper), (expected, _) = trained(lambda stepper: None, device="cuda"), trained(plainly, device="cuda")
    assert stepper.graphs is not None
    assert stepper.graphs.captured
    alike(found, expected)


@pytest.mark.gpu
def test_after_a_recording_that_failed_dropout_draws_as_before() -> None:
    device = torch.device("cuda")
    recordings, x = StepGraphs(device), torch.zeros(4, device=device)

    def asks(batch: WindowBatch) -> None:
        nn.functional.dropout(x, 0.5)
        if torch.cuda.is_current_stream_capturing():
            x.sum().item()

    for _ in range(PLAIN):
        recordings.learn(numbered(4), asks)
    with pytest.raises(CaptureError):
        recordings.learn(numbered(4), asks)
    torch.manual_seed(3)
    found = torch.rand(5, device=device)
    torch.manual_seed(3)
    assert found.tolist() == torch.rand(5, device=device).tolist()

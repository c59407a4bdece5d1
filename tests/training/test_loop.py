"""The loop keeps its promise: killed anywhere and started again, a run ends with the same weights, bit for bit."""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.data.batching.pairs import Batch, EncodedPairs, PairBatches, Ragged
from regard.data.loader import Loader
from regard.model.embedding import VocabularyHead
from regard.objectives.base import Loss, Objective
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.text.specials import PAD
from regard.training.checkpoint import Store
from regard.training.config import TrainConfig
from regard.training.logging import RunLog, read_metrics
from regard.training.loop import Validate, Validation, train
from regard.training.progress import Interrupt, Progress, catch_signals
from regard.training.resume import average, resume

VOCABULARY = 9
DATA = EncodedPairs(
    Ragged([[4 + n % 5] * (1 + n % 4) for n in range(40)]), Ragged([[4 + (n + 1) % 5] * (1 + n % 3) for n in range(40)])
)
SHORT = TrainConfig(
    steps=12, tokens_per_batch=20, learning_rate=0.05, warmup=3, log_every=1, validate_every=4, checkpoint_every=3, seed=7
)


NEVER = Interrupt()


class Tiny(nn.Module):
    """The mean of the source and the last word, through a linear layer: enough to learn from, with dropout to draw."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.dropout = nn.Dropout(dropout)
        self.head = VocabularyHead(8, VOCABULARY, bias=True)

    def forward(self, source_BM: Tensor, source_lengths_B: Tensor, target_in_BL: Tensor) -> Tensor:
        return self.head(self.hidden(source_BM, source_lengths_B, target_in_BL))

    def hidden(self, source_BM: Tensor, source_lengths_B: Tensor, target_in_BL: Tensor) -> Tensor:
        words_BM1 = (source_BM != PAD)[..., None]
        mean_B1D = (self.embed(source_BM) * words_BM1).sum(1, keepdim=True) / source_lengths_B[:, None, None]
        return self.dropout(mean_B1D + self.embed(target_in_BL))


class Killed(BaseException):
    """As good as SIGKILL: nobody here catches it."""


TRANSLATION = Seq2SeqLoss(Seq2SeqConfig())


class Fails:
    """An objective that does something terrible in its nth call."""

    def __init__(self, nth: int, terrible: Callable[[Loss], Loss]) -> None:
        self.nth, self.terrible, self.calls = nth, terrible, 0

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        self.calls += 1
        loss = TRANSLATION(model, batch)
        return self.terrible(loss) if self.calls == self.nth else loss


def kill(loss: Loss) -> Loss:
    raise Killed


def judge(model: nn.Module) -> Validation:
    """A validation that draws random numbers, as sampling would, and must not disturb the training."""
    assert not model.training
    torch.rand(3)
    with torch.no_grad():
        losses = [TRANSLATION(model, batch) for batch in Loader(PairBatches(DATA, 100, 0)).work(0).batches]
    return Validation({"nll": sum(loss.parts["nll"].item() / loss.count for loss in losses)}, ["a sample"])


def scripted(*losses: float) -> Validate:
    """Validations with these results, one after the other."""
    remaining = iter(losses)
    return lambda model: Validation({"nll": next(remaining)}, [])


def run(
    folder: Path,
    config: TrainConfig = SHORT,
    objective: Objective = TRANSLATION,
    validate: Validate = judge,
    interrupt: Interrupt = NEVER,
    model: nn.Module | None = None,
) -> tuple[nn.Module, Progress]:
    """What `regard train` does: continue from what is in the folder, or begin."""
    folder.mkdir(exist_ok=True)
    store = Store(folder / "checkpoints")
    model = model or Tiny()
    optimizer, progress = resume(store, config, model)
    log = RunLog(folder, config.steps, progress.step)
    loader = Loader(PairBatches(DATA, config.tokens_per_batch, config.seed), accumulate=config.accumulate)
    progress = train(model, objective, loader, validate, config, store, log, progress, optimizer, interrupt)
    return model, progress


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def saved(folder: Path, kind: str, part: str = "model") -> dict[str, Tensor]:
    checkpoint = Store(folder / "checkpoints").newest(kind)
    assert checkpoint is not None
    return checkpoint.tensors(part)


def records(folder: Path) -> list[dict[str, Any]]:
    """All but the speed, which no two runs share."""
    return [{k: v for k, v in r.items() if k != "tokens_per_second"} for r in read_metrics(folder / "metrics.jsonl").records]


@pytest.fixture(autouse=True)
def nothing_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disks and pictures have tests of their own."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr("regard.training.logging.draw_curves", lambda records, path: None)


# ------------------------------------------------------------------------------------------------------------- it learns


def test_the_loss_falls_and_everything_is_counted(tmp_path: Path) -> None:
    model, progress = run(tmp_path, replace(SHORT, steps=40))
    logged = [record for record in records(tmp_path) if "loss" in record]
    assert [record["step"] for record in logged] == list(range(1, 41))
    assert logged[-1]["loss"] < 0.8 * logged[0]["loss"]
    loader = Loader(PairBatches(DATA, 20, 7))
    assert progress.tokens == sum(batch.tokens for step in range(40) for batch in loader.work(step).batches)
    assert (progress.step, model.training) == (40, True)


def test_each_step_is_the_one_written_out_by_hand(tmp_path: Path) -> None:
    config = replace(SHORT, steps=3, clip=0.5)
    model, _ = run(tmp_path, config, model=Tiny(dropout=0.0))
    reference = Tiny(dropout=0.0)
    optimizer = torch.optim.Adam(reference.parameters(), betas=(0.9, 0.98), eps=1e-9)
    loader = Loader(PairBatches(DATA, 20, 7))
    for step in (1, 2, 3):
        optimizer.param_groups[0]["lr"] = 0.05 * step / 3
        (batch,) = loader.work(step - 1).batches
        logits_BLV = reference(batch.source_BM, batch.source_lengths_B, batch.target_in_BL)
        loss = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)(logits_BLV.mT, batch.target_out_BL)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad.square().sum() for p in reference.parameters() if p.grad is not None), torch.zeros(())))
        for parameter in reference.parameters():
            assert parameter.grad is not None
            parameter.grad *= min(1.0, 0.5 / norm.item())
        optimizer.step()
        assert records(tmp_path)[step - 1]["norm"] == pytest.approx(norm.item(), rel=1e-4)
        assert records(tmp_path)[step - 1]["loss"] == pytest.approx(loss.item(), rel=1e-4)
    for one, other in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("accumulate", [2, 3, 50])
def test_micro_batches_sum_to_the_whole_batch(tmp_path: Path, accumulate: int) -> None:
    whole, _ = run(tmp_path / "whole", model=Tiny(dropout=0.0))
    parts, progress = run(tmp_path / "parts", replace(SHORT, accumulate=accumulate), model=Tiny(dropout=0.0))
    for one, other in zip(whole.parameters(), parts.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert [r["loss"] for r in records(tmp_path / "parts") if "loss" in r] == pytest.approx(
        [r["loss"] for r in records(tmp_path / "whole") if "loss" in r], rel=1e-4
    )
    assert progress.tokens == sum(Loader(PairBatches(DATA, 20, 7)).work(step).tokens for step in range(12))


def test_micro_batches_do_not_share_a_dropout_mask(tmp_path: Path) -> None:
    masks: list[Tensor] = []

    def watching(model: nn.Module, batch: Batch) -> Loss:
        state = torch.get_rng_state()
        masks.append(torch.rand(8))
        torch.set_rng_state(state)
        return TRANSLATION(model, batch)

    run(tmp_path, replace(SHORT, steps=4, accumulate=2), watching, validate=scripted(1.0))
    loader = Loader(PairBatches(DATA, 20, 7), accumulate=2)
    assert len(masks) == sum(len(loader.work(step).batches) for step in range(4)) > 4
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(masks, 2))


# ---------------------------------------------------------------------------------------------------- killed and begun again


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("killed_in", [1, 3, 4, 5, 8, 12])
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, killed_in: int, accumulate: int) -> None:
    config = replace(SHORT, accumulate=accumulate)
    whole, told = run(tmp_path / "whole", config)
    with pytest.raises(Killed):
        run(tmp_path / "killed", config, Fails(killed_in, kill))  # with two micro-batches, also between them
    again, told_again = run(tmp_path / "killed", config)
    assert equal(weights(whole), weights(again))
    assert equal(saved(tmp_path / "whole", "best"), saved(tmp_path / "killed", "best"))
    assert equal(saved(tmp_path / "whole", "step", "optimizer"), saved(tmp_path / "killed", "step", "optimizer"))
    assert replace(told, seconds=0.0, joules=0.0) == replace(told_again, seconds=0.0, joules=0.0)
    assert records(tmp_path / "whole") == records(tmp_path / "killed")
    assert names(tmp_path / "whole") == names(tmp_path / "killed")


def test_an_interrupt_saves_the_step_in_hand_and_stops(tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "whole")
    interrupt = Interrupt()

    def ask(loss: Loss) -> Loss:
        interrupt.signal = signal.SIGTERM
        return loss

    _, stopped = run(tmp_path / "asked", objective=Fails(5, ask), interrupt=interrupt)
    assert stopped.step == 5
    assert interrupt.exit_code == 143
    assert "step-00000005" in names(tmp_path / "asked")
    again, progress = run(tmp_path / "asked")
    assert progress.step == 12
    assert equal(weights(whole), weights(again))


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    whole, progress = run(tmp_path)
    before = names(tmp_path)
    again, unchanged = run(tmp_path, objective=Fails(1, kill), validate=scripted())
    assert unchanged == progress
    assert equal(weights(whole), weights(again))
    assert names(tmp_path) == before


def test_a_finished_run_may_go_on(tmp_path: Path) -> None:
    config = replace(SHORT, schedule="constant")
    whole, _ = run(tmp_path / "whole", replace(config, steps=20))
    run(tmp_path / "longer", config)
    longer, progress = run(tmp_path / "longer", replace(config, steps=20))
    assert progress.step == 20
    assert equal(weights(whole), weights(longer))


# --------------------------------------------------------------------------------------------------------------- divergence


def to_nan(loss: Loss) -> Loss:
    return replace(loss, total=loss.total * math.nan)


def to_infinity(loss: Loss) -> Loss:
    return replace(loss, total=loss.total + math.inf)


def to_bad_gradient(loss: Loss) -> Loss:
    return replace(loss, total=loss.total + (loss.total * 0).sqrt())  # finite, but its slope is not


@pytest.mark.parametrize("terrible", [to_nan, to_infinity, to_bad_gradient])
def test_a_loss_that_is_no_number_stops_the_run_and_is_not_kept(tmp_path: Path, terrible: Callable[[Loss], Loss]) -> None:
    reached, _ = run(tmp_path / "good", replace(SHORT, steps=5, schedule="constant"))
    model = Tiny()
    with pytest.raises(UserError) as caught:
        run(tmp_path / "bad", replace(SHORT, schedule="constant"), Fails(6, terrible), model=model)
    for part in ("in step 6", "step-00000003 is the newest good checkpoint", "Lower train.learning_rate"):
        assert part in str(caught.value)
    assert names(tmp_path / "bad") == ["best-00000004", "step-00000003"]
    assert equal(weights(model), weights(reached))
    assert max(record["step"] for record in records(tmp_path / "bad")) == 5


def test_without_a_checkpoint_the_sentence_promises_none(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run(tmp_path, objective=Fails(1, to_nan))
    assert "in step 1" in str(caught.value)
    assert "newest good checkpoint" not in str(caught.value)


@pytest.mark.parametrize("every", [{"validate_every": 1}, {"checkpoint_every": 1}])
def test_weights_that_burst_between_two_losses_are_told_too(tmp_path: Path, every: dict[str, int]) -> None:
    """The step that overflows them had a finite loss; validating or saving comes before the next one."""
    config = replace(SHORT, learning_rate=1e39, schedule="constant", warmup=0, **every)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"Lower train\.learning_rate"):
        run(tmp_path, config)
    assert all(torch.isfinite(value).all() for kind in ("best", "step") for value in all_saved(tmp_path, kind))


def all_saved(folder: Path, kind: str) -> list[Tensor]:
    return [value for checkpoint in Store(folder / "checkpoints").all(kind) for value in checkpoint.tensors("model").values()]


@pytest.mark.parametrize("losses", [(math.nan,), (2.0, math.nan), (math.inf,)])
def test_a_validation_that_is_no_number_stops_the_run(tmp_path: Path, losses: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match=f"in step {4 * len(losses)}"):
        run(tmp_path, validate=scripted(*losses))
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()


# ------------------------------------------------------------------------------------------------- the best, the last, the mean


def test_the_best_is_kept_and_nothing_else_of_its_kind(tmp_path: Path) -> None:
    reached, _ = run(tmp_path / "short", replace(SHORT, steps=8, schedule="constant"), validate=scripted(3.0, 2.0))
    _, progress = run(tmp_path / "long", replace(SHORT, schedule="constant"), validate=scripted(3.0, 2.0, 2.5))
    assert (progress.best, progress.best_step, progress.worse) == (2.0, 8, 1)
    assert [name for name in names(tmp_path / "long") if "best" in name] == ["best-00000008"]
    assert equal(saved(tmp_path / "long", "best"), weights(reached))


def test_another_figure_can_say_which_is_the_best(tmp_path: Path) -> None:
    figures = iter([(3.0, 0.5), (2.0, 0.7), (2.5, 0.9), (2.4, 0.8)])

    def validate(model: nn.Module) -> Validation:
        nll, accuracy = next(figures)
        return Validation({"nll": nll, "accuracy": accuracy}, [])

    _, progress = run(tmp_path, replace(SHORT, best="accuracy"), validate=validate)
    assert (progress.best, progress.best_step) == (0.9, 12)


def test_of_equal_figures_the_one_with_the_lower_loss_is_the_best(tmp_path: Path) -> None:
    figures = iter([(3.0, 0.8), (2.0, 0.9), (1.5, 0.9), (1.8, 0.9), (1.0, 0.8)])

    def validate(model: nn.Module) -> Validation:
        nll, accuracy = next(figures)
        return Validation({"nll": nll, "accuracy": accuracy}, [])

    _, progress = run(tmp_path, replace(SHORT, steps=20, best="accuracy"), validate=validate)
    assert (progress.best, progress.best_nll, progress.best_step, progress.worse) == (0.9, 1.5, 12, 2)


def test_a_figure_that_nobody_measures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train\.best=f1 is not what this task is validated by; take one of: nll\."):
        run(tmp_path, replace(SHORT, best="f1"), validate=scripted(3.0))


def test_an_equal_loss_is_not_better(tmp_path: Path) -> None:
    _, progress = run(tmp_path, validate=scripted(2.0, 2.0, 2.0))
    assert (progress.best_step, progress.worse) == (4, 2)


def test_patience_ends_a_run_and_its_end_is_remembered(tmp_path: Path) -> None:
    config = replace(SHORT, steps=40, patience=2)
    _, progress = run(tmp_path, config, validate=scripted(3.0, 2.0, 2.5, 2.1, 1.0))
    assert (progress.step, progress.best, progress.best_step) == (16, 2.0, 8)
    assert names(tmp_path)[-1] == "step-00000016"
    _, again = run(tmp_path, config, validate=scripted(1.0))
    assert again == progress


def test_a_better_loss_renews_patience(tmp_path: Path) -> None:
    _, progress = run(tmp_path, replace(SHORT, steps=20, patience=2), validate=scripted(3.0, 4.0, 2.0, 4.0, 1.0))
    assert (progress.step, progress.best_step) == (20, 20)


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    run(tmp_path, replace(SHORT, keep=2))
    assert [name for name in names(tmp_path) if "step" in name] == ["step-00000009", "step-00000012"]


def test_the_average_is_the_mean_of_the_last(tmp_path: Path) -> None:
    run(tmp_path)
    store = Store(tmp_path / "checkpoints")
    by_step = {checkpoint.step: checkpoint.tensors("model") for checkpoint in store.all("step")}
    assert list(by_step) == [3, 6, 9, 12]
    average(store, 3, 12)
    for name, mean in saved(tmp_path, "average").items():
        torch.testing.assert_close(mean, (by_step[6][name] + by_step[9][name] + by_step[12][name]) / 3)
        assert mean.dtype == by_step[12][name].dtype
    found = store.newest("average")
    assert found is not None
    assert found.state["of"] == ["step-00000006", "step-00000009", "step-00000012"]


# -------------------------------------------------------------------------------------------------------------- time and signals


def test_speed_and_time_leave_validation_out_of_one_and_in_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def takes_a_second(model: nn.Module, batch: Batch) -> Loss:
        now[0] += 1.0
        return TRANSLATION(model, batch)

    def takes_a_minute(model: nn.Module) -> Validation:
        now[0] += 60.0
        return Validation({"nll": 1.0}, [])

    _, progress = run(tmp_path, replace(SHORT, log_every=6), takes_a_second, takes_a_minute)
    logged = [r["tokens_per_second"] for r in read_metrics(tmp_path / "metrics.jsonl").records if "loss" in r]
    loader = Loader(PairBatches(DATA, 20, 7))
    tokens = [sum(batch.tokens for batch in loader.work(step).batches) for step in range(12)]
    assert logged == [round(sum(tokens[:6]) / 6), round(sum(tokens[6:]) / 6)]
    assert progress.seconds == 12 + 2 * 60  # at the last step, the third validation is still to come


def test_a_signal_asks_and_a_second_one_insists() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with catch_signals() as interrupt:
        assert not interrupt
        signal.raise_signal(signal.SIGTERM)
        assert interrupt
        assert interrupt.exit_code == 143
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_beside_the_main_thread_nobody_listens() -> None:
    seen = []

    def work() -> None:
        with catch_signals() as interrupt:
            seen.append((bool(interrupt), signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]

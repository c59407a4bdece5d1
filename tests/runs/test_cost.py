"""What a recipe is said to cost follows what it does."""

import re
import signal
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.commands.train import dry_run_lines, train_run
from regard.core.errors import UserError
from regard.data.batching.pairs import make_batch
from regard.objectives.seq2seq import Seq2SeqLoss
from regard.runs.cost import estimate, spent, training_flops
from regard.runs.recipe import load_recipe
from regard.tasks.translation.predict import build_translator
from regard.tasks.translation.prepare import prepare
from regard.training.progress import Interrupt, Progress, catch_signals

TINY = ["data.limit=300", "model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16", "data.test="]
CPU = torch.device("cpu")
SHORT = ["train.steps=4", "train.warmup=1", "train.tokens_per_batch=400", "train.validate_every=4", "train.checkpoint_every=4"]


def quiet(line: str) -> None: ...


def test_two_passes_cost_twice():
    """R-Drop puts every batch through the model twice."""
    once, twice = (load_recipe("translate", [*TINY, f"objective.r_drop={a}"]) for a in (0, 5))
    prepared = prepare(once, None, quiet)
    assert training_flops(replace(prepared, recipe=twice), 1000) == 2 * training_flops(prepared, 1000) > 0


def test_compiled_training_is_the_same_training(tmp_path, monkeypatch):
    """Whole graphs, lengths that vary, and the same weights at the end; only traced, without a C++ compiler."""
    calls, original = [], torch.compile

    def traced(model, **options):
        calls.append(options)
        return original(model, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", traced)
    monkeypatch.setattr("regard.model.layers.ONEDNN", False)  # compiled products are PyTorch's; Adam amplifies rounding
    found = []
    for setting in ("false", "true"):
        recipe = load_recipe("translate", [*TINY, *SHORT, f"train.compile={setting}"])
        outcome = train_run(recipe, tmp_path / setting, CPU, quiet)
        found.append(outcome.run.store().newest("step").tensors("model"))
    assert calls
    assert all(options["fullgraph"] for options in calls)
    for name, tensor in found[0].items():
        torch.testing.assert_close(found[1][name], tensor, atol=1e-4, rtol=1e-3)


def test_operations_are_those_that_torch_counts():
    """On pairs of average length; torch counts no products with embeddings, biases and norms either."""
    recipe = load_recipe("translate", ["data.limit=300"])
    prepared = prepare(recipe, None, quiet)
    lengths = [round(side.lengths.mean()) for side in (prepared.train.source, prepared.train.target)]
    pairs = zip(prepared.train.source.lengths, prepared.train.target.lengths)
    rows = [row for row, pair in enumerate(pairs) if list(pair) == lengths]
    batch = make_batch(prepared.train, rows)
    with FlopCounterMode(display=False) as counted:
        Seq2SeqLoss(recipe.objective)(build_translator(recipe, prepared.tokenizers), batch).total.backward()
    assert training_flops(prepared, batch.tokens) == pytest.approx(counted.get_total_flops(), rel=0.05)


def test_a_run_states_what_it_has_spent(tmp_path):
    outcome = train_run(load_recipe("translate", [*TINY, *SHORT]), tmp_path / "run", CPU, quiet)
    progress = outcome.progress
    assert progress.metered
    assert 0 < progress.joules < 1000 * (1 + progress.seconds)
    ledger = spent(outcome.prepared, progress, CPU)
    assert (ledger.steps, ledger.tokens, ledger.joules, ledger.peak) == (4, progress.tokens, progress.joules, None)
    card = (tmp_path / "run" / "README.md").read_text().split("## Cost\n")[1].split("\n\n")[0]
    assert card.splitlines()[:-1] == [f"- {line}" for line in ledger.lines()]
    assert "CPU" in card.splitlines()[-1]


def test_energy_adds_up_over_the_parts_of_a_run(tmp_path, monkeypatch):
    """Stopped after its first step and continued where another meter hangs."""
    recipe = load_recipe("translate", [*TINY, *SHORT])
    stopped = Interrupt(signal.SIGINT)
    for joules, how, interrupt in ((5.0, "measured by RAPL", nullcontext(stopped)), (7.0, "measured by NVML", catch_signals())):
        meter = SimpleNamespace(joules=lambda joules=joules: joules, how=how)
        monkeypatch.setattr("regard.training.loop.Meter", SimpleNamespace(of=lambda *_, meter=meter: meter))
        monkeypatch.setattr("regard.commands.train.catch_signals", lambda interrupt=interrupt: interrupt)
        progress = train_run(recipe, tmp_path / "run", CPU, quiet).progress
    assert (progress.step, progress.joules, progress.metered) == (4, 12.0, "measured by RAPL + measured by NVML")


def test_parts_of_several_kinds_are_one_sum():
    recipe = load_recipe("translate", TINY)
    progress = Progress(step=4, tokens=1000, seconds=2.0, joules=7.2e6, metered="measured by RAPL + measured by NVML")
    line = spent(prepare(recipe, None, quiet), progress, CPU).energy()
    assert line.startswith("2.00 kWh (measured by RAPL + measured by NVML), ")


def test_a_plan_states_the_same_before_the_run():
    recipe = load_recipe("translate", [*TINY, *SHORT])
    prepared = prepare(recipe, None, quiet)
    plan = estimate(prepared, CPU)
    assert plan.ledger.flops == training_flops(prepared, plan.ledger.tokens)
    assert plan.ledger.joules == pytest.approx(12 * torch.get_num_threads() * plan.ledger.seconds)
    lines = plan.lines()
    labels = [re.split(r"  +", line)[0] for line in lines]
    assert labels == ["parameters", "training memory", "batches an epoch", "target tokens", "operations", "time", "energy"]
    assert "(estimated: 12 W a busy core)" in lines[-1]
    assert "CO2 at 445 g/kWh" in lines[-1]


def test_planned_tokens_are_those_of_an_epoch():
    """Every batch of an epoch is of another size; a whole epoch has every target token once, and an end for every pair."""
    recipe = load_recipe("translate", [*TINY, "train.tokens_per_batch=400"])
    prepared = prepare(recipe, None, quiet)
    batches = estimate(prepared, CPU).batches_per_epoch
    epoch = replace(recipe, train=replace(recipe.train, steps=batches, warmup=1))
    assert estimate(replace(prepared, recipe=epoch), CPU).ledger.tokens == prepared.train.target.lengths.sum() + len(
        prepared.train
    )


def test_a_plan_takes_the_grid_of_the_setting(monkeypatch):
    recipe = load_recipe("translate", [*TINY, *SHORT])
    monkeypatch.setenv("REGARD_GRAMS_CO2_PER_KWH", "20")
    assert "CO2 at 20 g/kWh" in dry_run_lines(recipe, CPU, quiet)[-1]
    monkeypatch.setenv("REGARD_GRAMS_CO2_PER_KWH", "little")
    with pytest.raises(UserError, match="REGARD_GRAMS_CO2_PER_KWH=little"):
        dry_run_lines(recipe, CPU, quiet)

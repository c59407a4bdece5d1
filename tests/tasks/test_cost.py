"""What a recipe is said to cost follows what it does."""

import torch

from regard.recipe import load_recipe
from regard.tasks.cost import training_flops
from regard.tasks.training import train_run
from regard.tasks.translate import prepare

TINY = ["data.limit=300", "model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16", "data.test="]
SHORT = ["train.steps=4", "train.warmup=1", "train.tokens_per_batch=400", "train.validate_every=4", "train.checkpoint_every=4"]


def test_two_passes_cost_twice():
    """R-Drop puts every batch through the model twice."""
    once, twice = (load_recipe("translate", [*TINY, f"objective.agreement={a}"]) for a in (0, 5))
    prepared = prepare(once, None, lambda line: None)
    assert training_flops(twice, prepared, 1000) == 2 * training_flops(once, prepared, 1000) > 0


def test_compiled_training_is_the_same_training(tmp_path, monkeypatch):
    """Whole graphs, lengths that vary, and the same weights at the end; aot_eager traces without a C++ compiler."""
    calls, original = [], torch.compile

    def traced(model, **options):
        calls.append(options)
        return original(model, backend="aot_eager", **options)

    monkeypatch.setattr(torch, "compile", traced)
    found = []
    for setting in ("false", "true"):
        recipe = load_recipe("translate", [*TINY, *SHORT, f"train.compile={setting}"])
        outcome = train_run(recipe, tmp_path / setting, torch.device("cpu"), lambda line: None)
        found.append(outcome.run.store().newest("step").tensors("model"))
    assert len(calls) == 1
    assert calls[0]["fullgraph"]
    for name, tensor in found[0].items():
        torch.testing.assert_close(found[1][name], tensor, atol=1e-4, rtol=1e-3)

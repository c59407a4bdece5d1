"""Low-rank adapters: what learns, that merging changes no output, and that a run continues bit for bit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.commands.train import dry_run_lines
from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.families.classifier import Classifier
from regard.runs.folder import Run
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.runs.recipe import load_recipe
from regard.tasks.language_model.prepare import prepare
from regard.tasks.registry import open_run
from regard.training.config import ADAPTABLE, TrainConfig
from regard.training.lora import AdaptedLinear, adapt, adapters_of, counted, merged, merged_state
from regard.training.optimizers import make_optimizer
from tests.decode.searches import greedy
from tests.tasks.tiny_text import last_weights, quiet, stories, train_as, trained, write_stories

SMALL: dict[str, Any] = dict(width=24, heads=4, layers=2, feedforward=40, dropout=0.0)
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("transformer", {"feedforward_kind": "gated", "activation": "silu", "bias": False, "norm": "rms"}),
    ("gpt", {}),
    ("gpt", {"kv_heads": 2, "position": "rotary"}),
    ("gpt", {"mixer": "favor", "position": "sinusoidal"}),
    ("bert", {}),
    ("encoder", {}),
]
WIDE = TrainConfig(steps=1, lora=3, lora_alpha=6.0, lora_targets=ADAPTABLE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def build(family: str, settings: dict[str, Any], heads: Heads | None = None) -> nn.Module:
    found = FAMILIES[family]
    sizes = Sizes(vocabulary=30) if heads is None else Sizes(vocabulary=30, heads=heads)
    model = found.build(found.config(**SMALL | settings), sizes, 3)
    return Classifier(model, 3, 4) if heads is not None else model


def inputs(model: nn.Module, family: str) -> tuple[Any, ...]:
    torch.manual_seed(5)
    body: Any = getattr(model, "body", model)
    return FAMILIES[family].example(body.config, Sizes(vocabulary=30), 2, 7)


def shaken(model: nn.Module) -> nn.Module:
    """Adapters as after a training: B is no longer 0."""
    torch.manual_seed(6)
    for name, parameter in model.named_parameters():
        if name.endswith(".up"):
            nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize(("family", "settings"), MODELS)
def test_a_new_adapter_changes_nothing_and_merging_changes_no_output(family: str, settings: dict[str, Any]) -> None:
    plain = build(family, settings).eval()
    given = inputs(plain, family)
    with torch.no_grad():
        before = plain(*given)
    model = adapt(build(family, settings), WIDE).eval()
    with torch.no_grad():
        assert torch.equal(model(*given), before)
        moved = shaken(model)(*given)
        assert (moved - before).abs().max() > 1e-3
        plain.load_state_dict(merged(model.state_dict(), WIDE.lora_scale))
        torch.testing.assert_close(plain(*given), moved, atol=2e-5, rtol=1e-4)
    assert all(torch.equal(tensor, merged_state(model)[name]) for name, tensor in plain.state_dict().items())


@pytest.mark.parametrize(("family", "settings"), MODELS)
def test_only_adapters_learn_and_only_they_have_optimizer_state(family: str, settings: dict[str, Any]) -> None:
    model = shaken(adapt(build(family, settings), WIDE))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, replace(WIDE, optimizer="adamw", weight_decay=0.1))
    out = model(*inputs(model, family))
    (out[0] if isinstance(out, tuple) else out).square().sum().backward()
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {name for name in before if ".adapters." in name}
    held = {id(parameter) for parameter in optimizer.state}
    assert held == {id(parameter) for name, parameter in model.named_parameters() if ".adapters." in name}
    assert counted(model).trained == sum(p.numel() for p in model.parameters() if id(p) in held)


def test_a_freshly_trained_head_learns_too() -> None:
    model = adapt(build("bert", {}, Heads(words=False, pooler=True)), WIDE)
    learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {re.sub(r".*\.(classes|pooler|adapters)\..*|^(classes)\..*", r"\1\2", name) for name in learns} == {
        "classes",
        "pooler",
        "adapters",
    }


@pytest.mark.parametrize("targets", [("query",), ("key",), ("value",), ("query", "value"), ("out", "gate")])
@pytest.mark.parametrize("kv_heads", [0, 2])
def test_targets_are_the_matrices_of_these_names_alone(targets: tuple[str, ...], kv_heads: int) -> None:
    settings = {"kv_heads": kv_heads, "feedforward_kind": "gated"}
    plain = build("transformer", settings)
    model = shaken(adapt(build("transformer", settings), replace(WIDE, lora_targets=targets)))
    moved = merged_state(model)
    key, width = 24 // 4 * (kv_heads or 4), 24
    rows = {"query": (0, width), "key": (width, width + key), "value": (width + key, width + 2 * key)}
    for name, tensor in plain.state_dict().items():
        differs = (moved[name] != tensor).flatten(1).any(1) if tensor.dim() > 1 else (moved[name] != tensor)
        expected = torch.zeros_like(differs)
        kind = name.split(".")[-2]
        if name.endswith("self.layer.project.weight"):
            for target in set(targets) & set(rows):
                expected[slice(*rows[target])] = True
        elif name.endswith("cross.layer.project.weight"):
            for target in set(targets) & {"key", "value"}:
                first = {"key": 0, "value": key}[target]
                expected[first : first + key] = True
        elif name.endswith("weight") and kind in targets:
            expected[:] = True
        assert torch.equal(differs, expected), name
    assert {part.name for part in adapters_of(model.state_dict())} == set(targets)


def test_dropout_is_of_what_adapters_read_alone() -> None:
    model = shaken(adapt(build("gpt", {}), replace(WIDE, lora_dropout=0.5)))
    given = inputs(model, "gpt")
    first, second = model(*given), model(*given)
    assert not torch.equal(first, second)
    model.eval()
    assert torch.equal(model(*given), model(*given))


# --- a run --------------------------------------------------------------------------------------------------------------------
def recipe(folder: Path, *settings: str) -> Any:
    data = write_stories(folder / "new.jsonl", [text.replace("cat", "zebra") for text in stories(80, seed=4)])
    small = ["train.warmup=1", "train.learning_rate=1e-2", "train.validate_every=4", "train.checkpoint_every=4"]
    small += [
        "train.schedule=constant",
        "train.steps=8",
        "train.tokens_per_batch=128",
        "data.valid=",
        "data.test=",
        "data.window=16",
        "data.stride=0",
    ]
    small += ["decode.sliding_window=false", "decode.maximum_length=8", "train.optimizer=adamw"]
    given = [
        f"task.init_from={trained()}",
        f"data.train={data}",
        "train.lora=4",
        "train.lora_dropout=0.1",
        *small,
        *settings,
    ]
    return load_recipe_to_train("gpt", given)


def test_a_run_learns_decodes_and_is_a_start_for_another(tmp_path: Path) -> None:
    outcome = train_as(recipe(tmp_path, "train.snapshot_every=8"), tmp_path / "run")
    assert outcome.progress.best is not None
    base = start_of(str(trained())).weights
    saved = Run.open(tmp_path / "run").weights().tensors("model")
    assert all(torch.equal(saved[name], tensor) for name, tensor in base.items())
    assert any(".adapters." in name for name in saved)
    opened = open_run(tmp_path / "run", "cpu")
    expected = merged(saved, 16 / 4)
    found = opened.model.state_dict()
    assert found.keys() == base.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert all(torch.equal(start_of(str(tmp_path / "run")).weights[name], expected[name]) for name in expected)
    assert opened.write(["the cat"])[0][0].ids  # type: ignore[attr-defined]


def test_a_killed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    train_as(recipe(tmp_path), tmp_path / "one")
    train_as(recipe(tmp_path, "train.steps=4"), tmp_path / "two")
    train_as(recipe(tmp_path), tmp_path / "two")
    assert last_weights(tmp_path / "one") == last_weights(tmp_path / "two")


def test_the_checkpoint_of_the_optimizer_is_small(tmp_path: Path) -> None:
    train_as(recipe(tmp_path, "train.steps=4"), tmp_path / "run")
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    sizes = {path.stem: path.stat().st_size for path in newest.glob("*.safetensors")}
    assert sizes["optimizer"] < sizes["model"] / 2


def test_dry_run_says_what_learns_and_what_memory_that_saves(tmp_path: Path) -> None:
    chosen = recipe(tmp_path)
    text = "\n".join(dry_run_lines(chosen, torch.device("cpu"), quiet))
    model = prepare(chosen, None, quiet).model()
    every, learn = counted(model)
    assert f"{every:,}; train.lora=4 trains {learn:,} of them ({learn / every:.2%})" in text
    assert re.search(r"about \d+ MiB .*; \d+ MiB if all learned", text)
    assert isinstance(model.decoder.blocks[0].self_attention.project, AdaptedLinear)  # type: ignore[union-attr, index]


# --- refusals -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("train.lora=-1", "train.lora=-1 is the rank of adapters"),
        ("train.lora_targets=quary", r"quary is no matrix of a block.*query"),
        ("train.lora_targets=", "names no matrix"),
        ("train.lora_alpha=0", "train.lora_alpha=0"),
        ("train.lora_dropout=1", "train.lora_dropout=1"),
        ("train.optimizer=muon", r"train\.optimizer=muon is for whole matrices.*give train\.optimizer=adamw"),
        ("task.freeze=true", "task.freeze=true"),
    ],
)
def test_settings_that_cannot_be(setting: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        recipe(tmp_path, setting)


def test_without_trained_weights_there_is_nothing_to_adapt(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train\.lora=4 adapts trained weights.*give task\.init_from"):
        load_recipe_to_train("gpt", ["train.lora=4", "train.optimizer=adamw"])
    with pytest.raises(UserError, match=r"train\.lora_alpha=8\.0 is for adapters"):
        load_recipe_to_train("gpt", ["train.lora_alpha=8"])


def test_a_family_without_blocks_is_refused() -> None:
    with pytest.raises(UserError, match=r"is for one model made of blocks alone, and model\.family=recurrent is not"):
        load_recipe("chat-single", ["train.lora=4", "task.init_from=x"])


def test_a_model_without_such_a_matrix_is_refused() -> None:
    with pytest.raises(UserError, match="this model has no such matrix"):
        adapt(build("gpt", {}), replace(WIDE, lora_targets=("gate",)))


def test_a_weight_that_no_start_has_is_not_frozen(tmp_path: Path) -> None:
    texts = prepare(recipe(tmp_path), None, quiet)
    assert texts.start is not None
    lost: dict[str, Tensor] = {n: t for n, t in texts.start.weights.items() if not n.startswith("head.")}
    texts = replace(texts, start=replace(texts.start, weights=lost))
    texts.model()  # the head is the embedding, which is there
    lost = {n: t for n, t in lost.items() if not n.startswith("decoder.")}
    with pytest.raises(UserError, match=r"which train\.lora would leave as it was drawn"):
        replace(texts, start=replace(texts.start, weights=lost)).model()


@pytest.mark.gpu
def test_a_gpu_computes_with_adapters_while_it_decodes() -> None:
    """The kernels of a decoding step multiply by weights alone, so a model with adapters is not for them."""
    settings = {"width": 32, "heads": 2, "feedforward": 64}
    model = shaken(adapt(build("gpt", settings), WIDE)).eval().cuda()
    plain = build("gpt", settings).eval().cuda()
    plain.load_state_dict(merged(model.state_dict(), WIDE.lora_scale))
    ids_BL, lengths_B = torch.randint(4, 30, (3, 5)).cuda(), torch.tensor([5, 5, 5]).cuda()
    found = [
        [one.ids for one in greedy(each.start(ids_BL, lengths_B), sos=ids_BL[:, -1], eos=2, limits=[12] * 3)]  # type: ignore[operator]
        for each in (model, plain)
    ]
    assert found[0] == found[1]

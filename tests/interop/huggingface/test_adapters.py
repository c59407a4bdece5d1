"""Adapters in the layout of peft: a hand-written folder opens as the sum it stands for, what a run exports is that layout, and
where peft is installed it computes what we compute, in both directions."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.commands.convert import export_run
from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.interop.huggingface import write_public
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.tasks.registry import open_run
from regard.text.tokenizer import train_tokenizer
from tests.families.public_folder import shaken
from tests.tasks.tiny_text import quiet, stories, train_as, write_stories

transformers.utils.logging.disable_progress_bar()
PEFT = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="peft is installed by `make bench`")
ROWS = 300
GPT2 = GPTConfig(width=16, heads=2, layers=2, feedforward=32, maximum_length=24, dropout=0.0)
READER = BERTConfig(width=16, heads=2, layers=2, feedforward=32, maximum_length=24, dropout=0.0, segments=2)
SMALL = ["train.warmup=1", "train.learning_rate=3e-2", "train.validate_every=6", "train.checkpoint_every=6", "train.lora=3"]
SMALL += ["train.steps=6", "train.tokens_per_batch=128", "data.test=", "train.optimizer=adamw", "train.lora_alpha=6"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def public(folder: Path, config: Any) -> Path:
    """A public folder with random weights."""
    tokenizer = train_tokenizer("byte-bpe", stories(100), 290)
    model = GPT(config, ROWS, 8) if isinstance(config, GPTConfig) else BERT(config, ROWS, 8, heads=Heads(words=True, pooler=True))
    roles = {"eos": "<eos>", "bos": "<sos>"} | ({} if isinstance(config, GPTConfig) else {"cls": "<sos>", "sep": "<eos>"})
    write_public(folder, config, ROWS, shaken(model).state_dict(), tokenizer_json=tokenizer.raw.to_str(), roles=roles)
    return folder


def writer(folder: Path, *settings: str) -> Path:
    """A run of a language model with adapters."""
    base = public(folder / "base", GPT2)
    data = write_stories(folder / "new.jsonl", stories(80, seed=4))
    more = ["data.valid=", "data.window=16", "data.stride=0", "decode.sliding_window=false", "decode.maximum_length=8"]
    recipe = load_recipe_to_train("gpt", [f"task.init_from={base}", f"data.train={data}", *SMALL, *more, *settings])
    train_as(recipe, folder / "run")
    return folder / "run"


def classifier(folder: Path) -> Path:
    """A run of a classifier with adapters and a head of its own."""
    base, rows = public(folder / "base", READER), folder / "rows.tsv"
    labelled = [f"{text.splitlines()[0]}\t{('good', 'bad', 'odd')[n % 3]}\n" for n, text in enumerate(stories(60))]
    rows.write_text("text\tlabel\n" + "".join(labelled))
    given = [f"task.init_from={base}", f"data.train={rows}", f"data.valid={rows}", "data.columns=text,label", *SMALL]
    train_as(load_recipe_to_train("finetune-classify", given), folder / "run")
    return folder / "run"


def scores(folder: Path, task: str = "") -> Tensor:
    """What an opened folder computes for some ids."""
    answers = open_run(str(folder), "cpu", [task] if task else [])
    ids_BL = torch.randint(5, 290, (2, 11), generator=torch.Generator().manual_seed(1))
    model = answers.model.eval()
    with torch.no_grad():
        return model(ids_BL) if not hasattr(model, "classes") else model(ids_BL, torch.tensor([11, 11]))


def hand_written(folder: Path, base: Path, **changes: Any) -> Path:
    """An adapter of rank 2 on GPT-2's attention, whose c_attn is stored input by output."""
    draw = torch.Generator().manual_seed(2)
    tensors = {}
    for layer in range(2):
        for module, rows in (("c_attn", 48), ("c_proj", 16)):
            name = f"base_model.model.transformer.h.{layer}.attn.{module}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(2, 16, generator=draw)
            tensors[f"{name}.lora_B.weight"] = torch.randn(rows, 2, generator=draw)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    described = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(base), "r": 2, "lora_alpha": 8}
    described |= {"target_modules": ["c_attn", "attn.c_proj"], "fan_in_fan_out": True, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(described | changes))
    return folder


def test_a_hand_written_adapter_opens_as_the_sum(tmp_path: Path) -> None:
    base = public(tmp_path / "base", GPT2)
    folder = hand_written(tmp_path / "adapter", base)
    before, found = start_of(str(base)).weights, start_of(str(folder)).weights
    tensors = load_file(folder / "adapter_model.safetensors")
    for layer in range(2):
        for ours, theirs in (("project", "c_attn"), ("out", "c_proj")):
            name = f"base_model.model.transformer.h.{layer}.attn.{theirs}"
            added = 4 * tensors[f"{name}.lora_B.weight"] @ tensors[f"{name}.lora_A.weight"]
            key = f"decoder.blocks.{layer}.self.layer.{ours}.weight"
            torch.testing.assert_close(found[key], before[key] + added)
    assert torch.equal(found["embed.tokens.weight"], before["embed.tokens.weight"])
    assert (scores(folder) - scores(base)).abs().max() > 0.1  # every verb opens it


def test_rank_and_alpha_of_single_modules_are_read(tmp_path: Path) -> None:
    base = public(tmp_path / "base", GPT2)
    plain = hand_written(tmp_path / "one", base)
    other = hand_written(tmp_path / "two", base, alpha_pattern={"c_attn": 16}, rank_pattern={"h.1.attn.c_proj": 2})
    key = "decoder.blocks.0.self.layer.{}.weight".format
    before, once, twice = (start_of(str(folder)).weights for folder in (base, plain, other))
    torch.testing.assert_close(
        twice[key("project")] - before[key("project")], 2 * (once[key("project")] - before[key("project")])
    )
    assert torch.equal(twice[key("out")], once[key("out")])


def test_what_a_run_exports_opens_as_the_run(tmp_path: Path) -> None:
    """With queries and values alone, GPT-2's shared matrix gets an adapter of twice the rank."""
    run = writer(tmp_path, "train.lora_targets=query,value,contract")
    export_run(run, tmp_path / "adapter", "peft", quiet)
    described = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert described["rank_pattern"] == {"h.0.attn.c_attn": 6, "h.1.attn.c_attn": 6}
    assert described["alpha_pattern"] == {"h.0.attn.c_attn": 12.0, "h.1.attn.c_attn": 12.0}
    assert sorted(path.name for path in (tmp_path / "adapter").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    torch.testing.assert_close(scores(tmp_path / "adapter"), scores(run), atol=1e-5, rtol=1e-5)
    assert (scores(run) - scores(tmp_path / "base")).abs().max() > 1e-3
    export_run(run, tmp_path / "whole", "hf", quiet)
    torch.testing.assert_close(scores(tmp_path / "whole"), scores(run), atol=1e-5, rtol=1e-5)


def test_a_classifier_keeps_its_head_and_its_labels(tmp_path: Path) -> None:
    run = classifier(tmp_path)
    export_run(run, tmp_path / "adapter", "peft", quiet)
    described = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (described["task_type"], described["modules_to_save"]) == ("SEQ_CLS", ["bert.pooler.dense", "classifier"])
    torch.testing.assert_close(scores(tmp_path / "adapter"), scores(run), atol=1e-5, rtol=1e-5)
    assert open_run(str(tmp_path / "adapter"), "cpu")("the cat") == open_run(run, "cpu")("the cat")  # type: ignore[operator]


@PEFT
def test_peft_computes_what_a_run_computes(tmp_path: Path) -> None:
    import peft

    run = writer(tmp_path, "train.lora_targets=query,key,out,expand")
    export_run(run, tmp_path / "adapter", "peft", quiet)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    adapted = peft.PeftModel.from_pretrained(model, str(tmp_path / "adapter")).eval()
    ids_BL = torch.randint(5, 290, (2, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(adapted(ids_BL).logits, scores(run), atol=1e-4, rtol=0)


@PEFT
def test_peft_computes_what_a_classifier_computes(tmp_path: Path) -> None:
    import peft

    run = classifier(tmp_path)
    export_run(run, tmp_path / "adapter", "peft", quiet)
    model = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
    adapted = peft.PeftModel.from_pretrained(model, str(tmp_path / "adapter")).eval()
    ids_BL = torch.randint(5, 290, (2, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(adapted(ids_BL).logits, scores(run), atol=1e-4, rtol=0)


@PEFT
@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_what_peft_writes_opens_here(kind: str, tmp_path: Path) -> None:
    import peft

    base = public(tmp_path / "base", GPT2 if kind == "gpt2" else READER)
    if kind == "gpt2":
        config = peft.LoraConfig(r=5, lora_alpha=3, target_modules=["c_attn", "c_fc"], task_type="CAUSAL_LM", fan_in_fan_out=True)
        model = peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(base), config)
    else:
        config = peft.LoraConfig(r=5, lora_alpha=3, target_modules=["query", "dense"], task_type="SEQ_CLS")
        both = transformers.BertForSequenceClassification.from_pretrained(base, num_labels=3)
        model = peft.get_peft_model(both, config)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(tmp_path / "theirs")
    ids_BL = torch.randint(5, 290, (2, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model.eval()(ids_BL).logits
    torch.testing.assert_close(scores(tmp_path / "theirs"), expected, atol=1e-4, rtol=0)


def changed(key: str, value: Any) -> Callable[[Path, Path], None]:
    def change(folder: Path, base: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))

    return change


def renamed(old: str, new: str) -> Callable[[Path, Path], None]:
    def change(folder: Path, base: Path) -> None:
        path = folder / "adapter_model.safetensors"
        save_file({name.replace(old, new): tensor for name, tensor in load_file(path).items()}, path)

    return change


def other_base(folder: Path, base: Path) -> None:
    shutil.rmtree(base)
    public(base, GPTConfig(width=32, heads=2, layers=2, feedforward=32, maximum_length=24))


def fewer_layers(folder: Path, base: Path) -> None:
    shutil.rmtree(base)
    public(base, GPTConfig(width=16, heads=2, layers=1, feedforward=32, maximum_length=24))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_base, r"is an adapter for another model than .*c_attn is \(32, 96\) there and \(16, 48\) here"),
        (fewer_layers, r"is an adapter for another model than .*it has no transformer\.h\.1\.attn"),
        (renamed("transformer.h", "model.layers"), "is an adapter for another model than"),
        (renamed("lora_B", "lora_C"), "has no lora_B"),
        (changed("peft_type", "LOHA"), "has peft_type=LOHA"),
        (changed("use_dora", True), "has use_dora=True"),
        (changed("use_rslora", True), "has use_rslora=True"),
        (changed("bias", "all"), "has bias=all"),
        (changed("r", 4), r"has rank 2, and adapter_config\.json says 4"),
        (changed("base_model_name_or_path", None), "names no base model"),
        (changed("base_model_name_or_path", "no such folder"), "There is no folder no such folder"),
    ],
)
def test_adapters_that_do_not_fit_are_refused(change: Callable[[Path, Path], None], told: str, tmp_path: Path) -> None:
    base = public(tmp_path / "base", GPT2)
    folder = hand_written(tmp_path / "adapter", base)
    change(folder, base)
    with pytest.raises(UserError, match=told):
        start_of(str(folder))


def test_a_run_without_adapters_or_without_a_public_base_is_not_exported(tmp_path: Path) -> None:
    run = writer(tmp_path)
    data = f"data.train={tmp_path / 'new.jsonl'}"
    more = ["data.valid=", "data.window=16", "data.stride=0", "decode.sliding_window=false", data]
    train_as(load_recipe_to_train("gpt", [f"task.init_from={run}", *SMALL, *more]), tmp_path / "second")
    with pytest.raises(UserError, match=r"which peft cannot open; export that with --to hf"):
        export_run(tmp_path / "second", tmp_path / "adapter", "peft", quiet)
    train_as(
        load_recipe_to_train("gpt", [f"task.init_from={run}", *SMALL, *more, "train.lora=0", "train.lora_alpha=16"]),
        tmp_path / "third",
    )
    with pytest.raises(UserError, match=r"was trained without adapters"):
        export_run(tmp_path / "third", tmp_path / "adapter", "peft", quiet)
    assert not (tmp_path / "adapter").exists()

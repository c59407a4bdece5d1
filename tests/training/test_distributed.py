"""One, two or four processes, copies or shards: the same losses, continued by any other number, and ended together."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import MaskedPassages, Masking, Passages
from regard.data.batching.pairs import EncodedPairs, PairBatches, Ragged
from regard.data.batching.windows import Windows
from regard.data.loader import Loader, Source
from regard.families.bert import BERT, BERTConfig
from regard.families.electra import ELECTRA, ELECTRAConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.objectives.base import Loss, Objective
from regard.objectives.causal_lm import CausalLMConfig, CausalLMLoss
from regard.objectives.masked_lm import MaskedLMConfig, MaskedLMLoss
from regard.objectives.replaced_token import ReplacedTokenConfig, ReplacedTokenLoss
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.tasks.translation.predict import Translator
from regard.training.checkpoint import Store
from regard.training.compile import prepare_for_training
from regard.training.config import TrainConfig
from regard.training.data_parallel import ParallelModel, full
from regard.training.distributed import SINGLE_PROCESS, World, process_group
from regard.training.logging import read_metrics
from regard.training.optimizers import make_optimizer
from regard.training.step import Stepper
from tests.command import Result, refused, regard, tiny
from tests.training.processes import Processes, command

STEPS = 12
# Batches of three sentences and of one: of four processes some are always idle, and shares differ.
SHORT = ["data.test=", "train.tokens_per_batch=24", "train.log_every=1", "train.validate_every=6", "train.checkpoint_every=3"]
# The bias of keys has no gradient but rounding, which Adam would blow up to full steps without an epsilon.
SHORT += ["train.learning_rate=3e-3", "train.clip=1.0", "train.epsilon=1e-4", "train.keep=9"]


def typed(folder: Path, *choices: str, steps: int = STEPS) -> list[str]:
    return ["train", str(tiny()), *SHORT, f"train.steps={steps}", *choices, "--out", str(folder), "--device", "cpu"]


def start(size: int, folder: Path, *choices: str, steps: int = STEPS) -> Processes:
    return Processes(size, folder.with_suffix(".logs"), command, typed(folder, *choices, steps=steps))


def train(size: int, folder: Path, *choices: str, steps: int = STEPS) -> list[str]:
    """Trained by so many processes; what each of them said."""
    if size == 1:
        ended = regard(*typed(folder, *choices, steps=steps))
        assert ended.code == 0, ended.err
        return [ended.out + ended.err]
    processes = start(size, folder, *choices, steps=steps)
    assert processes.codes() == [0] * size, processes.told
    return processes.told


def logged(folder: Path, *keys: str) -> list[float]:
    return [record[key] for record in read_metrics(folder / "metrics.jsonl").records for key in keys if key in record]


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("step-*"))


def saved(folder: Path, step: int) -> dict[str, Tensor]:
    (found,) = [checkpoint for checkpoint in Store(folder / "checkpoints").all("step") if checkpoint.step == step]
    return found.tensors("model")


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process, which all others are compared with."""
    folder = tmp_path_factory.mktemp("one") / "run"
    train(1, folder)
    assert len(logged(folder, "loss", "valid_nll")) == STEPS + 2
    return folder


def forget(folder: Path, step: int) -> None:
    """As if the processes had been killed just before they saved this step."""
    shutil.rmtree(folder / "checkpoints" / f"step-{step:08d}")


# ---------------------------------------------------------------------------------------------------- the same order and losses


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 60))
@settings(max_examples=40)
def test_shares_of_all_ranks_interleave_to_the_order_of_one(world: int, accumulate: int, step: int) -> None:
    data = EncodedPairs(Ragged([[4] * (n % 5) for n in range(50)]), Ragged([[n + 4] for n in range(50)]))
    works = [Loader(PairBatches(data, 24, 1), accumulate=accumulate, rank=rank, world=world).work(step) for rank in range(world)]
    order: dict[int, int] = {}
    for rank, work in enumerate(works):
        counted = work.batches[: len(work.batches) - work.idle]
        for k, batch in enumerate(counted):
            for n, row in enumerate(batch.target_in_BL[:, 1].tolist()):  # type: ignore[attr-defined]
                order[rank + world * (k + len(work.batches) * n)] = row - 4
    assert [order[place] for place in sorted(order)] == Loader(PairBatches(data, 24, 1)).rows(step).tolist()
    assert {work.tokens for work in works} == {2 * len(order)}
    assert len({len(work.batches) for work in works}) == 1


@pytest.mark.parametrize(
    ("size", "choices"),
    [(2, []), (4, ["train.accumulate=3"]), (2, ["train.fsdp=true"]), (4, ["train.fsdp=true", "train.accumulate=2"])],
    ids=str,
)
def test_every_loss_is_that_of_one_process(size: int, choices: list[str], one: Path, tmp_path: Path) -> None:
    told = train(size, tmp_path / "run", *choices)
    keys = ("loss", "norm", "valid_nll")
    assert logged(tmp_path / "run", *keys) == pytest.approx(logged(one, *keys), abs=1e-6)
    same(saved(tmp_path / "run", STEPS), saved(one, STEPS))
    assert told[0].count("trained 12 steps") == 1
    assert told[1:] == [""] * (size - 1)
    last = tmp_path / "run" / "checkpoints" / f"step-{STEPS:08d}"
    assert {path.name for path in last.iterdir()} == {"MANIFEST.json", "state.json", "model.safetensors", "optimizer.safetensors"}


SMALL: dict[str, Any] = dict(width=12, heads=3, feedforward=20, layers=1, dropout=0.0, attention_dropout=0.0)
FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "transformer": lambda: Transformer(TransformerConfig(**SMALL | dict(layers=2)), 31, 31),
    "bert": lambda: BERT(BERTConfig(**SMALL, maximum_length=9), 31),
    "electra": lambda: ELECTRA(ELECTRAConfig(**SMALL, maximum_length=9, generator_width=4), 31),
    "gpt": lambda: GPT(GPTConfig(**SMALL, maximum_length=9), 31),
}


def source_of(family: str) -> tuple[Source, Objective]:
    sentences = Ragged([[4 + (3 * n + k) % 27 for k in range(1 + n % 7)] for n in range(40)])
    if family in ("bert", "electra"):
        passages = Passages(sentences.flat, sentences.offsets[:-1], 9, SpecialTokens(1, 2, 2), seed=1)
        loss = MaskedLMLoss(MaskedLMConfig()) if family == "bert" else ReplacedTokenLoss(ReplacedTokenConfig())
        return MaskedPassages(passages, 30, Masking(1, 3, range(4, 31)), judged=family == "electra"), loss
    if family == "gpt":
        return Windows(sentences.flat, length=8, tokens=40, seed=1), CausalLMLoss(CausalLMConfig())
    return PairBatches(EncodedPairs(sentences, sentences), 30, 1), Seq2SeqLoss(Seq2SeqConfig(r_drop=1.0))


def steps_of(family: str, world: World, shard: bool, **choices: Any) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(world.rank)  # draws nothing that the first process's weights do not replace
    model = FAMILIES[family]()
    (source, objective), config = source_of(family), TrainConfig(steps=3, clip=0.1, epsilon=1e-4, **choices)
    parallel = ParallelModel(model, world, shard)
    prepare_for_training(model, config)
    loader = Loader(source, accumulate=2, rank=world.rank, world=world.size)
    stepper = Stepper(model, objective, loader, make_optimizer(model, config), config, print, parallel)
    found = []
    for step in (1, 2, 3):
        stepper(step, loader.work(step - 1), 0.01)
        found += [stepper.read_stats().loss, stepper.read_stats().norm]
        stepper.begin()
    return model, found


def check_families() -> None:
    with process_group() as world:
        for family in FAMILIES:
            reference, expected = steps_of(family, SINGLE_PROCESS, False)
            for shard in (False, True):
                model, found = steps_of(family, world, shard)
                assert found == pytest.approx(expected, abs=1e-5), (family, shard)
                for ours, theirs in zip(model.parameters(), reference.parameters()):
                    torch.testing.assert_close(full(ours.detach()), theirs.detach(), atol=1e-5, rtol=1e-4)
            if family in ("transformer", "electra"):  # one network and two; how each is computed has tests of its own
                again = steps_of(family, world, True, activation_checkpointing=True)[1]
                assert again == pytest.approx(expected, abs=1e-5), family
                rough = steps_of(family, world, True, precision="bf16")[1]
                assert rough == pytest.approx(expected, rel=0.1), family


def test_every_family_can_be_spread(tmp_path: Path) -> None:
    """Three processes: most sizes do not divide by that, and the shard of a single number is empty for two of them."""
    processes = Processes(3, tmp_path, check_families)
    assert processes.codes() == [0] * 3, processes.told


# ---------------------------------------------------------------------------------------------------------- on another number


def test_a_run_continues_on_any_number_in_copies_or_shards(one: Path, tmp_path: Path) -> None:
    folder, shard = tmp_path / "run", "train.fsdp=true"
    train(4, folder, shard, steps=5)
    forget(folder, 5)  # step 3 is in four shards
    train(2, folder, shard, steps=8)
    forget(folder, 8)  # step 6 is in two
    told = train(2, folder, steps=10)
    assert "continuing from step 6" in told[0]
    train(4, folder, shard, "train.accumulate=2", steps=11)
    train(1, folder)
    assert logged(folder, "loss") == pytest.approx(logged(one, "loss"), abs=1e-6)
    same(saved(folder, STEPS), saved(one, STEPS))


def test_shards_are_a_checkpoint_like_any_other(one: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(2, folder, "train.fsdp=true", steps=7)
    forget(folder, 7)
    for best in (folder / "checkpoints").glob("best-*"):
        shutil.rmtree(best)
    kept = saved(folder, 6)
    same(kept, saved(one, 6))
    assert kept["head.project.weight"] is kept["source.tokens.weight"]
    assert len(list(newest(folder).glob("shard-*.safetensors"))) == 2
    assert not list(newest(folder).glob("*.metadata"))  # which would be a pickle
    assert Translator.open(folder, "cpu")("the cat sees the dog .")  # what evaluate and predict open
    with pytest.raises(UserError, match=r"no tensors called 'modle' \(known: model, optimizer\); did you mean 'model'"):
        Store(folder / "checkpoints").all("step")[-1].tensors("modle")
    shard = next(newest(folder).glob("shard-00002*"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    said: list[str] = []
    found = Store(folder / "checkpoints", said.append).newest("step")
    assert found is not None
    assert found.step == 3
    assert "sha256 differs" in said[0]


# -------------------------------------------------------------------------------------------------------------- ended together


def wait_for_steps(folder: Path, least: int = 3) -> None:
    deadline = time.monotonic() + 600
    while len(read_metrics(folder / "metrics.jsonl").records) < least:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_shards_of_a_model_with_adapters_learn_as_one_process_does(one: Path, tmp_path: Path) -> None:
    """Frozen matrices are cut up beside the adapters that learn, those of cross-attention too; stopped once and continued."""
    choices = [f"task.init_from={one}", "train.lora=3", "train.lora_targets=query,key,value,out,expand", "train.optimizer=adamw"]
    train(1, tmp_path / "alone", *choices, steps=6)
    train(2, tmp_path / "run", *choices, "train.fsdp=true", steps=4)
    train(2, tmp_path / "run", *choices, "train.fsdp=true", steps=6)
    keys = ("loss", "norm")
    assert logged(tmp_path / "run", *keys) == pytest.approx(logged(tmp_path / "alone", *keys), abs=1e-6)
    found, expected = saved(tmp_path / "run", 6), saved(tmp_path / "alone", 6)
    same(found, expected)
    frozen, start = [name for name in expected if name.endswith("project.weight")], saved(one, STEPS)
    assert all(torch.equal(found[name], start[name]) for name in frozen if name in start)
    assert any(name.endswith("cross.layer.project.adapters.key.up") and tensor.any() for name, tensor in found.items())
    said = {folder: regard("predict", tmp_path / folder, "the cat", "--device", "cpu").out for folder in ("run", "alone")}
    assert said["run"] == said["alone"]


@pytest.mark.parametrize("choice", ["train.fsdp=false", "train.fsdp=true"])
def test_a_signal_to_one_process_stops_all_at_the_same_step(choice: str, one: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    endless = ["train.checkpoint_every=100000", "train.validate_every=100000"]
    processes = start(2, folder, choice, *endless, steps=100_000)
    wait_for_steps(folder)
    processes.signal(1, signal.SIGTERM)
    processes.signal(1, signal.SIGTERM)  # some launchers send it twice
    assert processes.codes() == [143, 143], processes.told
    assert "continue with: regard train" in processes.told[0]
    assert processes.told[1] == ""
    steps = len(logged(folder, "loss"))
    assert newest(folder).name == f"step-{steps:08d}"
    assert (newest(folder) / "shards.json").exists() == (choice == "train.fsdp=true")
    train(1, folder, *endless, steps=max(STEPS, steps + 1))
    assert logged(folder, "loss")[:STEPS] == pytest.approx(logged(one, "loss"), abs=1e-6)


@pytest.mark.parametrize("dies", [0, 1])
def test_when_a_process_dies_the_other_ends_with_one_sentence(dies: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    processes = start(2, folder, steps=100_000)
    wait_for_steps(folder, 6)
    processes.signal(dies, signal.SIGKILL)
    codes = processes.codes()
    assert (codes[dies], codes[1 - dies]) == (-signal.SIGKILL, 2), processes.told
    refused(Result(2, "", processes.told[1 - dies]), "another process is gone", "same command again")
    train(1, folder, steps=int(newest(folder).name.split("-")[1]) + 1)  # what was saved is good


def one_message(processes: Processes, *told: str) -> None:
    assert processes.codes() == [2] * len(processes.running), processes.told
    refused(Result(2, "", "".join(processes.told)), *told)


def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    one_message(start(2, tmp_path / "run", "train.stepps=3"), "did you mean 'train.steps'?")
    assert not (tmp_path / "run").exists()


def test_what_one_process_refuses_ends_all(tmp_path: Path) -> None:
    train(1, tmp_path / "run", steps=1)
    with (tmp_path / "run" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        one_message(start(3, tmp_path / "run"), "another process is training in")


def test_a_training_that_diverges_is_told_once(tmp_path: Path) -> None:
    choices = ["train.learning_rate=1e39", "train.schedule=constant", "train.warmup=0", "train.clip=0"]
    one_message(start(2, tmp_path / "run", *choices), "Lower train.learning_rate")


def test_a_disk_that_is_full_for_one_process_ends_all_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    one_message(Processes(2, tmp_path / "logs", command, typed(folder, "train.fsdp=true"), 1), "the checkpoint step-00000003 in")
    assert not list((folder / "checkpoints").glob("*"))


def test_memory_that_runs_out_names_the_setting() -> None:
    def too_large(model: nn.Module, batch: object) -> Loss:
        raise torch.OutOfMemoryError

    model, config = FAMILIES["gpt"](), TrainConfig(steps=3)
    parallel, loader = ParallelModel(model), Loader(source_of("gpt")[0])
    parallel.world = World(rank=0, size=2)
    with pytest.raises(UserError, match=r"train\.accumulate=2"):
        Stepper(model, too_large, loader, make_optimizer(model, config), config, print, parallel)(1, loader.work(0), 0.01)


# -------------------------------------------------------------------------------------------------------------- how they start


def test_one_process_needs_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with process_group() as world:
        assert world == SINGLE_PROCESS
        assert not torch.distributed.is_initialized()
        with world.fail_together():
            assert (world.max(3), world.broadcast_text("é"), world.sum_on_host(0.5)) == (3, "é", 0.5)


@pytest.mark.parametrize(
    ("variables", "told"),
    [({"WORLD_SIZE": "2"}, "RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set"), ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two")],
)
def test_half_an_environment_is_refused(variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refused(regard(*typed(Path("nowhere"))), told)


def test_each_process_takes_its_own_gpu() -> None:
    assert World(1, 2, 1).local_device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(UserError, match="give --device cuda: each takes its own"):
        World(1, 2, 1).local_device(torch.device("cuda:1"))
    with pytest.raises(UserError, match=f"start --nproc-per-node {torch.cuda.device_count()}"):
        World(99, 100, 99).local_device(torch.device("cuda"))


# Something that aborts when Python is taken down, as threads of a process group do now and then.
ABORTS_AT_THE_END = "import atexit, os, regard.cli; atexit.register(os.abort); regard.cli.main()"


@pytest.mark.parametrize("fails", [False, True])
def test_torchrun(fails: bool, one: Path, tmp_path: Path) -> None:
    started = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    started += ["--no-python", sys.executable, "-c", ABORTS_AT_THE_END, *typed(tmp_path / "run")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if fails:
        (tmp_path / "run").write_text("a file where a folder is to be made")
    ended = subprocess.run(started, capture_output=True, text=True, timeout=600, env=environment)
    if fails:
        assert "exitcode  : 2 " in ended.stderr
        assert "SIGABRT" not in ended.stderr
        return
    assert ended.returncode == 0, ended.stderr
    assert logged(tmp_path / "run", "loss") == pytest.approx(logged(one, "loss"), abs=1e-6)
    assert ended.stderr.count("trained 12 steps") == ended.stdout.count("run: ") == 1

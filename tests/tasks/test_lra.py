"""The Long Range Arena: what the head of each recipe says a CPU can do is typed here and done, for a few steps."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks.lra_exams import VARIANTS, typed_for_a_cpu
from regard.core.errors import UserError
from regard.data.batching.labelled import make_batch
from regard.data.lra import Sequences
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.classification.predict import TextClassifier
from regard.tasks.classification.prepare import prepare, read_to_learn
from regard.tasks.denoising.prepare import Denoiser
from regard.tasks.registry import open_run
from tests.command import regard
from tests.tasks.tiny_labels import PAIRS, ROWS, quiet, train_as, write_rows

ARENA = ["lra-listops", "lra-text", "lra-retrieval", "lra-pixels", "lra-pathfinder"]
FEW = ["data.limit=48", "train.steps=3", "train.warmup=2", "train.validate_every=3", "train.checkpoint_every=3", "train.keep=1"]
SMALLER = {
    "lra-listops": [
        "data.valid=builtin:listops@length=5-40@count=20/valid",
        "data.test=builtin:listops@length=5-40@count=40/test",
    ],
    "lra-pathfinder": [
        "data.valid=builtin:pathfinder@side=16@dashes=2@count=20/valid",
        "data.test=builtin:pathfinder@side=16@dashes=2@count=20/test",
    ],
    "lra-text": ["data.limit=60"],
    "lra-retrieval": ["data.limit=60"],
    "lra-pixels": ["data.valid_fraction=0.2", "data.limit=60"],
}
TINY = [
    *("model.width=24", "model.heads=2", "model.layers=1", "model.feedforward=48", "model.dropout=0", "train.precision=fp32"),
    *("train.tokens_per_batch=512", "train.learning_rate=5e-3", "train.schedule=constant"),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def photos(path: Path, count: int = 40) -> None:
    random = np.random.default_rng(1)
    for n in range(count):
        folder = path.parent / "made" / ("dark" if n % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 100, (20, 20, 3)) + (0 if n % 2 else 150)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{n}.png")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(path.parent / "made", "made")


@pytest.mark.parametrize("name", ARENA)
def test_what_a_cpu_can_do_is_done(name: str, tmp_path: Path) -> None:
    if name == "lra-pixels":
        photos(tmp_path / "photos.tar.gz")
        photos(tmp_path / "more.tar.gz")
    recipe = load_recipe(name, [*typed_for_a_cpu(name), *FEW, *SMALLER[name]])
    outcome = train_as(recipe, tmp_path / "run")
    assert outcome.result is not None
    assert 0 <= outcome.result.as_dict()["accuracy"] <= 1
    assert outcome.progress.step == 3
    assert isinstance(open_run(tmp_path / "run", "cpu"), TextClassifier)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_one_key_chooses_other_attention(variant: str, pooling: str, tmp_path: Path) -> None:
    short = ["train.steps=2", "train.warmup=1", "train.validate_every=2", "train.checkpoint_every=2"]
    outcome = train_as(lists(*VARIANTS[variant], *short, f"model.pooling={pooling}"), tmp_path / "run")
    assert outcome.result is not None
    assert np.isfinite(outcome.result.as_dict()["nll"])


@pytest.mark.parametrize(
    ("name", "sizes", "schedule"),
    [  # as the published code has them
        ("lra-listops", (4, 512, 8, 1024, "first"), (5000, 0.05 / 1000**0.5, 1000)),
        ("lra-text", (4, 256, 4, 1024, "first"), (20000, 0.05 / 8000**0.5, 8000)),
        ("lra-retrieval", (4, 128, 4, 512, "first"), (5000, 0.05 / 8000**0.5, 8000)),
        ("lra-pixels", (1, 128, 8, 128, "first"), (0, 5e-4, 175)),
        ("lra-pathfinder", (4, 32, 4, 32, "mean"), (0, 1e-3, 312)),
    ],
)
def test_sizes_are_the_published_ones(name: str, sizes: tuple[int | str, ...], schedule: tuple[float, ...]) -> None:
    recipe = load_recipe(name)
    m, t = recipe.model, recipe.train
    assert (m.layers, m.width, m.heads, m.feedforward, m.pooling) == sizes
    assert (t.steps, t.learning_rate, t.warmup) == pytest.approx(schedule, rel=5e-3)


# ------------------------------------------------------------------------------------------------------------------- learning


def lists(*more: str) -> Recipe:
    small = "builtin:listops@length=4-5@depth=2"
    data = [f"data.{split}={small}@count={n}/{split}" for split, n in (("train", 600), ("valid", 60), ("test", 60))]
    given = [*data, *TINY, "train.steps=200", "train.warmup=20", "train.validate_every=100", "train.checkpoint_every=100", *more]
    return load_recipe_to_train("lra-listops", given)


def test_short_lists_are_learned_and_told(tmp_path: Path) -> None:
    outcome = train_as(lists(), tmp_path / "run")
    assert outcome.result is not None
    assert outcome.result.as_dict()["accuracy"] > 0.4  # one answer for all: about 0.14
    labeller = open_run(tmp_path / "run", "cpu")
    assert isinstance(labeller, TextClassifier)
    said = labeller.classify(["[MAX 1 9 ]", "[MIN 0 7 ]"])
    assert [answer.label for answer in said] == ["9", "0"]
    told = regard("predict", tmp_path / "run", "[MAX 1 9 ]", "--device", "cpu")
    assert told.out.startswith("9\t")
    mistakes = (tmp_path / "run" / "errors.tsv").read_text().splitlines()
    assert mistakes[1].startswith("builtin:listops@length=4-5@depth=2@count=60/test, number ")


def test_what_is_learned_without_labels_is_begun_with(tmp_path: Path) -> None:
    first = lists("task.name=denoising", "objective.mask_rate=0.2", "train.steps=40", "train.validate_every=20")
    outcome = train_as(first, tmp_path / "denoised")
    assert outcome.result is not None
    scores = outcome.result.as_dict()
    assert scores["masked"] > 30
    assert 0 < scores["nll"] < 3.5
    metrics = [json.loads(line) for line in (tmp_path / "denoised" / "metrics.jsonl").read_text().splitlines()]
    first_nll, *_, last_nll = (found["valid_nll"] for found in metrics if "valid_nll" in found)
    assert last_nll < first_nll
    denoiser = open_run(tmp_path / "denoised", "cpu")
    assert isinstance(denoiser, Denoiser)
    assert "0." in regard("predict", tmp_path / "denoised", "[MAX 1 <mask> ]", "--device", "cpu").out
    given = [f"data.{split}=builtin:listops@length=4-5@depth=2@count=60/{split}" for split in ("train", "valid")]
    second = load_recipe_to_train("lra-listops", [*given, f"task.init_from={tmp_path / 'denoised'}", "data.test="])
    assert replace(second.model, dropout=0.0) == first.model
    begun = prepare(second, None, quiet).model()
    weights = denoiser.model.state_dict()
    for key, tensor in begun.body.state_dict().items():
        if not key.startswith("pooler."):
            assert tensor.equal(weights[key]), key


def test_pairs_are_denoised_one_by_one_and_read_apart(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.tsv", PAIRS)
    given = [f"data.train={data}", f"data.valid={data}", *TINY, "train.warmup=2"]
    steps = ["train.steps=3", "train.validate_every=3", "train.checkpoint_every=3"]
    outcome = train_as(load_recipe_to_train("lra-retrieval", [*given, *steps, "task.name=denoising"]), tmp_path / "denoised")
    assert outcome.prepared.amounts()["train"] == f"{2 * len(PAIRS)} texts"
    start = [f"task.init_from={tmp_path / 'denoised'}", f"data.train={data}", f"data.valid={data}", "train.precision=fp32"]
    learned = train_as(load_recipe_to_train("lra-retrieval", [*start, *steps, "train.warmup=2"]), tmp_path / "run")
    assert learned.prepared.recipe.model.pairs == "apart"
    labeller = open_run(tmp_path / "run", "cpu")
    assert isinstance(labeller, TextClassifier)
    assert labeller((PAIRS[0][0], PAIRS[0][1])) in ("first", "second")


def test_two_towers_learn_which_text_is_which(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.tsv", PAIRS)
    given = [f"data.train={data}", f"data.valid={data}", f"data.test={data}", *TINY, "train.steps=80", "train.warmup=5"]
    often = ["train.tokens_per_batch=2048", "train.validate_every=80", "train.checkpoint_every=80"]
    recipe = load_recipe("lra-retrieval", [*given, *often])
    outcome = train_as(recipe, tmp_path / "run")
    assert outcome.result is not None
    assert outcome.result.as_dict()["accuracy"] > 0.9


def test_the_arenas_own_table_of_papers_is_read(tmp_path: Path) -> None:
    """Label, two numbers, two texts; without a header."""
    rows = [(str(float(n % 2)), f"W0{n}", f"W1{n}", first, second) for n, (first, second, _) in enumerate(PAIRS)]
    data = write_rows(tmp_path / "new_aan_pairs.train.tsv", rows)
    recipe = load_recipe("lra-retrieval", [f"data.train={data}", f"data.valid={data}", "data.columns=3,4,0"])
    prepared = prepare(recipe, None, quiet)
    assert prepared.labels.names == ("0.0", "1.0")  # type: ignore[union-attr]
    ids, at = prepared.train.ids[1], int(prepared.train.seconds[1])
    told = [prepared.reader.tokenizer.decode(part.tolist()) for part in (ids[:at], ids[at:])]
    assert told == list(PAIRS[1][:2])


def test_long_texts_of_a_pair_are_cut_each_to_its_room(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.tsv", [("a" * 50, "b" * 9, "x"), ("c" * 3, "d" * 40, "y")])
    recipe = load_recipe("lra-retrieval", [f"data.train={data}", f"data.valid={data}", "data.maximum_tokens=20"])
    train = prepare(recipe, None, quiet).train
    assert train.seconds.tolist() == [20, 5]
    assert (train.ids.lengths - train.seconds).tolist() == [11, 20]


def test_the_same_command_again_continues_to_the_same_weights(tmp_path: Path) -> None:
    """Sequences that are drawn are drawn alike, so a run can be continued."""
    short = ["train.steps=6", "train.validate_every=3", "train.checkpoint_every=3", "train.warmup=2"]
    whole = train_as(lists(*short), tmp_path / "whole")
    train_as(lists(*short, "train.steps=3"), tmp_path / "parts")
    parts = train_as(lists(*short), tmp_path / "parts")
    assert parts.progress.step == whole.progress.step == 6
    files = [max((tmp_path / name / "checkpoints").glob("step-*")) / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


# ------------------------------------------------------------------------------------------------------------------- held out


def test_a_share_of_training_is_held_out_and_it_is_always_the_same(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.tsv", ROWS)
    kept, held = (
        [example.text for example in part]
        for part in read_to_learn(load_recipe("lra-text", [f"data.train={data}", "data.valid_fraction=0.25", "train.seed=7"]))
    )
    assert len(held) == round(0.25 * len(ROWS))
    assert sorted(kept + held) == sorted(text for text, _ in ROWS)
    assert held != [text for text, _ in ROWS[-len(held) :]]
    again = read_to_learn(load_recipe("lra-text", [f"data.train={data}", "data.valid_fraction=0.25", "train.seed=8"]))[1]
    assert [example.text for example in again] == held


def test_symbols_are_held_out_as_texts_are() -> None:
    recipe = load_recipe("lra-listops", ["data.train=builtin:listops@length=5-20@count=40/train", "data.valid_fraction=0.1"])
    train, valid = read_to_learn(replace(recipe, data=replace(recipe.data, valid=())))
    assert isinstance(train, Sequences)
    assert isinstance(valid, Sequences)
    assert (len(train), len(valid)) == (36, 4)
    assert not {example.text for example in train} & {example.text for example in valid}


def test_a_share_that_is_none_is_refused(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.tsv", ROWS[:4])
    with pytest.raises(UserError, match="leaves nothing"):
        read_to_learn(load_recipe("lra-text", [f"data.train={data}", "data.valid_fraction=0.01"]))


# ------------------------------------------------------------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("pairs", ["joined", "apart"])
def test_packed_texts_have_the_logits_of_padded_ones_in_half_precision(pooling: str, pairs: str, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.tsv", PAIRS)
    given = [f"data.train={data}", f"data.valid={data}", "model.dropout=0", f"model.pooling={pooling}", f"model.pairs={pairs}"]
    prepared = prepare(load_recipe("lra-retrieval", given), None, quiet)
    model = prepared.model().cuda().eval()
    rows = np.arange(12)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        padded, packed = (make_batch(prepared.train, rows, packed=how).to(torch.device("cuda")) for how in (False, True))
        expected, found = (model(batch.ids_BL, batch.words, batch.segments_BL).float() for batch in (padded, packed))
    torch.testing.assert_close(found[:12], expected, atol=3e-2, rtol=3e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["classification", "denoising"])
def test_it_trains_packed_on_a_gpu(task: str, tmp_path: Path) -> None:
    from regard.commands.train import train_run

    short = ["train.precision=bf16", "train.steps=30", "train.warmup=5", "model.heads=1", "model.width=32"]
    recipe = lists(f"task.name={task}", *short)
    assert recipe.model.packable
    outcome = train_run(recipe, tmp_path / "run", torch.device("cuda"), quiet)
    assert outcome.result is not None
    assert np.isfinite(outcome.result.as_dict()["nll"])

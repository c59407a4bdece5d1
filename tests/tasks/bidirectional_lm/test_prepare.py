"""Reading both ways: what a run says of a text is what its two networks say, and its body serves other tasks, frozen or not."""

from __future__ import annotations

import itertools
import json
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
import torch

from regard.commands.subjects import subject_of
from regard.commands.word_uses import word_uses
from regard.core.errors import UserError
from regard.runs.folder import Run
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.runs.recipe import load_recipe
from regard.tasks.bidirectional_lm.prepare import BidirectionalLM, prepare
from regard.tasks.embedding.predict import Embedder
from regard.tasks.language_model.prepare import read_test
from regard.tasks.registry import open_run
from tests.tasks import tiny_labels, tiny_tags
from tests.tasks.tiny_text import quiet, stories, train_as, write_stories

TINY = [
    *(
        "data.valid=",
        "data.test=",
        "data.window=16",
        "data.valid_fraction=0.1",
        "text.size=80",
        "model.width=16",
        "model.dropout=0.1",
    ),
    *("train.steps=50", "train.warmup=4", "train.tokens_per_batch=256", "train.learning_rate=2e-2", "train.log_every=30"),
    *("train.validate_every=50", "train.checkpoint_every=50"),
]
SMALL = ["train.precision=fp32", "train.steps=12", "train.epochs=0", "train.tokens_per_batch=256", "train.learning_rate=2e-2"]
READS = ("embed.", "ahead.", "back.")
TEXTS = [*stories(300), "Ann Lee saw New Oslo, and Bob Ray left."]
_kept = TemporaryDirectory(prefix="regard-tests-")


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@cache
def trained() -> Path:
    """A run that has read the stories: to be read, not changed."""
    torch.set_num_threads(1)
    folder = Path(_kept.name)
    data = write_stories(folder / "stories.jsonl", TEXTS)
    with patch.dict(os.environ, REGARD_CACHE=str(folder / "cache")):
        train_as(load_recipe("elmo", [f"data.train={data}", *TINY]), folder / "run")
    return folder / "run"


def opened() -> BidirectionalLM:
    found = open_run(trained(), "cpu")
    assert isinstance(found, BidirectionalLM)
    return found


def test_both_ways_have_learned_what_follows_and_what_comes_before() -> None:
    lines = [json.loads(line) for line in (trained() / "metrics.jsonl").read_text("utf-8").splitlines()]
    last = next(line for line in reversed(lines) if "valid_nll" in line)
    ways = [last["valid_ahead_perplexity"], last["valid_back_perplexity"]]
    assert max(ways) < 8  # of 80 pieces; four animals and three verbs are a matter of chance
    assert last["valid_nll"] == pytest.approx(np.log(ways).mean(), abs=1e-5)


@torch.no_grad()
def test_a_text_is_expected_as_one_plain_pass_expects_it() -> None:
    found = opened()
    end, ids = found.end, found.tokenizer.encode("the dog hears the cat.")
    (ahead,), (back,) = found.ahead([[*ids, end]]), found.back([[*ids, end]])
    whole = torch.tensor([[end, *ids, end]])
    logits = [way.log_softmax(-1)[0] for way in found.model(whole, torch.tensor([len(ids) + 2]))]
    np.testing.assert_allclose(ahead, [logits[0][n, i] for n, i in enumerate([*ids, end])], atol=1e-4)
    before = [logits[1][n + 2, i].item() for n, i in enumerate(ids)] + [logits[1][1, end].item()]  # the end before it comes last
    np.testing.assert_allclose(back, before, atol=1e-4)


def test_a_test_text_is_scored_both_ways_every_token_once() -> None:
    found = opened()
    recipe = load_recipe("elmo", ["data.train=", *TINY, f"data.test={trained().parent}/stories.jsonl"])
    scores = found.evaluate(read_test(recipe)).as_dict()
    ids = [*itertools.chain(*([*found.tokenizer.encode(text), found.end] for text in TEXTS))]
    for way, score in (("ahead", found.ahead), ("back", found.back)):
        assert scores[way]["tokens"] == len(ids)
        assert scores[way]["perplexity"] == pytest.approx(np.exp(-np.mean(score([ids])[0])), rel=1e-4)


def test_an_odd_text_surprises_both() -> None:
    told: list[str] = []
    opened().predict(["the dog hears the cat.", "cat cat hears the the"], None, False, told.append)
    likely, odd = ([float(number) for number in line.split("\t")] for line in told)
    assert likely[0] < odd[0]
    assert likely[1] < odd[1]
    opened().predict(["the dog."], None, True, told.append)
    found = json.loads(told[-1])
    assert len(found["tokens"]) == len(found["ahead"]) == len(found["back"])


def test_documents_cannot_be_kept_apart() -> None:
    with pytest.raises(UserError, match=r"set data\.document_mask=false"):
        prepare(load_recipe("elmo", ["data.train=x", *TINY, "data.document_mask=true"]), None, quiet)


@torch.no_grad()
def test_a_text_has_the_mean_of_its_layers_as_a_vector() -> None:
    embedder = open_run(trained(), "cpu", ["task.name=embedding"])
    assert isinstance(embedder, Embedder)
    found = opened()
    ids = torch.tensor([[found.end, *found.tokenizer.encode("the dog hears the cat."), found.end]])
    expected = torch.stack(found.model.layers(ids, torch.tensor([ids.shape[1]]))).mean(0)[0].mean(0)
    np.testing.assert_allclose(embedder("the dog hears the cat."), expected.numpy(), atol=1e-5)


def test_a_word_has_other_vectors_in_other_sentences_but_one_below_all_layers() -> None:
    uses = word_uses(trained(), "dog", ["the dog hears the cat.", "the bird likes the dog."], "cpu")
    assert uses.layers == ("words", "0", "1", "2")
    assert uses.pairs_LP[:2].max() < 1e-9
    assert uses.pairs_LP[2:].min() > 1e-3


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("task", ["tag", "classify"])
def test_it_is_a_body_for_other_tasks(task: str, frozen: bool, tmp_path: Path) -> None:
    settings = [f"task.init_from={trained()}", f"task.freeze={str(frozen).lower()}", *SMALL]
    if task == "tag":
        data = tiny_tags.write_rows(tmp_path / "rows.txt", tiny_tags.ROWS)
    else:
        data = tiny_labels.write_rows(tmp_path / "rows.tsv", tiny_labels.ROWS)
    recipe = load_recipe_to_train(
        f"finetune-{task}", [f"data.train={data}", f"data.valid={data}", f"data.test={data}", *settings]
    )
    train_as(recipe, tmp_path / "run")
    before = start_of(str(trained())).weights
    after = {name.removeprefix("body."): tensor for name, tensor in Run.open(tmp_path / "run").weights().tensors("model").items()}
    for name, tensor in before.items():
        if name.startswith(READS):
            assert torch.equal(after[name], tensor) == frozen, name
    assert after["sum.weights_N"].abs().sum() > 0
    assert after["sum.scale"] != 1
    said = open_run(tmp_path / "run", "cpu")
    if task == "tag":
        assert [entity.text for entity in said("Ann Lee left New Oslo .")]  # type: ignore[operator]
    else:
        assert said("the old cat is not nice") in ("good", "bad")  # type: ignore[operator]


def test_who_asks_for_its_attention_hears_that_there_is_none() -> None:
    with pytest.raises(UserError, match="no attention to look into"):
        subject_of(open_run(trained(), "cpu", ["task.name=embedding"]), "the dog hears the cat.")


def test_nothing_can_be_frozen_that_did_not_come_from_elsewhere() -> None:
    with pytest.raises(UserError, match=r"keeps what came with task\.init_from"):
        load_recipe("bert-tag", ["task.freeze=true"])
    with pytest.raises(UserError, match="for tasks classification, image_classification and tagging, not for language_model"):
        load_recipe("gpt", ["task.freeze=true", "task.init_from=runs/gpt"])


def test_a_frozen_run_that_goes_on_stays_frozen(tmp_path: Path) -> None:
    """Its start may be gone by then; and what learns again is what learned before."""
    data = tiny_tags.write_rows(tmp_path / "rows.txt", tiny_tags.ROWS)
    settings = [f"data.train={data}", f"data.valid={data}", f"task.init_from={trained()}", "task.freeze=true", *SMALL]
    recipe = load_recipe_to_train("finetune-tag", settings)
    train_as(recipe, tmp_path / "run")
    halfway = Run.open(tmp_path / "run").weights().tensors("model")
    train_as(load_recipe_to_train("finetune-tag", [*settings, "train.steps=18"], tmp_path / "run"), tmp_path / "run")
    after = Run.open(tmp_path / "run").weights().tensors("model")
    same = {name for name, tensor in halfway.items() if torch.equal(after[name], tensor)}
    assert same == {name for name in halfway if name.startswith(READS)}

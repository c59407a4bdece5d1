"""Filling in: the text is masked as asked, a stopped run goes on as if it had not been, and its body can be fine-tuned."""

from __future__ import annotations

import math
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from regard.commands.train import dry_run_lines, train_run
from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.data.batching.masked import MaskedPassages
from regard.families.bert import BERT, BERTConfig
from regard.families.electra import ELECTRA
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.runs.recipe import load_recipe
from regard.tasks.masked_lm.masking import SCORED, MaskedTest, masked
from regard.tasks.masked_lm.prepare import Masked, prepare
from regard.tasks.registry import open_run
from regard.text.config import KINDS
from regard.training.progress import Interrupt
from tests.tasks.tiny_labels import TINY as TINY_LABELS
from tests.tasks.tiny_masks import FAMILIES, WINDOW, data, tiny_recipe, train, trained
from tests.tasks.tiny_text import CPU, last_weights, quiet, write_stories

both = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def prepared(*settings: str, family: str = "bert") -> Masked:
    return prepare(tiny_recipe(family, data(), *settings), None, quiet)


# ------------------------------------------------------------------------------------------------------------------- the text


def test_a_learned_vocabulary_has_a_piece_more_that_hides_words() -> None:
    found = prepared()
    roles = found.tokenizer.roles
    assert roles.mask == len(found.tokenizer) - 1 <= 80
    source = found.source(packed=False)
    assert isinstance(source, MaskedPassages)
    batch = source.batch(source.plan(0)[0], 0)
    assert set(batch.ids_BL[:, 0].tolist()) == {roles.sos}
    assert (batch.ids_BL == roles.mask).any()
    assert roles.eos not in found.train.ids[:1000]  # documents are told apart by where they start


@both
def test_batches_are_as_large_as_asked_and_passages_at_most_a_window(family: str) -> None:
    source = prepared(family=family).source(packed=False)
    for epoch in (0, 3):
        for rows in source.plan(epoch):
            batch = source.batch(rows, epoch)
            assert batch.ids_BL.numel() <= 128
            assert batch.ids_BL.shape[1] <= WINDOW
            assert batch.tokens == source.count(rows)
            assert (batch.judged_T is not None) == (family == "electra")


def test_an_electra_hides_all_words_that_it_takes_out_and_a_bert_most() -> None:
    for family, least, most in (("electra", 1.0, 1.0), ("bert", 0.7, 0.9)):
        found = prepared(family=family)
        source, mask = found.source(packed=True), found.tokenizer.roles.mask
        batches = [source.batch(rows, 0) for rows in source.plan(0)]
        asked = [b.ids_BL.flatten()[b.masked_M[b.targets_M != IGNORED]] for b in batches]
        hidden = np.concatenate([(ids == mask).numpy() for ids in asked])
        assert least <= hidden.mean() <= most


def test_without_borders_text_is_one_stream_and_passages_are_full() -> None:
    source = prepared("data.document_mask=false").source(packed=False)
    lengths = source.passages.lengths(np.arange(len(source.passages)))
    assert set(lengths[1:-1]) == {WINDOW - 2}


def test_validation_masks_are_always_the_same() -> None:
    one, two = (prepared(f"train.seed={seed}") for seed in (1, 2))
    first, second = ([b.ids_BL.tolist() for b in masked(p.recipe, p.tokenizer, p.valid, SCORED).in_order()] for p in (one, two))
    assert first == second
    trains = [p.source(packed=False) for p in (one, two)]
    assert trains[0].batch(np.arange(4), 0).ids_BL.tolist() != trains[1].batch(np.arange(4), 0).ids_BL.tolist()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "byte"])
def test_every_kind_of_vocabulary_can_be_masked(kind: str) -> None:
    found = prepared(f"text.tokenizer={kind}", "text.size=300")
    source = found.source(packed=True)
    batch = source.batch(source.plan(0)[0], 0)
    assert batch.masked_M.numel() > 0
    assert not set(batch.targets_M.tolist()) & found.tokenizer.specials


@pytest.mark.parametrize(("kind", "size"), [("wordpiece", 45), ("bpe", 30), ("unigram", 30), ("byte-bpe", 268)])
def test_whole_words(kind: str, size: int) -> None:
    found = prepared(f"text.tokenizer={kind}", f"text.size={size}", "objective.whole_words=true", "objective.mask_rate=0.3")
    goes_on, source = found.tokenizer.continuing(), found.source(packed=True)
    joined = 0
    for rows in source.plan(0)[:20]:
        batch, own = source.batch(rows, 0), source.passages.take(rows).ids_T
        taken = np.zeros(len(own), bool)
        taken[batch.masked_M[batch.targets_M != IGNORED].numpy()] = True
        together = goes_on[own[1:]] & ~np.isin(own[:-1], list(found.tokenizer.specials))
        assert (taken[1:][together] == taken[:-1][together]).all()
        joined += int((taken[1:] & together).sum())
    assert joined > 0


# --------------------------------------------------------------------------------------------------------------------- training


@both
def test_stopped_anywhere_it_ends_as_if_it_had_not_been(family: str, tmp_path: Path) -> None:
    train(tmp_path / "whole", family, data())
    with patch("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT))):
        for step in (1, 2, 3):
            assert train(tmp_path / "parts", family, data()).progress.step == step
    train(tmp_path / "parts", family, data())
    assert last_weights(tmp_path / "whole") == last_weights(tmp_path / "parts")


def test_next_sentences_are_learned_beside_words(tmp_path: Path) -> None:
    recipe = tiny_recipe("bert", data(), "objective.next_sentence=true", "train.steps=20", "train.validate_every=20")
    outcome = train_run(replace(recipe, data=replace(recipe.data, test=(str(data()),))), tmp_path / "run", CPU, quiet)
    assert outcome.result is not None
    scores = outcome.result.as_dict()
    assert 0 <= scores["next_accuracy"] <= 1
    assert scores["nll"] < math.log(80)
    assert "next sentence" in "\n".join(outcome.result.lines())
    model = open_run(tmp_path / "run", "cpu").model
    assert hasattr(model, "next_sentence")


def test_a_bert_that_was_trained_knows_the_stories_and_an_electra_finds_false_words() -> None:
    test = MaskedTest((str(data()),), "text")
    bert, electra = (open_run(trained(family), "cpu").evaluate(test) for family in FAMILIES)
    assert bert.accuracy is not None
    assert bert.accuracy > 0.5  # a fourth of the masked words are animals, which nothing tells
    assert bert.nll < 1.5
    assert electra.judged is not None
    share = electra.judged.replaced
    assert 0.02 < share < 0.2
    assert electra.judged.judged_nll < -share * math.log(share) - (1 - share) * math.log(1 - share) - 0.02  # than to know no more
    assert electra.accuracy is None
    for result in (bert, electra):
        assert all(isinstance(value, float | int) for value in result.as_dict().values())
        assert result.lines()


@both
def test_metrics_and_samples_of_a_training(family: str, tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", family, data())
    validation = outcome.prepared.validator(outcome.prepared.objective())(outcome.prepared.model().eval())
    assert {"nll"} < validation.metrics.keys()
    assert bool(validation.samples) == (family == "bert")
    card = (tmp_path / "run" / "README.md").read_text()
    assert "nats a word" in card


@both
def test_what_it_would_cost(family: str) -> None:
    lines = "\n".join(dry_run_lines(tiny_recipe(family, data()), CPU, quiet))
    assert "masked words" in lines


def test_the_operations_counted_are_those_of_a_passage() -> None:
    found = prepared("model.maximum_length=40", "data.window=40")
    tree, scored = found.example()
    assert scored == 6
    assert tree.parameters == sum(p.numel() for p in found.model().parameters())


# --------------------------------------------------------------------------------------------------------------------- starts


def test_an_electra_is_fine_tuned_as_the_bert_that_its_discriminator_is() -> None:
    start, run = start_of(str(trained("electra"))), open_run(trained("electra"), "cpu")
    config = BERTConfig(**start.settings["model"])
    assert config.family == "bert"
    model = BERT(config, start.vocabulary, heads=replace(start.heads, words=False, replaced=True))
    start.fill(model)
    theirs = run.model.state_dict()
    assert model.state_dict().keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in model.state_dict().items())
    assert not any("generator" in name for name in start.weights)


@both
def test_labels_are_learned_on_top(family: str, tmp_path: Path) -> None:
    labels = "builtin:remarks/train"
    small = [setting for setting in TINY_LABELS if not setting.startswith(("model.", "text.", "data.train", "data.valid"))]
    settings = [f"task.init_from={trained(family)}", f"data.train={labels}", "data.valid=builtin:remarks/valid", "data.test="]
    recipe = load_recipe_to_train("gpt-classify", [*settings, *small, "objective.language=0", "data.maximum_tokens=24"])
    outcome = train_run(replace(recipe, train=replace(recipe.train, steps=2, warmup=1)), tmp_path / "run", CPU, quiet)
    assert outcome.progress.step == 2
    assert recipe.model.family == "bert"


def test_pre_training_goes_on_from_a_run(tmp_path: Path) -> None:
    settings = [f"task.init_from={trained('bert')}", f"data.train={data()}", "train.steps=1", "train.warmup=0"]
    recipe = load_recipe_to_train("bert", settings)
    found = prepare(recipe, None, quiet)
    ours, theirs = found.model().state_dict(), start_of(str(trained("bert"))).weights
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_start_whose_vocabulary_hides_nothing(tmp_path: Path) -> None:
    settings = ["model.family=bert", "objective.language=0", *TINY_LABELS, "train.steps=1", "train.warmup=0"]
    train_run(load_recipe("gpt-classify", settings), tmp_path / "labels", CPU, quiet)
    with pytest.raises(UserError, match="no piece that hides a word"):
        prepare(load_recipe_to_train("bert", [f"task.init_from={tmp_path / 'labels'}", f"data.train={data()}"]), None, quiet)


def test_families_and_objectives_belong_together() -> None:
    assert isinstance(prepared(family="electra").model(), ELECTRA)
    with pytest.raises(UserError, match=r"model.family=bert cannot be trained with objective.name=replaced_token"):
        prepared("objective.name=replaced_token", "objective.mask_rate=0.15")
    with pytest.raises(UserError, match=r"set objective.name=replaced_token"):
        prepare(replace(tiny_recipe("electra", data()), objective=tiny_recipe("bert", data()).objective), None, quiet)


def test_text_that_the_vocabulary_cannot_spell(tmp_path: Path) -> None:
    strange = write_stories(tmp_path / "strange.jsonl", ["жук лежит на жуке " * 40])
    with pytest.raises(UserError, match=r"data.valid: of .* tokens only .* are pieces that the vocabulary knows"):
        prepared(f"data.valid={strange}")

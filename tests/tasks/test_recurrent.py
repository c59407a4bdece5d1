"""A recurrent run by the commands of any translator: trained, continued, evaluated, predicted with, looked into, explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.commands.subjects import fresh, repeated, subject_of
from regard.families.recurrent import Recurrent
from regard.lens.analyses.weights import value_norms
from regard.model.probe import attentions
from regard.tasks.translation.predict import Translator
from tests.command import refused, regard
from tests.tasks.tiny_recurrent import recipe, trained

TEXT = "the cat sees the dog ."


@pytest.mark.parametrize("attention", ["none", "bahdanau", "luong"])
def test_a_run_answers_and_is_scored(attention):
    run = trained(attention)
    found = regard("predict", run, TEXT, "decode.search=greedy")
    assert found.code == 0, found.err
    assert found.out.strip().startswith("le ")
    scored = json.loads(regard("evaluate", run, "--json").out)
    assert scored["sentences"] == 4
    told = regard("explain", run)
    assert told.code == 0, told.err
    assert "1 + 1 layers of lstm cells; width 16" in told.out
    assert ("KV cache" in told.out) == (attention != "none")


def test_lens_draws_the_alignment_word_by_word(tmp_path: Path):
    drawn = tmp_path / "alignment.json"
    found = regard("lens", trained("bahdanau"), TEXT, "--out", drawn)
    assert found.code == 0, found.err
    picture = json.loads(drawn.read_text())
    assert picture["layers"] == ["decoder.0.cross"]
    weights = torch.tensor(picture["weights"])
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-3, rtol=0)
    assert weights.shape[-2:] == (len(picture["queries"]), len(picture["keys"]))
    assert picture["keys"][0].endswith("the")
    refused(regard("lens", trained("none"), TEXT), "model.attention=none")
    refused(regard("lens", trained("bahdanau"), TEXT, "--part", "encoder"), "decoder.0.cross")


def test_a_run_that_was_stopped_ends_with_the_same_weights_also_where_it_samples(tmp_path: Path):
    settings = ["model.scheduled_sampling=0.5", "model.input_feeding=true", "train.validate_every=4", "train.checkpoint_every=4"]
    for name, steps in (("whole", [8]), ("parts", [4, 8])):
        for last in steps:
            result = regard("train", recipe(), *settings, f"train.steps={last}", "train.warmup=2", "--out", tmp_path / name)
            assert result.code == 0, result.err
    whole, parts = (load_file(tmp_path / name / "checkpoints/step-00000008/model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_it_is_a_subject_of_lens_like_any_other():
    translator = Translator.open(trained("luong"), "cpu")
    subject = subject_of(translator, TEXT, "le chat voit le chien .")
    (name,) = seen = subject.record()
    assert name == "decoder.0.cross"
    queries, keys = subject.around(name)
    assert seen[name].weights().shape == (1, 1, len(queries), len(keys))
    assert value_norms(attentions(subject.model)[name], seen[name]).shape == (1, len(keys))
    untrained = fresh(translator)
    assert isinstance(untrained.model, Recurrent)
    assert subject_of(untrained, TEXT, "le chat voit le chien .").nll() > subject.nll()
    assert len(repeated(translator, 1)[0].record()) == 1


def test_words_are_looked_at_in_models_made_of_blocks(tmp_path: Path):
    refused(regard("lens", trained("luong"), TEXT, "a cat .", "--word", "cat"), "is a recurrent network")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.heads=2", "model.heads is not a setting"),
        ("model.attention=loung", "did you mean 'luong'"),
        ("train.compile=true", "train.compile=true is for models made of blocks"),
        ("train.optimizer=muon", "train.optimizer=muon is for models made of blocks"),
        ("text.joint=false", "model.tie=all shares one embedding"),
        ("model.family=recurent", "did you mean 'recurrent'"),
    ],
)
def test_settings_that_do_nothing_are_refused(setting, told, tmp_path: Path):
    refused(regard("train", recipe(), setting, "--out", tmp_path / "run"), told)
    assert not (tmp_path / "run").exists()

"""A language model with a memory: trained on streams, stopped and resumed, scored, continued; and what it does not go with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch

from regard.commands.train import prepare_run
from regard.core.errors import UserError
from regard.runs.recipe import load_recipe
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.registry import open_run
from regard.training.distributed import World
from tests.tasks.tiny_text import CPU, TINY, last_weights, quiet, stories, train, write_stories

MEMORY = (
    "data.document_mask=false",
    "data.window=8",
    "model.position=transformer-xl",
    "model.memory=12",
    "train.schedule=constant",
)
XL = ("model.family=transformer_xl", *MEMORY, "data.train=x", "model.norm_placement=post")
_kept = TemporaryDirectory(prefix="regard-tests-")


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@cache
def data() -> Path:
    return write_stories(Path(_kept.name) / "stories.jsonl", stories(60))


@cache
def run() -> Path:
    train(Path(_kept.name) / "run", data(), *MEMORY, "train.steps=12", "train.learning_rate=3e-2", "train.validate_every=6")
    return Path(_kept.name) / "run"


def opened(*settings: str) -> TextGenerator:
    found = open_run(run(), "cpu", settings)
    assert isinstance(found, TextGenerator)
    return found


@pytest.mark.parametrize(
    "more", [(), ("train.accumulate=2", "train.examples_per_batch=5"), ("model.memory_start=zeros",)], ids=str
)
def test_a_run_that_stops_goes_on_with_its_memory(more: tuple[str, ...], tmp_path: Path) -> None:
    every = (*MEMORY, *more, "train.checkpoint_every=1", "train.validate_every=4")
    train(tmp_path / "whole", data(), *every, "train.steps=9")
    for steps in (1, 2, 5, 9):
        train(tmp_path / "parts", data(), *every, f"train.steps={steps}")
    expected, found = last_weights(tmp_path / "whole"), last_weights(tmp_path / "parts")
    assert "memory.safetensors" in expected
    assert found == expected
    train(tmp_path / "none", data(), *[s for s in every if s not in more and "memory" not in s], "train.steps=1")
    assert "memory.safetensors" not in last_weights(tmp_path / "none")


def test_scores_are_those_of_one_pass_over_the_text() -> None:
    writer, texts = opened(), [np.arange(5, 40), np.arange(30, 37), np.arange(100, 101), np.arange(50, 120)]
    for text, scores in zip(texts, writer.log_probabilities(texts), strict=True):
        ids = torch.tensor([[writer.start, *text[:-1].tolist()]])
        expected = writer.model(ids).detach().log_softmax(-1)[0].gather(1, torch.from_numpy(text)[:, None])[:, 0]
        torch.testing.assert_close(torch.from_numpy(scores), expected, atol=2e-5, rtol=1e-5)


def test_a_longer_memory_and_another_segment_at_scoring() -> None:
    text = [np.arange(5, 60)]
    usual, (same,) = opened().log_probabilities(text)[0], opened("data.memory=12").log_probabilities(text)
    assert np.array_equal(usual, same)
    (longer,) = opened("data.memory=40").log_probabilities(text)
    np.testing.assert_allclose(longer[:16], usual[:16], atol=1e-5)
    assert not np.allclose(longer[24:], usual[24:], atol=1e-5)
    (shorter,) = opened("data.window=4").log_probabilities(text)
    assert not np.allclose(shorter[24:], usual[24:], atol=1e-5)


def test_a_text_goes_on_past_many_segments_as_the_forward_pass_has_it() -> None:
    """Greedily, after a prompt longer than a segment, in batches with a shorter one."""
    writer = opened("decode.search=greedy", "decode.maximum_length=40", "decode.minimum_length=39")
    long, short = "the cat sees the dog. the bird hears the horse. the dog", "the"
    ids = writer.encode(long)
    assert len(ids) > 8
    written = [found[0] for found in writer.write([long, short])]
    for prompt, text in zip((ids, writer.encode(short)), written, strict=True):
        assert len(text.ids) >= 39
        logits = writer.model(torch.tensor([[*prompt, *text.ids]])).detach()[0, len(prompt) - 1 : -1]
        chosen = logits.log_softmax(-1).gather(1, torch.tensor(text.ids)[:, None])[:, 0]
        torch.testing.assert_close(chosen, torch.tensor([token.logprob for token in text.tokens]), atol=1e-4, rtol=1e-4)
    assert written[1].text == writer.write([short])[0][0].text


def test_validation_leaves_the_memory_of_the_training_alone(tmp_path: Path) -> None:
    for every in (1, 4):
        train(
            tmp_path / f"{every}", data(), *MEMORY, f"train.validate_every={every}", "train.steps=4", "train.checkpoint_every=4"
        )
    assert last_weights(tmp_path / "1") == last_weights(tmp_path / "4")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("model.memory=-1",), "model.memory=-1 must be 0"),
        (("model.memory=12",), "model.position=learned counts from the start of a segment"),
        ((*MEMORY, "data.document_mask=true"), "set data.document_mask=false, or model.memory=0"),
        ((*MEMORY, "data.stride=4"), "data.stride=4 is for windows that overlap"),
        (("data.memory=8",), "data.memory=8 is for models with a memory"),
        ((*MEMORY, "data.memory=-3"), "data.memory=-3 must be 0"),
        ((*MEMORY, "data.window=5000"), "fewer than one window of 5,000"),
        ((*MEMORY, "model.mixer=favor"), "choose one of sinusoidal"),
        ((*MEMORY, "model.visibility=block(4)"), "depends on where in a text"),
        ((*MEMORY, "model.memory=0", "model.same_length=true"), "model.same_length=true is for a model with a memory"),
        ((*MEMORY, "model.memory_start=zeros", "decode.cache=int8"), "decode.cache=int8 counts tokens from the first"),
        ((*MEMORY, "model.memory_start=zeros", "decode.share_prefix=true"), "decode.share_prefix=true counts tokens"),
        ((*MEMORY, "model.family=transformer_xl", "model.cutoffs=10,5"), "model.cutoffs=10,5 must rise"),
        ((*MEMORY, "model.family=transformer_xl", "model.cutoffs=100,4000"), "model.cutoffs ends with 4,000"),
        ((*MEMORY, "model.clamp=9"), "clamp"),
    ],
)
def test_what_a_memory_does_not_go_with_is_said(settings: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        train(tmp_path / "run", data(), *settings)
    assert not (tmp_path / "run").exists()


def test_several_processes_are_refused(tmp_path: Path) -> None:
    recipe = load_recipe("gpt", [f"data.train={data()}", *TINY, *MEMORY])
    with pytest.raises(UserError, match=r"model\.memory=12 is carried from batch to batch by one process, and here are 2"):
        prepare_run(recipe, tmp_path / "run", CPU, quiet, World(size=2))


def test_a_family_with_clusters_trains_and_writes(tmp_path: Path) -> None:
    clusters = ("model.family=transformer_xl", "model.cutoffs=100,200", "model.divisor=2", "model.tie=output")
    outcome = train(tmp_path / "run", data(), *MEMORY, *clusters)
    writer = open_run(outcome.run.folder, "cpu")
    assert isinstance(writer, TextGenerator)
    assert writer("the cat")
    assert np.exp(writer.log_probabilities([np.arange(5, 30)])[0]).max() < 1

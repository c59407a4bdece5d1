"""Scoring a run: the numbers of a plain loop, documents apart or as one, beside compressors and trigrams where there are any."""

from __future__ import annotations

import gzip
import json
import shutil
from math import exp, log
from pathlib import Path

import pytest
import torch

from regard.commands.evaluate import score_run
from regard.core.errors import UserError
from regard.metrics.likelihood import log_probabilities as reference_scores
from regard.tasks import corpus
from regard.tasks.corpus import Perplexity
from regard.tasks.language_model.predict import TextGenerator
from tests.tasks.tiny_text import WINDOW, log_probabilities, stories, train, trained, write_stories, writer

TEST = [story for story in stories(60, seed=9) if story.count("\n") < 2][:12]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def scored(test: Path, *settings: str, run: Path | None = None) -> Perplexity:
    result = score_run(run or trained(), [f"data.test={test}", *settings], "cpu", None).result
    assert isinstance(result, Perplexity)
    return result


def ended(found: TextGenerator, ids: list[int]) -> list[int]:
    assert found.tokenizer.roles.eos is not None
    return [*ids, found.tokenizer.roles.eos]


def nats(found: TextGenerator, ids: list[int]) -> float:
    """Of one document, its end included, each token predicted from all before it and a start."""
    read = [found.start, *ended(found, ids)]
    aims = read[1:]
    assert len(aims) <= WINDOW
    return -log_probabilities(found, read[:-1])[range(len(aims)), aims].sum().item()


def test_documents_apart_are_each_predicted_by_themselves(tmp_path: Path) -> None:
    found, test = writer(), write_stories(tmp_path / "test.jsonl", TEST)
    rows = [found.tokenizer.encode(text) for text in TEST]
    likelihood = scored(test).likelihood
    expected, tokens, size = sum(nats(found, ids) for ids in rows), sum(len(ids) + 1 for ids in rows), sum(map(len, TEST))
    assert likelihood.nats == pytest.approx(expected, rel=1e-5)
    assert (likelihood.tokens, likelihood.bytes, likelihood.words) == (tokens, size, sum(len(t.split()) for t in TEST))
    assert likelihood.perplexity == pytest.approx(exp(expected / tokens), rel=1e-5)
    assert likelihood.bits_per_byte == pytest.approx(expected / log(2) / size, rel=1e-5)
    backwards = scored(write_stories(tmp_path / "backwards.jsonl", TEST[::-1])).likelihood
    assert backwards.nats == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("stride", [1, 5, 16])
def test_as_one_text_windows_move_over_all_of_it(stride: int, tmp_path: Path) -> None:
    found, test = writer(), write_stories(tmp_path / "test.jsonl", TEST)
    ids = [i for text in TEST for i in ended(found, found.tokenizer.encode(text))]
    likelihood = scored(test, "data.document_mask=false", f"data.stride={stride}").likelihood
    (expected,) = reference_scores(found.model, [ids], start=found.start, window=WINDOW, stride=stride)
    assert likelihood.nats == pytest.approx(-expected.sum(), rel=1e-5)
    assert likelihood.nats != pytest.approx(scored(test).likelihood.nats, rel=1e-5)


def test_it_stands_beside_what_needs_no_network(tmp_path: Path) -> None:
    """By bits per byte; what has learned the sentences beats gzip on new ones."""
    result = scored(write_stories(tmp_path / "test.jsonl", TEST))
    assert set(result.others) >= {"gzip", "LZMA", "trigrams, Kneser-Ney"}
    assert result.others["gzip"] == 8 * len(gzip.compress("\n".join(TEST).encode(), 9)) / len("\n".join(TEST))
    assert result.likelihood.bits_per_byte < result.others["gzip"]
    lines = "\n".join(result.lines())
    assert all(f"{bits:.4f}  {name}" in lines for name, bits in result.others.items())
    said = json.loads(json.dumps(result.as_dict()))
    assert said["others_bits_per_byte"] == result.others
    assert said["perplexity"] == result.likelihood.perplexity
    assert result.outputs == ()


def test_a_run_can_be_scored_where_its_training_text_is_not(tmp_path: Path) -> None:
    """Copied to another machine, it has no others to compare with, and says so."""
    data, test = write_stories(tmp_path / "train.jsonl", stories(40)), write_stories(tmp_path / "test.jsonl", TEST)
    train(tmp_path / "run", data, f"data.test={test}", "train.steps=1", "train.warmup=0")
    before = scored(test, run=tmp_path / "run")
    data.unlink()
    shutil.rmtree(tmp_path / "cache")
    after = scored(test, run=tmp_path / "run")
    assert after.likelihood == before.likelihood
    assert before.others
    assert not after.others
    assert "train.jsonl" in after.lines()[-1]
    json.dumps(after.as_dict())


def test_a_training_text_that_is_too_long_to_compare_with_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = write_stories(tmp_path / "test.jsonl", TEST)
    monkeypatch.setattr(corpus, "SMALL", 1000)
    result = scored(test)
    assert result.others == {}
    assert len(result.lines()) == 3
    assert len(list((tmp_path / "cache").glob("*.ids"))) == 1


def test_a_stride_beyond_the_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.stride=17 is more than a window of 16"):
        scored(write_stories(tmp_path / "test.jsonl", TEST), "data.stride=17")


def test_what_a_trained_run_cannot_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.width=32 .*cannot be set for a trained run"):
        scored(write_stories(tmp_path / "test.jsonl", TEST), "model.width=32")


def test_a_training_ends_with_the_score_of_its_test(tmp_path: Path) -> None:
    data, test = write_stories(tmp_path / "train.jsonl", stories(40)), write_stories(tmp_path / "test.jsonl", TEST)
    outcome = train(tmp_path / "run", data, f"data.test={test}", "train.steps=2", "train.warmup=1")
    assert isinstance(outcome.result, Perplexity)
    assert outcome.result == scored(test, run=tmp_path / "run")
    card = (tmp_path / "run" / "README.md").read_text()
    assert all(f"- {line}" in card for line in outcome.result.lines())

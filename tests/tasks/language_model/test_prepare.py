"""Training a writer: from whatever text people have, held out, packed, cached, killed, continued, or refused in a sentence."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.core.packing import Pieces
from regard.data.batching.windows import WindowBatch
from regard.runs.recipe import load_recipe
from regard.tasks.language_model.prepare import Texts, prepare
from regard.tasks.registry import open_run
from regard.text.config import KINDS
from regard.training.progress import Interrupt, catch_signals
from tests.tasks.tiny_text import TINY, last_weights, quiet, stories, train, write_stories

STORIES = stories(60)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def prepared(data: Path | str, *settings: str) -> Texts:
    return prepare(load_recipe("gpt", [f"data.train={data}", *TINY, *settings]), None, quiet)


def one_file(folder: Path) -> tuple[str, list[str]]:
    (folder / "all.txt").write_text("\n<|endoftext|>\n".join(STORIES))
    return str(folder / "all.txt"), [f"{story}\n" for story in STORIES[:-1]] + STORIES[-1:]


def many_files(folder: Path) -> tuple[str, list[str]]:
    (folder / "books" / "deep").mkdir(parents=True)
    for n, story in enumerate(STORIES):
        (folder / "books" / ("deep" if n > 30 else ".") / f"{n:03}.txt").write_text(story)
    (folder / "books" / "picture.png").write_bytes(b"\x89PNG")
    return str(folder / "books"), STORIES


def by_pattern(folder: Path) -> tuple[str, list[str]]:
    many_files(folder)
    return str(folder / "books" / "00*.txt"), STORIES[:10]


def json_lines(folder: Path) -> tuple[str, list[str]]:
    return str(write_stories(folder / "all.jsonl", STORIES)), STORIES


def several(folder: Path) -> tuple[str, list[str]]:
    (folder / "first.txt").write_text(STORIES[0])
    return f"{folder / 'first.txt'},{write_stories(folder / 'rest.jsonl', STORIES[1:])}", STORIES


# text in --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("source", [one_file, many_files, by_pattern, json_lines, several])
def test_it_trains_on_whatever_holds_text(source: Callable[[Path], tuple[str, list[str]]], tmp_path: Path) -> None:
    """All documents are there, in order, each with its end; the last are held out; and a model comes out that writes."""
    where, documents = source(tmp_path)
    outcome = train(tmp_path / "run", where, "data.valid_fraction=0.2", "train.steps=2", "train.warmup=1")
    texts = outcome.prepared
    assert isinstance(texts, Texts)
    end = texts.tokenizer.roles.eos
    ids = [i for document in documents for i in (*texts.tokenizer.encode(document), end)]
    assert [*texts.train.ids, *texts.valid.ids] == ids
    assert len(texts.valid.ids) == pytest.approx(0.2 * len(ids), rel=0.5)
    assert texts.train.ids[-1] == end  # there are many documents, so none is cut
    assert outcome.progress.step == 2
    assert isinstance(open_run(tmp_path / "run", "cpu")("the cat"), str)  # type: ignore[operator]


def test_json_lines_have_their_text_where_it_is_said_to_be(tmp_path: Path) -> None:
    data = write_stories(tmp_path / "posts.jsonl", STORIES, column="body")
    with pytest.raises(UserError, match=r"text.*data\.column"):
        prepared(data)
    assert prepared(data, "data.column=body").train.ids.size


def test_a_single_document_is_cut_where_the_held_out_part_begins(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("\n".join(STORIES))
    whole = prepared(tmp_path / "book.txt")
    total = len(whole.train.ids) + len(whole.valid.ids)
    assert len(whole.valid.ids) == pytest.approx(0.05 * total, abs=1)
    assert (whole.train.starts.tolist(), whole.valid.starts.tolist()) == ([0], [0])
    most = prepared(tmp_path / "book.txt", "data.valid_fraction=0.9")
    assert len(most.valid.ids) == pytest.approx(0.9 * total, abs=1)


def test_what_is_held_out_begins_with_a_document_and_knows_where_others_begin(tmp_path: Path) -> None:
    texts = prepared(write_stories(tmp_path / "all.jsonl", STORIES), "data.valid_fraction=0.3")
    encoded = [texts.tokenizer.encode(story) for story in STORIES]
    found = [
        part.ids[begin : end - 1].tolist()
        for part in (texts.train, texts.valid)
        for begin, end in pairwise([*part.starts, len(part.ids)])
    ]
    assert found == encoded


def test_where_validation_text_is_given_nothing_is_held_out(tmp_path: Path) -> None:
    data, valid = write_stories(tmp_path / "a.jsonl", STORIES), write_stories(tmp_path / "b.jsonl", STORIES[:5])
    texts = prepared(data, f"data.valid={valid}")
    assert (len(texts.train.starts), len(texts.valid.starts)) == (60, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_vocabulary_trains_validates_and_writes(kind: str, tmp_path: Path) -> None:
    """Of one vocabulary a token is a word, of another a byte; windows are so small that validation cuts characters."""
    size = {"byte": 0, "byte-bpe": 280}.get(kind, 60)
    data = write_stories(tmp_path / "all.jsonl", ["🙂🙂🙂 naïve", *STORIES])
    small = ["data.window=4", "train.steps=2", "train.warmup=1", "train.validate_every=2", f"data.valid={data}"]
    outcome = train(tmp_path / "run", data, f"text.tokenizer={kind}", f"text.size={size}", "decode.maximum_length=3", *small)
    assert outcome.progress.best is not None
    found = open_run(tmp_path / "run", "cpu")
    ids = found.tokenizer.encode("the")  # type: ignore[attr-defined]
    (texts,) = found.write(["the"] if len(ids) < 3 else ["t"])  # type: ignore[attr-defined]
    assert len(texts[0].ids) <= 3
    assert (tmp_path / "run" / "samples.txt").read_text()


# windows --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("apart", [True, False])
def test_documents_apart_do_not_see_each_other(apart: bool, tmp_path: Path) -> None:
    """Change the words of one document in a window: what is predicted in the next changes only where they share it."""
    texts = prepared(write_stories(tmp_path / "all.jsonl", STORIES), f"data.document_mask={str(apart).lower()}")
    source, model = texts.source(packed=False), texts.model().eval()
    batch = source.batch(source.plan(0)[0], 0)
    assert isinstance(batch, WindowBatch)
    assert isinstance(batch.documents, Pieces) == apart
    end = texts.tokenizer.roles.eos
    borders = [(row, int(place)) for row, ids in enumerate(batch.ids_BL) for place in (ids == end).nonzero()[:1]]
    row, border = next((row, place) for row, place in borders if 0 < place < 15)
    changed = batch.ids_BL.clone()
    changed[row, :border] = (changed[row, :border] + 7) % 250 + 10
    with torch.no_grad():
        before, after = (model(ids_BL, batch.documents)[row, border:] for ids_BL in (batch.ids_BL, changed))
    assert torch.equal(before, after) == apart


# killed, continued, repeated ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("apart", ["true", "false"])
def test_stopped_and_continued_is_the_same_training(apart: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after each of three steps, with dropout; the weights and moments of the last step are equal to the bit."""
    data = write_stories(tmp_path / "all.jsonl", STORIES)
    train(tmp_path / "whole", data, f"data.document_mask={apart}")
    with monkeypatch.context() as patch:
        patch.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
        for step in (1, 2, 3):
            outcome = train(tmp_path / "parts", data, f"data.document_mask={apart}")
            assert (outcome.progress.step, outcome.interrupted) == (step, 130)
    train(tmp_path / "parts", data, f"data.document_mask={apart}")
    assert last_weights(tmp_path / "parts") == last_weights(tmp_path / "whole")
    assert len(last_weights(tmp_path / "whole")) == 2


def test_it_is_not_continued_with_other_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_stories(tmp_path / "all.jsonl", STORIES)
    monkeypatch.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
    train(tmp_path / "run", data)
    write_stories(data, [*STORIES[:-1], "the cat sees the dog. the"])
    with pytest.raises(UserError, match=r"the (training|validation) data is not what .* was begun with"):
        train(tmp_path / "run", data)
    write_stories(data, STORIES)
    monkeypatch.setattr("regard.commands.train.catch_signals", catch_signals)
    assert train(tmp_path / "run", data).progress.step == 6


def test_text_is_tokenised_once_for_all_runs(tmp_path: Path, cache: Path) -> None:
    data = write_stories(tmp_path / "all.jsonl", STORIES)
    train(tmp_path / "one", data, "train.steps=1", "train.warmup=0")
    before = {path: path.stat().st_mtime_ns for path in cache.glob("*.ids")}
    assert len(before) == 1
    train(tmp_path / "two", data, "train.steps=1", "train.warmup=0", "model.width=8", "data.valid_fraction=0.5")
    assert {path: path.stat().st_mtime_ns for path in cache.glob("*.ids")} == before
    train(tmp_path / "three", data, "train.steps=1", "train.warmup=0", "text.size=270")
    assert len(list(cache.glob("*.ids"))) == 2


def test_a_cache_that_is_deleted_is_made_again(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_stories(tmp_path / "all.jsonl", STORIES)
    with monkeypatch.context() as patch:
        patch.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
        train(tmp_path / "run", data)
    for path in cache.iterdir():
        path.unlink()
    assert train(tmp_path / "run", data).progress.step == 6


# refused --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["data.window=17"], r"data\.window=17 is more than model\.maximum_length=16 positions"),
        (["data.valid_fraction=0.0001"], r"there is 0 token to validate with.* data\.valid_fraction"),
        (["text.tokenizer=public"], r"text\.tokenizer=public is for runs that begin with a checkpoint"),
        (["data.test=nowhere.txt"], r"nowhere\.txt"),
        (["data.valid=nowhere.txt"], r"nowhere\.txt"),
        (["data.train="], r"data\.train is empty"),
        (["task.init_from=nowhere/at/all"], r"no folder nowhere/at/all"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    settings: list[str], told: str, tmp_path: Path, cache: Path
) -> None:
    data = write_stories(tmp_path / "all.jsonl", STORIES)
    with pytest.raises(UserError, match=told) as refusal:
        train(tmp_path / "run", data, *settings)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()
    assert "0.0001" in settings[0] or not cache.exists()  # nor was hours' worth of text read first


def test_text_that_is_too_short_is_refused_with_a_window_that_fits(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("the cat sees.")
    with pytest.raises(UserError, match=r"fewer than one window of 16 .* set data\.window=\d+\.") as refusal:
        prepared(tmp_path / "short.txt", "data.valid_fraction=0.4", "text.tokenizer=byte", "text.size=0")
    fits = str(refusal.value).split()[-1].removesuffix(".")
    assert prepared(tmp_path / "short.txt", "data.valid_fraction=0.4", "text.tokenizer=byte", "text.size=0", fits).window > 1


def test_other_positions_reach_beyond_their_table(tmp_path: Path) -> None:
    data = write_stories(tmp_path / "all.jsonl", STORIES)
    texts = prepared(data, "data.window=20", "model.position=sinusoidal")
    batch = texts.source(packed=False).batch(np.array([0]), 0)
    assert isinstance(batch, WindowBatch)
    assert batch.ids_BL.shape == (1, 20)

"""Bots that find: the nearest reply by cosine, of those kept with the run, with vectors that are made anew when they must be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from regard.tasks.registry import open_run
from regard.tasks.retrieval.predict import INDEX, REPLIES, Retriever
from tests.command import refused, regard
from tests.tasks.adopted_folder import folder_of
from tests.tasks.embedding.test_predict import theirs
from tests.tasks.tiny_dialogues import data, files, trained
from tests.tasks.tiny_words import lexicon
from tests.tasks.tiny_words import trained as words_run


def opened(folder: Path, *settings: str) -> Retriever:
    found = open_run(folder, "cpu", settings)
    assert isinstance(found, Retriever)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return shutil.copytree(trained("chat-retrieval"), tmp_path / "run")


def test_the_nearest_are_those_of_a_plain_search(run: Path) -> None:
    bot = opened(run)
    context = ("hi , i am nora .", "hello nora , nice to meet you .", "who am i ?")
    x_D = bot.vectors("contexts", [context])[0]
    replies = sorted({exchange.reply for exchange in bot.kept.exchanges})
    cosines = {reply: float(bot.vectors("replies", [(reply,)])[0] @ x_D) for reply in replies}
    best = sorted(cosines, key=lambda reply: -cosines[reply])[:3]
    found = bot.nearest([context], 3)[0]
    assert [one.reply for one in found] == best
    np.testing.assert_allclose([one.cosine for one in found], [cosines[reply] for reply in best], atol=1e-5)
    assert all(-1.0001 <= one.cosine <= 1.0001 for one in found)


def test_the_index_is_kept_and_made_anew_when_the_replies_change(run: Path) -> None:
    bot = opened(run)
    first, stamp = bot.index, (run / INDEX).stat().st_mtime_ns
    np.testing.assert_array_equal(opened(run).index, first)
    assert (run / INDEX).stat().st_mtime_ns == stamp
    (run / REPLIES).write_text('{"turns": ["hi", "go away !"]}\n{"turns": ["hello", "no ."]}\n')
    changed = opened(run)
    assert len(changed.index) == 2
    assert changed("who are you ?") in ("go away !", "no .")


def test_a_damaged_index_is_made_again_and_a_lost_file_of_replies_is_told(run: Path) -> None:
    whole = opened(run).index
    (run / INDEX).write_bytes(b"half")
    np.testing.assert_array_equal(opened(run).index, whole)
    (run / REPLIES).unlink()
    refused(regard("predict", run, "hi"), "no replies at", "Copy them back")


def test_it_can_compare_with_what_was_said_before_instead(run: Path) -> None:
    bot = opened(run, "data.compare=contexts")
    stored = bot.entries[3]
    found = bot.nearest([stored.context], 1)[0][0]
    assert found.cosine == pytest.approx(1, abs=1e-5)
    assert found.reply in {e.reply for e in bot.entries if e.context == stored.context}


def test_replies_come_with_their_cosines_when_asked(run: Path) -> None:
    plain = regard("predict", run, "who am i ?", "")
    assert plain.out.count("\n") == 2
    several = regard("predict", run, "who am i ?", "data.nearest=3").out.splitlines()
    assert len(several) == 3
    cosines = [float(line.split("\t")[0]) for line in several]
    assert cosines == sorted(cosines, reverse=True)
    told = json.loads(regard("predict", run, "who am i ?", "--json").out)
    assert told["outputs"][0].keys() == {"reply", "cosine"}


def test_it_is_scored_on_the_same_candidates_as_a_writer(run: Path) -> None:
    told = json.loads(regard("evaluate", run, "--json").out)
    assert told["perplexity"] is None
    written = json.loads(regard("evaluate", trained("chat-multi"), "--json").out)
    assert told.keys() == written.keys()
    assert (told["replies"], told["candidates"]) == (written["replies"], written["candidates"])


def test_a_public_encoder_gives_the_vectors_that_transformers_gives() -> None:
    settings = ["task.name=retrieval", f"data.train={files() / 'train.jsonl'}", "data.maximum_tokens=90"]
    bot, text = opened(folder_of("BertModel"), *settings), "the animal did not cross the street"
    (vector,) = theirs(folder_of("BertModel"), [text], normalised=True)
    np.testing.assert_allclose(bot.vectors("contexts", [(text,)])[0], vector, atol=1e-5)
    np.testing.assert_allclose(bot.vectors("replies", [(text,)])[0], vector, atol=1e-5)


def test_a_public_encoder_finds_without_any_training_and_begins_one(tmp_path: Path) -> None:
    folder = folder_of("BertModel")
    chosen = ["task.name=retrieval", f"data.train={files() / 'train.jsonl'}", "data.maximum_tokens=16"]
    settings = list(chosen)
    said = regard("predict", folder, "who am i ?", *settings, "data.nearest=2")
    assert said.code == 0, said.err
    assert said.out.count("\t") == 2
    imported = regard("import", folder, tmp_path / "run", *chosen)
    assert imported.code == 0, imported.err
    scored = regard("evaluate", tmp_path / "run", f"data.test={files() / 'test.txt'}")
    assert "recall" in scored.out
    tuned = regard(
        *("train", "chat-retrieval", f"task.init_from={folder}", *data(), "data.maximum_tokens=16", "train.steps=2"),
        *("train.warmup=0", "train.schedule=constant", "--out", tmp_path / "tuned", "--device", "cpu"),
    )
    assert tuned.code == 0, tuned.err


def test_word_vectors_find_by_their_mean_and_begin_a_training(tmp_path: Path) -> None:
    talks = tmp_path / "talks.txt"
    talks.write_text("cat eats __eou__ dog sleeps\nred paint __eou__ blue ink\nunheard of __eou__ bird hides fish\n")
    vectors, settings = lexicon("skipgram").vectors, ["task.name=retrieval", f"data.train={talks}"]
    bot = opened(words_run("skipgram"), *settings)
    found = bot.vectors("replies", [("dog sleeps",), ("blue ink",)])
    mean = vectors.vectors_VD[[vectors.numbers[word] for word in ("dog", "sleeps")]].sum(0)
    np.testing.assert_allclose(found[0], mean / np.linalg.norm(mean), atol=1e-5)
    assert bot("horse runs") in ("dog sleeps", "bird hides fish")
    assert bot("green cloth") == "blue ink"
    begun = ["train.steps=2", "train.warmup=0", "train.schedule=constant", f"task.init_from={words_run('skipgram')}"]
    where = [f"data.train={talks}", f"data.valid={talks}", "data.test="]
    trained_on = regard("train", "chat-words", *begun, *where, "--out", tmp_path / "run", "--device", "cpu")
    assert trained_on.code == 0, trained_on.err
    assert regard("chat", tmp_path / "run", stdin=b"green cloth\n").out.startswith("Model: ")

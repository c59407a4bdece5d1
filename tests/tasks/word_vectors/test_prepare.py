"""Word vectors from text to answers: they learn, go on after a stop as if there had been none, and open as a file or a run."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from regard.commands.convert import export_run
from regard.commands.train import train_run
from regard.core.errors import UserError
from regard.data.sources.word_vectors import read_vectors
from regard.runs.folder import Run
from regard.runs.recipe import load_recipe
from regard.tasks.registry import open_run
from regard.tasks.word_vectors.predict import WordVectorModel
from regard.tasks.word_vectors.prepare import _warn_if_crowded
from regard.training import word_vectors
from regard.training.progress import Interrupt
from tests.command import regard
from tests.tasks.tiny_words import ANIMALS, COLOURS, CPU, DO, EPOCHS, lexicon, settings, text_file, train, trained

every = pytest.mark.parametrize("name", EPOCHS)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return Run.open(folder).weights().tensors("model")


@every
def test_words_of_a_kind_find_each_other(name: str) -> None:
    found = lexicon(name)
    for kind, other in ((ANIMALS, COLOURS), (COLOURS, ANIMALS)):
        within = np.mean([found.similarity(a, b) for a, b in product(kind, kind) if a != b])
        across = np.mean([found.similarity(a, b) for a, b in product(kind, other)])
        assert within > across + 0.3
    right = sum(near.word in (*ANIMALS, *DO) for word in ANIMALS for near in found(word))
    assert right >= 18  # of 20, where chance would have 10


@every
def test_a_stopped_run_goes_on_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    """Stopped in the middle of an epoch, continued with another number of threads, bit for bit."""
    few = ["train.epochs=3", "train.batch=32"] if name == "glove" else ["train.epochs=3"]  # so that there are steps enough
    train(name, tmp_path / "whole", *few, "train.threads=2")
    taken, take_step = [], word_vectors.take_step

    def stop_after_ten(*given: Any) -> None:
        take_step(*given)
        taken.append(1)
        if len(taken) == 10:
            interrupt.signal = 2

    interrupt = Interrupt()
    with patch("regard.commands.train.catch_signals") as listens, patch.object(word_vectors, "take_step", stop_after_ten):
        listens.return_value.__enter__.return_value = interrupt
        stopped = train(name, tmp_path / "parts", *few, "train.threads=1")
    assert stopped.interrupted
    assert 10 <= stopped.progress.step <= 11
    train(name, tmp_path / "parts", *few, "train.threads=3")
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    steps = [json.loads(line)["step"] for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    told: list[str] = []
    train(name, tmp_path / "parts", *few, say=told.append)
    assert any("nothing left to train" in line for line in told)


def test_a_run_has_all_that_runs_have(tmp_path: Path) -> None:
    folder = trained("cbow")
    names = {path.name for path in folder.iterdir()}
    assert {"recipe.toml", "tokenizer.json", "metrics.jsonl", "curves.png", "README.md", "data.json"} <= names
    card = (folder / "README.md").read_text("utf-8")
    assert "word vectors of width 16" in card
    assert "2,400 words in 600 sentences, 20 different" in card
    assert "validate" not in card


def test_another_task_or_other_settings_are_not_trained_in_its_folder() -> None:
    with pytest.raises(UserError, match=r"objective.window=2"):
        train("skipgram", trained("skipgram"), "objective.window=2")


def test_a_lexicon_answers_and_is_scored(tmp_path: Path) -> None:
    folder, test = str(trained()), tmp_path / "pairs.csv"
    test.write_text("cat,dog,9\nred,blue,8\ncat,red,1\ndog,ink,2\nnowhere,cat,3\n")
    questions = tmp_path / "questions.txt"
    questions.write_text(": kinds\ncat dog red blue\ncat dog red nowhere\n")
    said = regard("predict", folder, "cat", "", "cat - dog + bird", "data.nearest=2", "--json")
    records = [json.loads(line) for line in said.out.splitlines()]
    assert [len(record["nearest"]) for record in records] == [2, 0, 2]
    assert not {near["word"] for near in records[2]["nearest"]} & {"cat", "dog", "bird"}
    scored = regard("evaluate", folder, f"data.test={questions},{test}", "data.restrict=10", "--json")
    analogies, pairs = json.loads(scored.out)["scores"]
    assert analogies["questions"] == {"asked": 2, "in_vocabulary": 1, "first_10_words": analogies["questions"]["first_10_words"]}
    assert pairs["known"] == 4
    assert pairs["spearman"] > 0.5
    lines = regard("evaluate", folder, f"data.test={test}").out
    assert "4 of 5 pairs in vocabulary" in lines


@pytest.mark.parametrize("kind", ["word2vec", "word2vec-binary", "glove"])
def test_what_is_exported_answers_alike(kind: str, tmp_path: Path) -> None:
    export_run(trained("glove"), tmp_path / "out", kind, lambda line: None)
    (file,) = (tmp_path / "out").iterdir()
    ours, theirs = lexicon("glove"), open_run(file, "cpu", ["data.nearest=4"])
    assert isinstance(theirs, WordVectorModel)
    assert ours("cat") == theirs("cat")
    tables = weights(trained("glove"))
    assert (read_vectors(file).vectors_VD == (tables["words.weight"] + tables["contexts.weight"]).numpy()).all()
    assert regard("predict", str(file), "cat").out == regard("predict", str(trained("glove")), "cat").out


def test_words_are_found_whatever_cuts_the_text(tmp_path: Path) -> None:
    """`word` numbers a word with and without a space before it apart; here it is one."""
    text = tmp_path / "prose.txt"
    text.write_text("The cat, the Cat; (cat) sleeps.\n" * 30)
    train("cbow", tmp_path / "run", f"data.train={text}", "text.tokenizer=word", "text.lowercase=true", "train.epochs=1")
    words = open_run(tmp_path / "run", "cpu").vectors.words  # type: ignore[attr-defined]
    assert set(words) == {"the", "cat", ",", ";", "(", ")", "sleeps", "."}
    assert len(open_run(tmp_path / "run", "cpu")("CAT")) == 7  # type: ignore[operator]


def test_a_map_is_drawn_of_words_typed_in_a_file_or_frequent(tmp_path: Path) -> None:
    for given in (["cat,dog red blue"], ["--data", str(text_file())], []):
        said = regard("lens", str(trained()), *given, "--show", "map", "--out", str(tmp_path / "map.json"))
        assert said.code == 0, said.err
    drawn = json.loads((tmp_path / "map.json").read_text())
    assert len(drawn["words"]) == len(drawn["points"]) == 20
    assert regard("lens", str(trained()), "--show", "map", "--out", str(tmp_path / "map.png")).code == 0


def test_a_dry_run_tells_steps_and_time() -> None:
    said = regard("train", "skipgram", *settings("skipgram"), "--dry-run")
    assert said.code == 0, said.err
    assert "steps             " in said.out
    assert "2,400 words" in said.out


@every
def test_a_recipe_is_explained(name: str) -> None:
    assert "regard/families/word2vec.py" in regard("explain", name).out
    assert json.loads(regard("explain", name, "--json").out)["figures"]["parameters"] >= 20_000_000


@pytest.mark.parametrize("name", ["skipgram", "cbow"])
def test_vectors_that_were_not_told_apart_are_warned_of(name: str, tmp_path: Path) -> None:
    """Five epochs of little text: every neighbour of every word has a cosine above 0.9."""
    said: list[str] = []
    train_run(load_recipe(name, ["train.epochs=5", "train.threads=1"]), tmp_path / "run", CPU, said.append)
    (told,) = [line for line in said if line.startswith("warning: the vectors have hardly been told apart")]
    assert "train.epochs=20" in told
    assert min(near.score for near in open_run(tmp_path / "run")("function")) > 0.9  # type: ignore[operator]


def test_vectors_that_point_everywhere_and_those_of_few_words_are_not() -> None:
    said: list[str] = []
    vectors_VD = np.random.default_rng(1).normal(size=(300, 50))
    _warn_if_crowded(vectors_VD, 5, said.append)
    _warn_if_crowded(vectors_VD[:20] + 50, 5, said.append)
    assert not said
    _warn_if_crowded(vectors_VD + 50, 5, said.append)
    assert len(said) == 1

"""Benchmarks of trainings: what is held out, who waits for whom, and that what is timed is all of the training."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from benchmarks import dialogue, dialogue_runs, measure, real, trained, understand
from benchmarks.dialogue_runs import Made
from benchmarks.peers import onnx_runtime
from benchmarks.peers.careful import Careful
from benchmarks.peers.relay import Relay
from regard.core.errors import UserError
from regard.data.loader import Loader
from regard.data.sources import Pair
from tests.relayed import failing, threes

WORDS = {"[UNK]": 0, **{f"w{n}": n for n in range(1, 30)}}
lines = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=9), min_size=2, max_size=9)


# ---------------------------------------------------------------------------------------------------------------- held out


@given(lines, st.booleans(), st.booleans(), st.data())
def test_every_line_is_in_one_of_two_files(lines: list[str], header: bool, zipped: bool, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(lines) - 1))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "all.tsv.gz" if zipped else "all.tsv")
        whole = "".join(f"{line}\n" for line in (["label\ttext"] if header else []) + lines).encode()
        path.write_bytes(gzip.compress(whole) if zipped else whole)
        train, valid = (part.read_bytes() for part in real.hold_out(path, count, Path(name), header))
    top = b"label\ttext\n" if header else b""
    assert train.startswith(top)
    assert valid.startswith(top)
    assert train + valid.removeprefix(top) == whole
    assert valid.count(b"\n") == count + header


def test_squad_is_cut_between_paragraphs(tmp_path: Path) -> None:
    paragraphs = [{"context": f"c{n}", "qas": [{"id": str(n)}]} for n in range(5)]
    articles = [{"title": "a", "paragraphs": paragraphs[:3]}, {"title": "b", "paragraphs": paragraphs[3:]}]
    (tmp_path / "all.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    train, valid = (json.loads(part.read_text()) for part in real.hold_out(tmp_path / "all.json", 3, tmp_path))
    flat = [[(a["title"], p["context"]) for a in part["data"] for p in a["paragraphs"]] for part in (train, valid)]
    assert flat == [[("a", "c0"), ("a", "c1")], [("a", "c2"), ("b", "c3"), ("b", "c4")]]
    assert train["version"] == "1.1"


def test_phrases_of_held_out_sentences_are_not_trained_on(tmp_path: Path) -> None:
    """Two editions write them differently; a short phrase says nothing of the sentence it was cut from."""
    phrases = [
        "a plain film",
        "it is a re-imagining of the tale .",
        "re-imagining of the tale",
        "of the tale",
        "the tale is told well",
    ]
    (tmp_path / "phrases.tsv").write_text("label\tsentence\n" + "".join(f"1\t{text}\n" for text in phrases))
    (tmp_path / "sentences.tsv").write_text("a plain film\t1\nit is a re imagining of the tale\t1\nnot among them\t0\n")
    parts = real.hold_out_sentences(tmp_path / "phrases.tsv", tmp_path / "sentences.tsv", 1, tmp_path)
    train, valid = ([line.split("\t")[1] for line in part.read_text().splitlines()[1:]] for part in parts)
    assert valid == [phrases[1]]
    assert train == [phrases[0], *phrases[3:]]


@pytest.mark.parametrize("count", [0, 2, 3])
def test_something_is_left_to_train_on(count: int, tmp_path: Path) -> None:
    (tmp_path / "two.jsonl").write_text("{}\n{}\n")
    with pytest.raises(UserError, match="has 2 records"):
        real.hold_out(tmp_path / "two.jsonl", count, tmp_path)


def test_data_that_are_not_there_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(real.DATA, raising=False)
    with pytest.raises(UserError, match=r"REGARD_DATA is not set; .* real data"):
        real.folder(real.DATA)
    monkeypatch.setenv(real.DATA, str(tmp_path))
    assert real.folder(real.DATA) == tmp_path
    with pytest.raises(UserError, match=r"there is no .*sst2"):
        real.folder(real.DATA, "sst2/train.tsv.gz")


# ------------------------------------------------------------------------------------------------------------------- turns


def test_a_training_is_halted_and_goes_on_to_its_end() -> None:
    with Relay(6, threes, 10) as relay:
        relay.begin(7)
        assert relay.halted() == 9
        relay()  # to 13
        relay.begin(relay.until + 2)
        assert relay.halted() == 18  # the 15 from before were enough
        relay.begin()
        assert relay.finished() == "done"
    assert relay.process.exitcode == 0


def test_one_that_ends_before_it_was_asked_to_is_noticed() -> None:
    with Relay(9, threes, 2) as relay, pytest.raises(SystemExit, match=r"threes .* said 'found': done"):
        relay()


def test_one_that_fails_is_noticed() -> None:
    with Relay(1, failing) as relay, pytest.raises(SystemExit, match="failing ended with status 1"):
        relay()


def test_one_that_is_dropped_ends() -> None:
    with Relay(3, threes, 10) as relay:
        relay()
    assert relay.process.exitcode == 0


def test_the_baton_hears_of_every_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loader, "start", Loader.start)  # as it was, afterwards
    texts = [f"{'a good day ' * (n % 5 + 1)}\t{'yes' if n % 2 else 'no'}\n" for n in range(23)]
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(texts))
    files = [f"data.{split}={tmp_path / split}.tsv" for split in ("train", "valid", "test")]
    small = ["model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16", "train.steps=0", "train.warmup=0"]
    heard: list[int] = []
    found = trained.trained_in_turns(
        SimpleNamespace(did=heard.append),  # type: ignore[arg-type]
        "gpt-classify",
        [*files, *small, "train.epochs=2", "train.tokens_per_batch=40"],
    )
    assert 46 - 5 <= sum(heard) < 46  # all but the last step
    assert len(heard) == 15
    assert found.scores["texts"] == 23
    assert found.seconds > 0


# ------------------------------------------------------------------------------------------------------- a loop, and a report


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(1, 29), min_size=1, max_size=7), min_size=1, max_size=9), st.integers(1, 4))
def test_the_careful_loop_keeps_the_order_and_pads_with_nothing(rows: list[list[int]], batch: int) -> None:
    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        assert len(ids) <= batch
        assert (ids[mask == 0] == 0).all()
        return np.stack([(ids * mask).sum(1) / 10, mask.sum(1)], 1)

    raw = tokenizers.Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with tempfile.TemporaryDirectory() as name:
        raw.save(str(Path(name, "tokenizer.json")))
        found = Careful(Path(name), run)([" ".join(f"w{n}" for n in row) for row in rows], batch)
    odds = np.log(found[:, 0] / found[:, 1])
    assert odds == pytest.approx([sum(row) / 10 - len(row) for row in rows])


def test_a_report_has_the_mean_and_says_which_bars_are_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    assert understand.recorded() == {}
    runs = [trained.Trained({"accuracy": score}, 12.34, 0.5) for score in (0.90, 0.91, 0.92)]
    found = understand.report(understand.EXAMS["sst2"], runs)
    assert found["mean"] == pytest.approx(0.91)
    assert found["deviation"] == pytest.approx(np.std([0.90, 0.91, 0.92], ddof=1))
    assert found["bars"] == {"floor": "0.9 met", "goal": "0.915 not met"}
    measure.write("understand", {"data": {"sst2": found}})
    assert understand.recorded() == {"sst2": found}


def test_a_data_set_is_known_or_another_is_offered() -> None:
    with pytest.raises(UserError, match=r"'sst3'.*sst2"):
        understand.main(["sst3"])


def test_without_its_environment_onnx_runtime_is_said_to_be_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onnx_runtime, "HOME", tmp_path)
    assert onnx_runtime.version() == {}
    assert onnx_runtime.remark() in capsys.readouterr().out


def test_scores_of_seeds_are_kept_as_they_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    finetune = pytest.importorskip("benchmarks.finetune", reason="races a peer that is not here", exc_type=ImportError)
    for module in (measure, finetune):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(finetune, "SEEDS", (1, 2))
    monkeypatch.setattr(finetune, "COLUMNS", ["", "1", "2", "mean"])
    monkeypatch.setattr(finetune, "versions", lambda *names: {})  # peers are not everywhere
    assert finetune.recorded() == ([], {})
    found = {"regard": {1: 0.9, 2: 0.91}, "Trainer": {2: 0.8875}}
    finetune.record(7, [], found)
    (path,) = tmp_path.glob("finetune.*.json")
    (table,) = json.loads(path.read_text())["tables"]
    assert table["rows"] == [["regard", "90.00%", "91.00%", "90.50%"], ["Trainer", "-", "88.75%", "88.75%"]]
    assert finetune.recorded() == ([], found)
    with pytest.raises(UserError, match="'4' is not known"):
        finetune.main(["scores", "4"])


# ----------------------------------------------------------------------------------------------------------------- dialogue


def test_bots_are_kept_and_compared_only_if_trained_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    test = [Pair(f"context {n}", f"reply {n}") for n in range(dialogue.EXAMPLES * 2)]

    def measured(bot: str, perplexity: float, *settings: str, seed: int = 1) -> dict[str, Any]:
        outputs = [f"{bot} says {n}" for n in range(len(test))]
        made = Made({"perplexity": perplexity, "recall_1": 0.2}, outputs, 7, 1.0, 3.0, [*settings, f"model.width={len(bot)}"])
        dialogue.record(test, bot, seed, made)
        (path,) = tmp_path.glob("dialogue.*.json")
        read: dict[str, Any] = json.loads(path.read_text())
        return read

    measured("turns joined", 40.0, "train.steps=9")
    for compiled in ("false", "true"):
        found = measured("HRAN", 39.0, "train.steps=9", f"train.compile={compiled}")
        assert found["perplexity"]["HRAN: not above turns joined"] is True
    told = ("train.steps=9", "train.compile=true")
    assert measured("HRAN", 42.0, *told, seed=2)["perplexity"]["HRAN, on the average"] == 39.0  # of the one seed that both have
    found = measured("turns joined", 39.0, "train.steps=9", seed=2)
    assert found["perplexity"]["HRAN: not above turns joined"] is False  # 40.5 against 39.5
    assert found["bots"]["HRAN"]["perplexity"] == 39.0
    assert found["examples"][0]["said"]["HRAN"] == "HRAN says 1"
    found = measured("HRAN", 41.0, "train.steps=20")
    assert list(found["bots"]) == ["HRAN", "turns joined"]
    assert found["perplexity"] == {"HRAN": 41.0, "turns joined": 40.0}  # trained longer, so nothing is said of who is better
    assert found["examples"][0]["said"] == {"turns joined": "turns joined says 1", "HRAN": "HRAN says 1"}
    with pytest.raises(UserError, match="did you mean 'hran'"):
        dialogue.main(["hrn"])


@pytest.mark.parametrize("compiled", [False, True])
def test_every_bot_that_writes_has_a_recipe(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue_runs, "CUDA", compiled)
    recipes = {bot: dialogue_runs.recipe_of(bot, ["train.seed=2"])[0] for bot in dialogue_runs.WRITERS}
    assert {recipe.train.seed for recipe in recipes.values()} == {2}
    assert recipes["HRAN"].train.compile is compiled

"""The task `tagging`: learned from files, continued, begun with other weights, and refused with reason."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.commands.train import dry_run_lines
from regard.core.errors import UserError
from regard.data.batching.tagged import make_batch
from regard.data.tagset import spans, tags_of_spans
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.runs.recipe import load_recipe
from regard.tasks.registry import open_run
from regard.tasks.tagging.prepare import prepare
from regard.training.progress import Interrupt
from tests.tasks.explained import explained_as_it_is
from tests.tasks.tiny_tags import CPU, PLAIN, ROWS, TINY, quiet, recipe, tagger, train_as, trained, write_rows


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.conll", ROWS)


def last_weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in max((folder / "checkpoints").glob("step-*")).glob("*.safetensors")}


# ---------------------------------------------------------------------------------------------------------------- what is learned


def test_entities_are_learned() -> None:
    found = tagger().tag_words([words for words, _ in ROWS])
    assert [one.tags for one in found] == [tags for _, tags in ROWS]


def test_plain_tags_are_learned() -> None:
    found = tagger(plain=True).tag_words([words for words, _ in PLAIN])
    assert [one.tags for one in found] == [tags for _, tags in PLAIN]


def test_a_run_has_all_that_people_need() -> None:
    run = trained()
    assert json.loads((run / "labels.json").read_text()) == {
        "scheme": "iob2",
        "labels": ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"],
    }
    card = (run / "README.md").read_text()
    for told in (
        "F1         100.00%",
        "precision",
        "recall",
        "72 sentences of 348 words, 5 tags",
        "nats a word",
        "wordpiece vocab",
    ):
        assert told in card, told
    assert (run / "errors.tsv").read_text().startswith("true\ttrue_type\tpredicted")
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["valid_f1"] > 0.9
    assert metrics[-1]["valid_nll"] < 0.3
    assert "model      B-PER" in (run / "samples.txt").read_text()
    plain = (trained(plain=True) / "README.md").read_text()
    assert "macro F1" in plain
    assert "of 348 words; one answer for all" in plain


def test_validation_has_the_objectives_loss(rows: Path) -> None:
    """The mean that training is measured by, found in another way."""
    prepared = prepare(recipe(rows), None, quiet)
    model, objective = prepared.model().eval(), prepared.objective()
    with torch.no_grad():
        loss = objective(model, make_batch(prepared.valid, np.arange(len(prepared.valid))))
    metrics = prepared.validator(objective)(model).metrics
    assert metrics["nll"] == pytest.approx(loss.total.item() / loss.count, rel=1e-5)
    assert 0 <= metrics["f1"] <= metrics["accuracy"] <= 1


def test_weights_that_broke_are_told(rows: Path) -> None:
    prepared = prepare(recipe(rows), None, quiet)
    model = prepared.model()
    model.tags.project.weight.data[:] = float("nan")
    assert np.isnan(prepared.validator(prepared.objective())(model.eval()).metrics["nll"])


def test_what_the_data_looks_like_is_said(tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.conll", [*ROWS[:5], (["Ann", "sleeps"], ["I-PER", "O"])])
    told: list[str] = []
    prepare(recipe(train, f"data.test={train}", "data.repair=true"), None, told.append)
    text = "\n".join(told)
    assert "train: 6 sentences, 24 words, 11 entities (iob2): PER 6, LOC 5" in text
    assert "2 of them are met fewer than 10 times" in text
    assert "1 tags broke iob2 and have been repaired" in text
    assert "6 of 6 test sentences are also in train" in text


def test_any_scheme_trains_the_same(rows: Path, tmp_path: Path) -> None:
    """Files in IOB1 are rewritten; what is learned from is then the same to the last bit."""
    other = [(words, tags_of_spans(spans(tags), len(tags), "iob1")) for words, tags in ROWS]
    one, two = (prepare(recipe(path), None, quiet) for path in (rows, write_rows(tmp_path / "iob1.conll", other)))
    assert one.fingerprints() == two.fingerprints()
    kept = prepare(recipe(rows, "data.scheme=plain"), None, quiet)
    assert kept.tags.scheme == "plain"
    assert kept.fingerprints() != one.fingerprints()


def test_long_sentences_are_read_in_windows(tmp_path: Path) -> None:
    long = ([w for words, _ in ROWS[:20] for w in words], [t for _, tags in ROWS[:20] for t in tags])
    told: list[str] = []
    prepared = prepare(recipe(write_rows(tmp_path / "long.conll", [long, ROWS[0]])), None, told.append)
    assert "train: 2 sentences are read in " in "\n".join(told)
    assert prepared.train.words == len(long[0]) + len(ROWS[0][0])
    assert prepared.train.ids.lengths.max() <= 24


# ----------------------------------------------------------------------------------------------------------- continued and sealed


def test_a_stopped_run_goes_on_to_the_same_weights(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(rows, "train.steps=12", "train.validate_every=6", "train.checkpoint_every=6", "model.dropout=0.1")
    train_as(chosen, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr("regard.commands.train.catch_signals", lambda: nullcontext(Interrupt(signal.SIGINT)))
        assert train_as(chosen, tmp_path / "parts").progress.step < 12
    assert train_as(chosen, tmp_path / "parts").progress.step == 12
    assert last_weights(tmp_path / "parts") == last_weights(tmp_path / "whole")


def test_tags_are_part_of_the_data_and_sealed(rows: Path, tmp_path: Path) -> None:
    chosen = recipe(rows, "train.steps=6", "train.validate_every=6", "train.checkpoint_every=6")
    train_as(chosen, tmp_path / "run")
    write_rows(rows, [(words, [tag.replace("PER", "MAN") for tag in tags]) for words, tags in ROWS])
    with pytest.raises(UserError, match=r"the training data is not what .* was begun with"):
        train_as(recipe(rows, "train.steps=7", "train.validate_every=6", "train.checkpoint_every=6"), tmp_path / "run")
    kept = (tmp_path / "run" / "labels.json").read_text()
    (tmp_path / "run" / "labels.json").write_text(kept.replace("LOC", "COL"))
    with pytest.raises(UserError, match=r"do not fit its labels.json"):
        open_run(tmp_path / "run", "cpu")


# ------------------------------------------------------------------------------------------------------- begun with other weights


def test_a_run_starts_from_another_with_a_new_head(rows: Path, tmp_path: Path) -> None:
    other = write_rows(tmp_path / "other.conll", [(words, [tag.replace("LOC", "CITY") for tag in tags]) for words, tags in ROWS])
    settings = [*TINY, f"data.train={other}", f"data.valid={other}", f"task.init_from={trained()}"]
    chosen = load_recipe_to_train("bert-tag", [s for s in settings if not s.startswith(("model.", "text."))])
    prepared = prepare(chosen, None, quiet)
    model, began = prepared.model().state_dict(), start_of(str(trained())).weights
    shared = [name for name in began if not name.startswith("tags.")]
    assert len(shared) > 10
    assert all(torch.equal(model[name], began[name]) for name in shared)
    assert model["tags.project.weight"].shape == began["tags.project.weight"].shape
    assert not torch.equal(model["tags.project.weight"], began["tags.project.weight"])
    assert prepared.reader.tokenizer.fingerprint() == tagger().reader.tokenizer.fingerprint()


# ------------------------------------------------------------------------------------------------------------------ what it costs


def test_operations_are_counted_exactly(rows: Path) -> None:
    """Of one sentence, against torch's own counter; the head is asked of words only, so it may be counted higher."""
    prepared = prepare(recipe(rows), None, quiet)
    tree, words = prepared.example()
    model = prepared.model()
    assert tree.parameters == sum(p.numel() for p in model.parameters())
    length = round(prepared.train.ids.lengths.mean())
    row = int(np.flatnonzero(prepared.train.ids.lengths == length)[0])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        prepared.objective()(model.eval(), make_batch(prepared.train, np.array([row])))
    head = 2 * 24 * len(prepared.tags)
    assert counter.get_total_flops() == tree.flops - head * (length - len(prepared.train.places[row]))
    assert words == round(348 / 72)


def test_a_dry_run_tells_and_writes_nothing(rows: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    lines = dry_run_lines(recipe(rows), CPU, quiet)
    assert any(line.startswith("words ") for line in lines)
    assert sorted(tmp_path.rglob("*")) == before


# -------------------------------------------------------------------------------------------------------------------- its recipes


def test_the_recipes_that_come_along() -> None:
    assert load_recipe("bert-tag").task.name == "tagging"
    tuned = load_recipe("finetune-tag")
    assert tuned.task.init_from
    assert tuned.train.schedule == "linear"


def test_a_run_can_be_moved(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "elsewhere"))
    assert open_run(run, "cpu")("Ann left Rome .")[0].text == "Ann"  # type: ignore[operator]


def test_it_is_explained_with_its_own_parts() -> None:
    explained_as_it_is(trained())

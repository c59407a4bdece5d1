"""In from transformers, out to transformers: the same tokens and the same answers, whoever wrote the folder and whatever for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from regard.commands.convert import export_run, import_public
from regard.families import marks_of
from regard.families.base import Heads
from regard.runs.folder import Run
from regard.runs.recipe import load_recipe
from regard.runs.task import TASKS
from regard.tasks.classification.predict import Regressor, TextClassifier
from regard.tasks.registry import open_run
from regard.text.tokenizer import Tokenizer
from tests.families.bert_folder import LABELS
from tests.families.bert_folder import assert_same as same_answers
from tests.tasks.adopted_folder import PAIRS, TAGS, TEXTS, columns, folder_of, their_answers
from tests.tasks.adopted_folder import TASKS as OPENED_FOR
from tests.tasks.tiny_labels import TINY, labeller, quiet, train_as, trained, write_rows
from tests.tasks.tiny_masks import trained as filler

CLASSIFIERS = [name for name, task in OPENED_FOR.items() if task == "classification"]


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], atol: float = 1e-4) -> None:
    assert found.keys() == expected.keys()
    assert expected
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], atol=atol, rtol=0)


def ids_of(folder: Path, texts: list[Any]) -> dict[str, list[list[int]]]:
    given = transformers.AutoTokenizer.from_pretrained(folder)(*columns(texts))
    return {key: given[key] for key in ("input_ids", "token_type_ids") if key in given}


# theirs, here and out again ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "task"), OPENED_FOR.items())
def test_in_and_out_again_it_is_what_it_was(name: str, task: str, tmp_path: Path) -> None:
    """A run answers as the folder it came from; and what it is exported as, there, through the folder's own tokenizer."""
    folder, run, out = folder_of(name), tmp_path / "run", tmp_path / "out"
    told: list[str] = []
    import_public(str(folder), run, told.append)
    assert Run.open(run).recipe.task.name == task
    assert f"for task {task} " in told[-1]
    first, second = said(folder, name), said(run, name)
    assert first == second
    assert first.strip()
    export_run(run, out, "hf", told.append)
    assert json.loads((out / "config.json").read_text())["architectures"] == [name]
    assert f"transformers.{name}.from_pretrained({str(out)!r})" in told[-1]
    for texts in (TEXTS, PAIRS):
        ours, theirs = ids_of(out, texts), ids_of(folder, texts)
        assert ours["input_ids"] == theirs["input_ids"]
        if name.startswith(("Bert", "Electra")):
            assert ours["token_type_ids"] == theirs["token_type_ids"]
    assert_same(their_answers(out, PAIRS), their_answers(folder, PAIRS))


def said(where: Path, name: str) -> str:
    """All that is told of texts such as it was trained for."""
    mask = "<mask>" if name.startswith("Roberta") else "[MASK]"
    typed = {"masked_lm": [f"{text} {mask}" for text in TEXTS], "question_answering": ["\t".join(pair) for pair in PAIRS]}
    heard: list[str] = []
    texts = TEXTS if name == "ElectraForPreTraining" else typed.get(OPENED_FOR[name], TEXTS)
    open_run(where, "cpu").predict(texts, None, False, heard.append)
    return "".join(heard)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_of_texts_and_of_pairs_are_theirs(name: str) -> None:
    found = open_run(folder_of(name), "cpu")
    assert isinstance(found, TextClassifier)
    assert found.labels.names == LABELS
    for texts in (TEXTS, PAIRS):
        expected = their_answers(folder_of(name), texts)["logits"].softmax(-1).numpy()
        ours = [list(answer.probabilities.values()) for answer in found.classify(texts)]
        assert expected.std() > 0.05
        np.testing.assert_allclose(ours, expected, atol=1e-4)


def test_labels_travel(tmp_path: Path) -> None:
    for name, labels in (("BertForSequenceClassification", LABELS), ("BertForTokenClassification", TAGS["id2label"].values())):
        import_public(str(folder_of(name)), tmp_path / name, quiet)
        export_run(tmp_path / name, tmp_path / f"{name}-out", "hf", quiet)
        config = json.loads((tmp_path / f"{name}-out" / "config.json").read_text())
        assert list(config["id2label"].values()) == list(labels)
        assert config["label2id"] == {label: n for n, label in enumerate(labels)}
        again = open_run(tmp_path / f"{name}-out", "cpu")
        assert tuple(again.vocabularies["labels.json"].names) == tuple(labels)  # type: ignore[attr-defined]


# ours, there ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pairs", [False, True])
def test_a_run_of_ours_gives_its_ids_and_probabilities_there(pairs: bool, tmp_path: Path) -> None:
    ours = labeller("bert", pairs)
    export_run(trained("bert", pairs), tmp_path / "out", "hf", quiet)
    texts: list[Any] = (
        [("a nice cat", "a wet dog"), ("a cow", "a nice fish")] if pairs else ["the old cat is not nice", "nice today"]
    )
    given = ids_of(tmp_path / "out", texts)
    ids, seconds, _ = ours.reader.encode([text if pairs else (text,) for text in texts], texts)
    assert given["input_ids"] == [ids[n].tolist() for n in range(len(texts))]
    for n, segments in enumerate(given["token_type_ids"]):
        assert segments == [int(place >= seconds[n]) for place in range(len(ids[n]))]
    expected = [list(answer.probabilities.values()) for answer in ours.classify(texts)]
    found = their_answers(tmp_path / "out", texts)["logits"].softmax(-1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected) > 0.3  # it has learned something to be the same
    again = open_run(tmp_path / "out", "cpu")
    assert isinstance(again, TextClassifier)
    assert [answer.label for answer in again.classify(texts)] == [answer.label for answer in ours.classify(texts)]


def test_numbers_are_exported_on_the_scale_of_their_training(tmp_path: Path) -> None:
    """A line that a model of any size learns, far from where a head starts."""
    rows = [(f"a {thing} with {n} legs", str(10 * n)) for n in range(9) for thing in ("cat", "dog", "table")]
    data = write_rows(tmp_path / "rows.tsv", rows)
    sections = {"task": "classification", "objective": "regression"}
    (tmp_path / "numbers.toml").write_text("".join(f'[{key}]\nname = "{name}"\n' for key, name in sections.items()))
    chosen = [f"data.train={data}", f"data.valid={data}", "model.family=bert", "text.tokenizer=word", *TINY]
    train_as(load_recipe(str(tmp_path / "numbers.toml"), chosen), tmp_path / "run")
    ours = open_run(tmp_path / "run", "cpu")
    assert isinstance(ours, Regressor)
    export_run(tmp_path / "run", tmp_path / "out", "hf", quiet)
    texts = [text for text, _ in rows]
    found = their_answers(tmp_path / "out", texts)["logits"][:, 0].numpy()
    np.testing.assert_allclose(found, ours.rate(texts), atol=1e-3)
    assert np.ptp(found) > 5
    again = open_run(tmp_path / "out", "cpu")
    assert isinstance(again, Regressor)
    np.testing.assert_allclose(again.rate(texts), ours.rate(texts), atol=1e-3)


def trained_for(task: str, folder: Path) -> Path:
    """Two steps of the task's own recipe on a few lines, where no other test has a run to share."""
    if task in ("bert", "electra"):
        return filler(task)
    rows: dict[str, list[dict[str, Any]]] = {
        "tag": [
            {"words": ["Ann", "saw", "Bo"], "tags": ["B-PER", "O", "B-PER"]},
            {"words": ["it", "ran"], "tags": ["O", "O"]},
        ],
        "answer": [{"question": "Who slept?", "context": "Ann slept and Bo ran.", "answer": name} for name in ("Ann", "Bo")],
    }
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows[task] * 8))
    short = ["train.steps=2", "train.warmup=1", "train.validate_every=2", "train.checkpoint_every=2", "data.test="]
    train_as(
        load_recipe(f"bert-{task}", [f"data.train={data}", f"data.valid={data}", *TINY, *BRIEF[task], *short]), folder / "run"
    )
    return folder / "run"


BRIEF = {
    "tag": ["text.tokenizer=word"],
    "answer": ["data.maximum_question=6", "model.position=learned", "model.segments=2", "data.compare=false"],
}
HEADS = {
    "bert": ("BertForMaskedLM", Heads()),
    "electra": ("ElectraForPreTraining", Heads(words=False, replaced=True)),
    "tag": ("BertForTokenClassification", Heads(words=False, tags=3)),
    "answer": ("BertForQuestionAnswering", Heads(words=False, span=True)),
}


@pytest.mark.parametrize("task", HEADS)
def test_a_run_of_every_task_opens_there_with_its_answers(task: str, tmp_path: Path) -> None:
    """On random ids; and its tokenizer gives the ids with the marks that it was trained between."""
    run, (name, heads) = trained_for(task, tmp_path), HEADS[task]
    export_run(run, tmp_path / "out", "hf", quiet)
    peer, told = getattr(transformers, name).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    answers: Any = open_run(run, "cpu")
    if task == "tag":
        assert tuple(peer.config.id2label.values()) == answers.tags.names
    same_answers(answers.model, heads, peer.eval(), peer.config.vocab_size)
    tokenizer = Tokenizer.load(run / "tokenizer.json", foreign=True)
    around = marks_of(answers.model.config, tokenizer.roles)
    given = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("the cat", "sees it")
    first, second = tokenizer.encode("the cat"), tokenizer.encode("sees it")
    assert given["input_ids"] == [around.start, *first, around.between, *second, around.end]
    assert given["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_every_task_that_adopts_says_what_a_run_of_it_keeps() -> None:
    """Else `regard import` could make no run of it."""
    without = {"dialogue", "bidirectional_lm", "denoising", "word_vectors", "captioning", "text_to_text", "seq2seq_denoising"}
    without |= {"visual_questions"}
    assert {name for name, task in TASKS.items() if task.adopt is None} == without

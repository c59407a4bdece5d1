"""Answers of a trained answerer: the same alone and together, in long texts too, with offsets into the text as it was given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.sources.qa import Question, Reference
from regard.model.probe import probe
from regard.tasks.registry import open_run
from tests.command import regard as command
from tests.families.bert_folder import theirs
from tests.tasks.tiny_questions import ROWS, answerer, trained, write_rows

WORDS = ["Today", ",", "the", "blue", "cat", "runs", "zebra", "漢字", "old", "red", "\n", "cafe\u0301"]
contexts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join).filter(str.strip)
questions = st.sampled_from(["Which animal?", "Which colour?", "Why, then, is it so, and not otherwise, my friend?"])


def told(found: Any, texts: list[str], as_json: bool = False) -> str:
    pieces: list[str] = []
    found.predict(texts, 0, as_json, pieces.append)
    return "".join(pieces)


@given(st.lists(st.tuples(questions, contexts), min_size=1, max_size=6), st.booleans())
@settings(max_examples=25)
def test_company_changes_no_answer_and_offsets_are_true(asked: list[tuple[str, str]], silent: bool) -> None:
    found = answerer(silent)
    for (question, context), answers in zip(asked, found.answer(asked)):
        (alone,) = found.answer([(question, context)])
        assert [one.probability for one in alone] == pytest.approx([one.probability for one in answers], abs=1e-5)
        assert sum(one.probability for one in answers) <= 1 + 1e-9
        assert [one.score for one in answers] == sorted((one.score for one in answers), reverse=True)
        for one in answers:
            assert context[one.start : one.end] == one.text == one.text.strip()
            assert bool(one.text) or silent


def test_small_batches_change_no_answer() -> None:
    asked = [(row["question"], row["context"]) for row in ROWS[::5]]
    one, other = (answerer(False, f"decode.batch_tokens={budget}").answer(asked) for budget in (1, 4096))
    for a, b in zip(one, other):
        assert [found.text for found in a] == [found.text for found in b]
        assert a[0].score == pytest.approx(b[0].score, abs=1e-4)


def test_a_long_text_is_answered_as_the_best_of_its_parts() -> None:
    """Each window asked alone, as a text of its own; no answer is the least of what they say of it."""
    question, words = "Which animal?", ["Today", "the", "It", "a"] * 40
    words[100:102] = ["green", "bird"]
    table = answerer(True).reader.read([(question, " ".join(words))], ["here"]).windows
    assert len(table) > 5
    lengths = table.ids.lengths - table.contexts - 1
    parts = [" ".join(words[begin : begin + length]) for begin, length in zip(table.begins, lengths)]
    for settings_, kindest in ((["data.unanswerable=false"], max), (["data.threshold=-1000"], min)):
        found = answerer(True, *settings_)
        whole = found(question, " ".join(words))
        best = kindest((answers[0] for answers in found.answer([(question, part) for part in parts])), key=lambda one: one.score)
        assert whole.text == best.text
        assert whole.score == pytest.approx(best.score, abs=1e-4)


def test_for_people_and_for_machines() -> None:
    found, asked = answerer(), "Which animal?\tToday, the blue cow eats."
    line, empty = told(found, [asked, "  "]).split("\n")[:2]
    text, start, end, score, probability = line.split("\t")
    best = found("Which animal?", "Today, the blue cow eats.")
    assert (text, int(start), int(end)) == best[:3] == ("cow", 16, 19)
    assert (float(score), float(probability)) == pytest.approx(best[3:], abs=1e-4)
    assert empty == ""
    records = [json.loads(line) for line in told(found, [asked, ""], as_json=True).splitlines()]
    assert (records[0]["question"], records[0]["context"]) == tuple(asked.split("\t"))
    assert [set(one) for one in records[0]["answers"]] == [{"text", "start", "end", "score", "probability"}] * 3
    assert records[0]["answers"][0]["text"] == "cow"
    assert records[1]["answers"] == []
    assert len(answerer(False, "data.n_best=5").answer([("Which animal?", "a cat, a dog")])[0]) == 5


def test_an_answer_is_one_line() -> None:
    found = answerer()
    context = "Today, the old\tred\ncow eats."
    assert told(found, [f"Which colour?\t{context}"]).count("\n") == 1
    assert context[slice(*found("Which colour?", context)[1:3])] == found("Which colour?", context).text


def test_in_python() -> None:
    found = regard.load(str(trained()), "cpu")
    assert found("Which animal?", "Today, the blue cow eats.").text == "cow"
    assert found.answer([]) == []
    with probe(found.model) as seen:
        found("Which animal?", "Today, the blue cow eats.")
    assert list(seen) == ["encoder.0.self"]


def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("Which animal?", "Which animal?\t", "\ta cat", "Which animal? a cat"):
        with pytest.raises(UserError, match="put a tab between a question and the text to look in"):
            told(answerer(), [text])
    with pytest.raises(UserError, match="the context is empty"):
        answerer()("Which animal?", " ")
    with pytest.raises(UserError, match="the question is empty"):
        answerer()("", "a cat")
    assert answerer()("Which animal is it that runs today, and why?", "a cat runs").text
    assert "1 of 1 questions were longer than data.maximum_question=6 tokens and have been cut" in capsys.readouterr().err


def test_a_test_set_is_scored_and_its_mistakes_are_listed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    found: Any = open_run(run, "cpu")
    context = "Today, the old red cow eats."
    test = [
        Question("Which colour?", context, (Reference("old red", 11),), "", "line 1"),
        Question("Which colour?", context, (Reference("red", 15), Reference("the old", 7)), "", "line 2"),
        Question("Which animal?", context, (Reference("eats", 23),), "", "line 3"),
    ]
    result = found.evaluate(test)
    assert result.outputs == ["old red", "old red", "cow"]
    assert result.scores.all == (3, pytest.approx(1 / 3), pytest.approx((1 + 2 / 3 + 0) / 3))
    header, *lines = [line.split("\t") for line in (run / "errors.tsv").read_text().splitlines()]
    assert header == ["question", "answers", "predicted", "f1", "probability", "place"]
    assert [(line[1], line[2], line[3], line[5]) for line in lines] == [
        ("eats", "cow", "0.0000", "line 3"),
        ("red | the old", "old red", "0.6667", "line 2"),
    ]
    assert result.lines()[-1] == f"2 mistakes, the worst first: {run / 'errors.tsv'}"


def test_through_the_commands(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    predicted = command("predict", run, "Which animal?\tToday, the blue cow eats.", "--device", "cpu")
    assert predicted.code == 0, predicted.err
    assert predicted.out.split("\t")[:3] == ["cow", "16", "19"]
    scored = command("evaluate", run, "--json", "--device", "cpu", "--output", tmp_path / "said.txt")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["questions"] == len(ROWS)
    assert len((tmp_path / "said.txt").read_text().splitlines()) == len(ROWS)
    other = write_rows(tmp_path / "other.jsonl", [{"question": "Which?", "context": "a cat", "answer": "dog"}])
    refused = command("evaluate", run, f"data.test={other}", "--device", "cpu")
    assert refused.code == 2
    assert "other.jsonl, line 1: the answer 'dog' is not in the context" in refused.err


# ------------------------------------------------------------------------------------------------------------- public checkpoints

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "runs", "?", "anna", "and", "peter", "##s", "cafe", ",", "the"]


def public(folder: Path, **keys: Any) -> Any:
    """A BERT of transformers with random weights and a head for spans, saved with a vocabulary; the model itself."""
    peer = theirs("bert", "BertForQuestionAnswering", max_position_embeddings=24, **keys)
    peer.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES + [f"w{n}" for n in range(300 - len(PIECES))]) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return peer


@torch.no_grad()
def test_a_public_folder_answers_as_transformers_scores(tmp_path: Path) -> None:
    """Every span, tried one by one on their logits."""
    peer = public(tmp_path)
    found: Any = open_run(tmp_path, "cpu", ["data.maximum_question=8", "data.n_best=4"])
    question, context = "Who runs?", "Anna and Peter, the CAFÉs"
    pieces = ["[CLS]", "who", "runs", "?", "[SEP]", "anna", "and", "peter", ",", "the", "cafe", "##s", "[SEP]"]
    ids, segments = torch.tensor([[PIECES.index(piece) for piece in pieces]]), torch.tensor([[0] * 5 + [1] * 8])
    out = peer(input_ids=ids, token_type_ids=segments)
    start, end = out.start_logits[0].double().numpy(), out.end_logits[0].double().numpy()
    scores = {(i, j): start[i] + end[j] for i in range(5, 12) for j in range(i, 12)}
    best = sorted(scores, key=lambda span: -scores[span])[:4]
    total = np.exp(list(scores.values())).sum()
    places = [(0, 4), (5, 8), (9, 14), (14, 15), (16, 19), (20, 24), (24, 25)]
    (answers,) = found.answer([(question, context)])
    assert [(one.start, one.end) for one in answers] == [(places[i - 5][0], places[j - 5][1]) for i, j in best]
    assert [one.score for one in answers] == pytest.approx([scores[span] for span in best], abs=1e-4)
    assert [one.probability for one in answers] == pytest.approx([np.exp(scores[span]) / total for span in best], abs=1e-4)
    silent: Any = open_run(tmp_path, "cpu", ["data.maximum_question=8", "data.unanswerable=true", "data.threshold=-1000"])
    nothing = silent(question, context)
    assert (nothing.text, nothing.score) == ("", pytest.approx(start[0] + end[0] + 1000, abs=1e-4))


def test_roberta_has_two_marks_between_question_and_context(tmp_path: Path) -> None:
    peer = theirs("roberta", "RobertaForQuestionAnswering", max_position_embeddings=26)
    peer.save_pretrained(tmp_path)
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "who": 4, "anna": 5}, "<unk>")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    raw.save(str(tmp_path / "tokenizer.json"))
    raw.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    found: Any = open_run(tmp_path, "cpu", ["data.maximum_question=8"])
    read = found.reader.read([("who", "anna who")], ["here"])
    assert read.windows.ids[0].tolist() == raw.encode("who", "anna who").ids
    with torch.no_grad():
        out = peer(input_ids=torch.tensor([read.windows.ids[0].tolist()]))
    begin = int(read.windows.contexts[0])
    scores = {
        (i, j): float(out.start_logits[0, i] + out.end_logits[0, j]) for i in (begin, begin + 1) for j in (i, begin + 1) if i <= j
    }
    assert found("who", "anna who").score == pytest.approx(max(scores.values()), abs=1e-4)


def test_a_public_folder_without_the_head_is_refused(tmp_path: Path) -> None:
    theirs("bert", "BertForMaskedLM").save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    with pytest.raises(UserError, match="no head for it"):
        open_run(tmp_path, "cpu", ["task.name=question_answering"])

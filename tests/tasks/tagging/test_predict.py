"""Answers of a trained tagger: the same alone and together, never against the scheme, with offsets that hold."""

from __future__ import annotations

import json
import shutil
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.sources.tagged import TaggedSentence
from regard.data.tagset import Span, find_broken, spans
from regard.model.probe import probe
from regard.tasks.registry import open_run
from regard.tasks.tagging.predict import HEADER, Entity, Marked, Tagger, mistakes
from tests.command import regard as command
from tests.tasks.tiny_tags import ROWS, tagger, trained, write_rows

WORDS = ["Ann", "Lee", "Bob", "left", "Rome", "New", "Oslo", ".", "zebra", "漢字", "O'Brien's", "\u200d"]
texts = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


def told(found: Any, given_: list[str], as_json: bool = False) -> str:
    pieces: list[str] = []
    found.predict(given_, 0, as_json, pieces.append)
    return "".join(pieces)


# ------------------------------------------------------------------------------------------------------------------- what is said


def test_entities_have_type_text_place_and_probability() -> None:
    text = "  Ann Lee left   New Oslo !"
    person, place = tagger()(text)
    assert person[:4] == (2, 9, "PER", "Ann Lee")
    assert place[:4] == (17, 25, "LOC", "New Oslo")
    found = tagger().tag([text])[0]
    assert [word.text for word in found.words] == ["Ann", "Lee", "left", "New", "Oslo", "!"]
    assert person.probability == pytest.approx(prod(word.probability for word in found.words[:2]))
    assert 0.5 < person.probability <= 1
    assert tagger()([text, "", "."]) == [[person, place], [], []]


@given(st.lists(texts, min_size=1, max_size=6))
@settings(max_examples=25)
def test_company_changes_no_answer_and_offsets_hold(given_: list[str]) -> None:
    found = tagger()
    for text, together in zip(given_, found.tag(given_)):
        (alone,) = found.tag([text])
        assert [e[:4] for e in together.entities] == [e[:4] for e in alone.entities]
        assert [w.probability for w in together.words] == pytest.approx([w.probability for w in alone.words], abs=1e-5)
        assert all(text[e.start : e.end] == e.text for e in together.entities)
        assert all(text[w.start : w.end] == w.text for w in together.words)
        tags = [word.tag for word in together.words]
        assert not find_broken(tags, "iob2")
        assert [(together.words[s.start].start, together.words[s.end - 1].end, s.type) for s in spans(tags)] == [
            e[:3] for e in together.entities
        ]


def test_probabilities_are_the_models_own() -> None:
    found, words = tagger(), ROWS[5][0]
    ids, places = found.reader.encode([words])
    with torch.no_grad():
        x = found.model.hidden(torch.tensor(ids[0][None].astype(np.int64)), torch.tensor([len(ids[0])]))
        expected = found.model.tags(x)[0, places[0]].softmax(-1)
    said = found.tag_words([words])[0]
    for n, tag in enumerate(said.tags):
        assert said.probabilities[n] == pytest.approx(expected[n, found.tags.names.index(tag)].item(), abs=1e-6)


def test_small_batches_change_no_answer() -> None:
    given_ = [" ".join(words) for words, _ in ROWS[:12]] + [" ".join(w for words, _ in ROWS[:9] for w in words)]
    one, other = (tagger(False, f"decode.batch_tokens={budget}").tag(given_) for budget in (1, 4096))
    for a, b in zip(one, other):
        assert [w.tag for w in a.words] == [w.tag for w in b.words]
        assert [w.probability for w in a.words] == pytest.approx([w.probability for w in b.words], abs=1e-5)


def test_a_text_of_100000_characters() -> None:
    text = "Ann Lee left New Oslo . " * 4167
    found = tagger().tag([text])[0]
    assert len(found.words) == 6 * 4167
    assert found.words[-1].end == len(text) - 1
    assert sum(e.text == "Ann Lee" for e in found.entities) > 2000  # it never saw more than one sentence
    assert tagger().tag(["x" * 100_000])[0].words[0].end == 100_000


def test_lines_for_people() -> None:
    lines = told(tagger(), ["Ann left Rome .", "  ", "left ."]).split("\n")
    assert [line.split("\t")[:4] for line in lines[:2]] == [["0", "3", "PER", "Ann"], ["9", "13", "LOC", "Rome"]]
    assert float(lines[0].split("\t")[4]) > 0.5
    assert lines[2:] == ["", "", "", ""]
    said = told(tagger(plain=True), ["Ann left Rome ."]).splitlines()
    assert [line.split("\t")[2:4] for line in said] == [["NNP", "Ann"], ["VB", "left"], ["NNP", "Rome"], ["SIGN", "."], [""][:0]]


def test_lines_for_machines() -> None:
    (record, empty) = (json.loads(line) for line in told(tagger(), ["Bob saw Paris !", ""], as_json=True).splitlines())
    assert record["text"] == "Bob saw Paris !"
    assert [(e["type"], e["text"]) for e in record["entities"]] == [("PER", "Bob"), ("LOC", "Paris")]
    assert [w["tag"] for w in record["words"]] == ["B-PER", "O", "B-LOC", "O"]
    assert empty == {"text": "", "entities": [], "words": []}


def test_in_python_with_a_probe() -> None:
    found = regard.load(str(trained()), "cpu")
    with probe(found.model) as seen:
        assert isinstance(found("Ann left Rome .")[0], Entity)
    assert list(seen) == ["encoder.0.self"]
    assert found.tag([]) == []


def test_half_a_character_is_refused() -> None:
    with pytest.raises(UserError, match="half a character"):
        tagger()("Ann \ud800 left")


# ---------------------------------------------------------------------------------------------------------------------- evaluated


def test_a_test_set_is_scored_and_its_mistakes_are_listed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    found: Any = open_run(run, "cpu")
    wrong = {1: ["B-LOC", *ROWS[1][1][1:]], 4: ["O"] * len(ROWS[4][1])}
    test = [
        TaggedSentence(tuple(words), tuple(wrong.get(n, tags)), "t.txt", tuple(range(1 + 10 * n, 11 + 10 * n)))
        for n, (words, tags) in enumerate(ROWS[:8])
    ]
    result = found.evaluate(test)
    assert result.outputs == [" ".join(tags) for _, tags in ROWS[:8]]
    assert (result.scores.true, result.scores.said, result.scores.right) == (14, 16, 13)
    header, *lines = [line.split("\t") for line in (run / "errors.tsv").read_text().splitlines()]
    assert tuple(header) == HEADER
    assert sorted(line[:4] + line[6:] for line in lines) == [
        ["-", "-", "Ann", "PER", "t.txt, line 41"],
        ["-", "-", "Paris", "LOC", "t.txt, line 43"],
        ["Ann", "LOC", "Ann", "PER", "t.txt, line 11"],
    ]
    sure = [float(line[4]) for line in lines]
    assert sure == sorted(sure, reverse=True)
    assert result.lines()[-1] == f"3 mistakes, the surest first: {run / 'errors.tsv'}"


def test_mistakes_by_hand() -> None:
    """Said too long, missed beside it, missed alone; nothing wrong is left out."""
    sentence = TaggedSentence(tuple("abcdef"), ("B-X", "O", "B-X", "O", "B-Y", "O"), "t", tuple(range(1, 7)))
    said = Marked(["B-X", "I-X", "I-X", "O", "O", "O"], [0.9, 0.5, 0.8, 1, 0.7, 1], [Span(0, 3, "X")])
    found = mistakes([sentence], [said], tagger().tags)
    assert found == [
        ["c", "X", "-", "-", "0.8000", "a b c d e f", "t, line 3"],
        ["e", "Y", "-", "-", "0.7000", "a b c d e f", "t, line 5"],
        ["a", "X", "a b c", "X", "0.3600", "a b c d e f", "t, line 1"],
    ]


def test_through_the_commands(tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained(), tmp_path / "run"))
    predicted = command("predict", run, "Ann Lee saw Rome.", "--device", "cpu")
    assert predicted.code == 0, predicted.err
    assert predicted.out.splitlines()[0].startswith("0\t7\tPER\tAnn Lee\t")
    scored = command("evaluate", run, "--json", "--device", "cpu", "--output", tmp_path / "said.txt")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["f1"] == 1
    assert (tmp_path / "said.txt").read_text().splitlines()[0] == " ".join(ROWS[0][1])
    other = write_rows(tmp_path / "other.conll", [(["Ann", "left"], ["I-PER", "O"]), (["Rome"], ["I-LOC"])])
    assert command("evaluate", run, f"data.test={other}", "--device", "cpu").code == 0  # in another scheme


# ------------------------------------------------------------------------------------------------------------- public checkpoints


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BertForTokenClassification of transformers, with a vocabulary of its own."""
    made = tmp_path_factory.mktemp("public")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ann", "lee", "left", "ro", "##me", ".", "os", "##lo"]
    (made / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    labels = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
    shape: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    config = transformers.BertConfig(vocab_size=len(pieces), max_position_embeddings=32, id2label=labels, **shape)
    torch.manual_seed(0)
    model = transformers.BertForTokenClassification(config)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    model.eval().save_pretrained(made)
    return made


def test_a_public_tagger_says_what_transformers_says(folder: Path) -> None:
    found = open_run(folder, "cpu")
    assert isinstance(found, Tagger)
    words = ["Ann", "Lee", "left", "Rome", "and", "Oslo", "."]
    peer = transformers.BertForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    first = [encoded.word_ids().index(n) for n in range(len(words))]
    with torch.no_grad():
        expected = peer(**encoded).logits[0, first].log_softmax(-1)
    np.testing.assert_allclose(found._logs([words]), expected.numpy(), atol=1e-4)
    assert not find_broken(found.tag_words([words])[0].tags, "iob2")
    assert set(found.vocabularies) == {"tokenizer.json", "labels.json"}


def test_the_scheme_of_a_public_tagger_may_be_set(folder: Path) -> None:
    found = open_run(folder, "cpu", ["data.scheme=iob1"])
    assert isinstance(found, Tagger)
    assert not find_broken(found.tag_words([["Ann", "left", "Rome", "."] * 5])[0].tags, "iob1")


def test_a_file_with_a_word_a_line(tmp_path: Path) -> None:
    """Its words stay as they are, in their order."""
    rows = [ROWS[n] for n in (7, 0, 7, 30)]
    (tmp_path / "a.conll").write_text("\n\n".join("\n".join(words) for words, _ in rows) + "\n")
    treebank = ["\n".join(f"{n}\t{word}" + "\t_" * 8 for n, word in enumerate(words, 1)) for words, _ in rows]
    (tmp_path / "a.conllu").write_text("# a comment\n" + "\n\n".join(treebank) + "\n")
    for name in ("a.conll", "a.conllu"):
        told = command("predict", trained(), "--input", tmp_path / name, "--device", "cpu").out
        found = [[line.split("\t")[:2] for line in block.splitlines()] for block in told.rstrip("\n").split("\n\n")]
        assert found == [[list(pair) for pair in zip(*row)] for row in rows]
        lines = command("predict", trained(), "--input", tmp_path / name, "--device", "cpu", "--json").out.splitlines()
        assert [json.loads(line)["tags"] for line in lines] == [tags for _, tags in rows]


@settings(max_examples=20)
@given(st.lists(st.sampled_from([*(" ".join(words) for words, _ in ROWS[:12]), "", "  "]), max_size=80))
def test_tags_stand_with_their_texts(texts: list[str]) -> None:
    """In whatever order and however often, with empty ones between them."""
    tags = {" ".join(words): tags for words, tags in ROWS[:12]}
    found = tagger().tag(texts)
    assert [[word.text for word in one.words] for one in found] == [text.split() for text in texts]
    assert [[word.tag for word in one.words] for one in found] == [tags.get(text, []) for text in texts]


def test_a_table_of_texts(tmp_path: Path) -> None:
    words, tags = ROWS[3]
    (tmp_path / "a.csv").write_text(f"id,text\n1,{' '.join(words)}\n2,\n")
    told = command("predict", trained(), "--input", tmp_path / "a.csv", "--device", "cpu").out.splitlines()
    assert told == ["id,text,words,predicted", f"1,{' '.join(words)},{' '.join(words)},{' '.join(tags)}", "2,,,"]

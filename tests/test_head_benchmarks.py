"""The two benchmarks about heads, small: they ask what they say they ask, and count what they say they count."""

import random

import pytest
import torch

from benchmarks import measure, prune_curve
from benchmarks.pronoun import chosen, compared, looks, others, passed, switched_off, wrong_pronouns
from benchmarks.pronoun_questions import questions
from regard.commands import prune
from regard.commands.demo import SENTENCES, pronoun_of
from regard.decode.config import DecodeConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.probe import attentions
from regard.tasks.translation.predict import Tokenizers, Translator
from regard.text.tokenizer import train_tokenizer
from tests.command import trained
from tools.corpora.english_french import english_french


@pytest.fixture(scope="module")
def translator():
    lines = [text for pair in english_french("test") for text in pair]
    tokenizer = train_tokenizer("word", lines, 2000)
    model = Transformer(TransformerConfig(width=16, heads=4, layers=1, feedforward=16), len(tokenizer), len(tokenizer)).eval()
    return Translator(model, Tokenizers(tokenizer, tokenizer), DecodeConfig(search="greedy", maximum_length=4))


@pytest.fixture(scope="module")
def pairs(translator):
    return [pair for pair in english_french("test") if questions(translator, [pair])][:12]


def test_questions_know_where_the_words_are(translator, pairs):
    names = translator.tokenizers.source.tokens
    asked = dict(zip([pair.source for pair in pairs], questions(translator, pairs)))
    tired, wide = (asked[sentence] for sentence in SENTENCES)
    for question, noun, other in ((tired, "animal", "street"), (wide, "street", "animal")):
        words = [name.strip("▁") for name in names(question.source)]
        assert [words[n] for n in (question.it, question.referent, question.other)] == ["it", noun, other]
    for pair in pairs:
        question = asked[pair.source]
        assert names([question.target[question.at + 1]])[0].strip("▁") == pronoun_of(pair)
        assert {names([i])[0].strip("▁") for i in (question.right, question.wrong)} == {"il", "elle"}
        assert question.target[question.at + 1] == question.right


def test_looks_are_weights_and_gates_switch_off(translator, pairs):
    asked = questions(translator, pairs)
    found = looks(translator, asked)
    assert {name for name, _ in found} == {"encoder.0.self", "decoder.0.cross"}
    _, seen = passed(translator, asked)
    weights = seen["encoder.0.self"].weights()
    expected = sum(float(weights[n, 2, question.it, question.referent]) for n, question in enumerate(asked)) / len(asked)
    assert found["encoder.0.self", 2]["referent"] == pytest.approx(expected, abs=1e-6)
    assert chosen({("a", 0): {"referent": 0.39}, ("a", 1): {"referent": 0.5}, ("b", 0): {"referent": 0.9}}) == [
        ("b", 0),
        ("a", 1),
    ]
    gates = switched_off(translator, [("decoder.0.cross", 1)])
    assert gates["decoder.0.cross"].tolist() == [1, 0, 1, 1]
    logits, _ = passed(translator, asked)
    wrong = [bool(row[q.at, q.wrong] > row[q.at, q.right]) for row, q in zip(logits, asked)]
    assert wrong_pronouns(translator, asked, [])["pronouns"] == pytest.approx(sum(wrong) / len(wrong))


def test_others_are_others(translator, pairs):
    heads = [("encoder.0.self", 1), ("decoder.0.cross", 0)]
    every = [(name, head) for name, one in attentions(translator.model).items() for head in range(one.heads)]
    draw = random.Random(0)
    for alike in (False, True):
        drawn = others(heads, every, draw, alike=alike)
        assert len({*drawn} - {*heads}) == 2
    assert sorted(name for name, _ in drawn) == ["decoder.0.cross", "encoder.0.self"]
    found = compared(translator, questions(translator, pairs), pairs, heads, draws=2)
    assert found.keys() == {"all_heads", "without_them", "each_alone", "others", "others_alike"}
    assert all(0 <= found[name][what] <= 1 for name in found if name != "each_alone" for what in ("pronouns", "written"))


def test_a_curve_of_every_way(monkeypatch, tmp_path):
    torch.set_num_threads(1)
    monkeypatch.setattr(measure, "REST", 0)
    monkeypatch.setattr(prune, "TEXTS", 3)
    monkeypatch.setattr(prune_curve, "SEEDS", 1)
    monkeypatch.setattr(prune_curve, "ROUNDS", 2)
    found = prune_curve.measured(trained(), [], ("importance", "random"), "cpu")
    assert found["heads"] == 6
    assert found["ways"].keys() == {"importance", "random 0"}
    for way in found["ways"].values():
        assert way["kept"] == [6, 5, 4, 3]
        assert way["valid"][0] == pytest.approx(found["whole"]["valid"])
        assert way["fewest"] in way["kept"]
    assert [*found["race"]] == ["6 heads", "3 heads"]
    assert found["race"]["3 heads"]["parameters"] < found["race"]["6 heads"]["parameters"]
    monkeypatch.setattr(prune_curve, "PICTURE", tmp_path / "pruning.png")
    prune_curve.picture(found)
    assert (tmp_path / "pruning.png").read_bytes().startswith(b"\x89PNG")

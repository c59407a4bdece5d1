"""What a run that fills in says, and one that judges: words and probabilities are transformers', for people and programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers

import regard
from regard.core.errors import UserError
from regard.tasks.masked_lm.predict import FillMask, ReplacedTokenDetector
from regard.tasks.registry import open_run
from tests.command import regard as command
from tests.tasks.explained import explained_as_it_is
from tests.tasks.tiny_masks import trained

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sees", "dog", "a", ".", "##s", "runs", "bird", ","]


def bert() -> FillMask:
    found = open_run(trained("bert"), "cpu")
    assert isinstance(found, FillMask)
    return found


def electra() -> ReplacedTokenDetector:
    found = open_run(trained("electra"), "cpu")
    assert isinstance(found, ReplacedTokenDetector)
    return found


# -------------------------------------------------------------------------------------------------------------------- filling in


def test_every_blank_gets_its_guesses_in_order() -> None:
    one, two = bert().fill(["the cat [MASK] the dog.", "<mask> cat sees the [MASK]."])
    assert len(one.blanks) == 1
    assert len(two.blanks) == 2
    assert {guess.word for guess in one.blanks[0][:3]} == {"sees", "hears", "likes"}
    assert two.blanks[0][0].word == "the"
    assert {guess.word for guess in two.blanks[1][:4]} == {"cat", "dog", "bird", "horse"}
    for guesses in (*one.blanks, *two.blanks):
        found = [guess.probability for guess in guesses]
        assert found == sorted(found, reverse=True)
        assert sum(found) <= 1
    assert two.text == f"the cat sees the {two.blanks[1][0].word}."


def test_in_python_a_text_comes_back_whole() -> None:
    filler = regard.load(trained("bert"))
    assert filler("[MASK] cat sees the dog.") == "the cat sees the dog."
    assert filler(["[MASK] cat sees the dog.", "the dog sees <mask> bird."])[1] == "the dog sees the bird."


def test_all_words_together_are_one() -> None:
    filler = bert()
    guesses = filler.fill(["the cat [MASK] the dog."], top=10**6)[0].blanks[0]
    assert len(guesses) == len(filler.tokenizer)
    assert sum(guess.probability for guess in guesses) == pytest.approx(1)


def test_alone_or_in_company_it_says_the_same() -> None:
    filler, texts = bert(), ["the [MASK] sees the dog.", "[MASK]", "the cat hears the dog. the dog [MASK] the bird."]
    together = filler.fill(texts)
    for text, found in zip(texts, together):
        (alone,) = filler.fill([text])
        np.testing.assert_allclose([g.probability for g in alone.blanks[0]], [g.probability for g in found.blanks[0]], atol=1e-5)
        assert alone.text == found.text


def test_for_people_and_for_programs(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the cat [MASK] the dog.\n\n[MASK] cat [MASK] the dog.\n")
    told = command("predict", trained("bert"), "--input", tmp_path / "in.txt", "--device", "cpu")
    assert (told.code, told.err) == (0, "")
    first, empty, second = told.out.splitlines()
    assert empty == ""
    assert len(first.split(", ")) == 5
    assert second.count("\t") == 1
    word, probability = first.split(", ")[0].split(" ")
    as_json = command("predict", trained("bert"), "--input", tmp_path / "in.txt", "--json", "--device", "cpu")
    rows = [json.loads(line) for line in as_json.out.splitlines()]
    assert [len(row["blanks"]) for row in rows] == [1, 0, 2]
    best = rows[0]["blanks"][0][0]
    assert (best["word"], f"{best['probability']:.4f}") == (word, probability)
    assert rows[0]["filled"] == f"the cat {word} the dog."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the cat sees the dog.", "has no blank to fill in; write <mask>"),
        ("[MASK] " + "the cat " * 20, "tokens long, but the model has 24"),
    ],
)
def test_texts_that_cannot_be_filled_in(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        bert()(text)


# ---------------------------------------------------------------------------------------------------------------------- judging


def test_every_word_is_judged() -> None:
    suspects = electra()("the cat sees the dog.")
    assert [suspect.word for suspect in suspects] == ["the", "cat", "sees", "the", "dog."]
    wrong = electra()("the cat the the dog.")
    assert wrong[2].probability > max(suspects[n].probability for n in (0, 2, 3))
    assert electra()(["the cat", ""]) == [electra()("the cat"), []]


def test_judgements_for_people_and_for_programs() -> None:
    told = command("predict", trained("electra"), "the cat sees the dog.", "", "--device", "cpu")
    assert (told.code, told.err) == (0, "")
    line, empty = told.out.splitlines()
    assert empty == ""
    assert [word.split(" ")[0] for word in line.split("\t")] == ["the", "cat", "sees", "the", "dog."]
    row = json.loads(command("predict", trained("electra"), "the cat sees.", "--json", "--device", "cpu").out)
    assert [word["word"] for word in row["words"]] == ["the", "cat", "sees."]


def test_the_judge_is_the_discriminator() -> None:
    judge, text = electra(), "the cat sees the dog."
    ids = [judge.tokenizer.roles.sos, *judge.tokenizer.encode(text), judge.tokenizer.roles.eos]
    with torch.no_grad():
        expected = judge.both(torch.tensor([ids]), torch.tensor([len(ids)]))[0].sigmoid()[1:-1]
    found = [suspect.probability for suspect in judge(text)]
    np.testing.assert_allclose(found[:4], expected[:4], atol=1e-6)
    assert found[4] == pytest.approx(float(expected[4:].max()), abs=1e-6)


def test_a_judge_fills_in_nothing() -> None:
    with pytest.raises(UserError, match="judges words and fills in none"):
        electra()("the [MASK] sees")
    with pytest.raises(UserError, match="tokens long"):
        electra()("the cat " * 20)


# --------------------------------------------------------------------------------------------------------------- public folders


def uncased() -> tokenizers.Tokenizer:
    found = tokenizers.Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    found.normalizer, found.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    found.decoder = tokenizers.decoders.WordPiece(prefix="##")
    found.add_special_tokens(PIECES[:5])
    return found


def folder_of(place: Path, kind: str, name: str) -> tuple[Path, object]:
    from tests.families.bert_folder import theirs

    peer = theirs(kind, name, vocab_size=len(PIECES)).eval()
    peer.save_pretrained(place)
    uncased().save(str(place / "tokenizer.json"))
    return place, peer


@pytest.mark.parametrize("kind", ["bert", "distilbert", "electra"])
def test_a_public_folder_fills_in_as_its_makers_pipeline_does(kind: str, tmp_path: Path) -> None:
    name = {"bert": "BertForMaskedLM", "distilbert": "DistilBertForMaskedLM", "electra": "ElectraForMaskedLM"}[kind]
    folder, peer = folder_of(tmp_path, kind, name)
    import transformers

    roles = {"mask_token": "[MASK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    wrapped = uncased()
    wrapped.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    pipeline = transformers.pipeline(
        "fill-mask", model=peer, tokenizer=transformers.PreTrainedTokenizerFast(tokenizer_object=wrapped, **roles), top_k=5
    )
    for text in ("the [MASK] sees a dog.", "The cat sees a [MASK]", "[MASK], dogs"):
        expected = pipeline(text)
        found = regard.load(folder).fill([text])[0].blanks[0]
        assert [g.word for g in found] == [row["token_str"].replace(" ", "") for row in expected]
        np.testing.assert_allclose([g.probability for g in found], [row["score"] for row in expected], atol=1e-4)


def test_a_public_discriminator_judges(tmp_path: Path) -> None:
    folder, peer = folder_of(tmp_path, "electra", "ElectraForPreTraining")
    judge = open_run(folder, "cpu")
    assert isinstance(judge, ReplacedTokenDetector)
    ids = torch.tensor([[2, *judge.tokenizer.encode("the cat sees dogs"), 3]])
    expected = peer(ids).logits.sigmoid()[0, 1:-1].detach()
    found = [suspect.probability for suspect in judge("the cat sees dogs")]
    np.testing.assert_allclose(found, [*expected[:3], expected[3:].max()], atol=1e-4)
    with pytest.raises(UserError, match="a generator puts in"):
        judge.evaluate(None)  # type: ignore[arg-type]


def test_a_public_body_without_words_is_refused(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path, "bert", "BertModel")
    with pytest.raises(UserError, match="head"):
        open_run(folder, "cpu", ["task.name=masked_lm"])


def test_it_is_explained_with_its_own_parts() -> None:
    explained_as_it_is(trained("bert"))

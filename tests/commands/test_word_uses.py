"""The uses of a word in every kind of model that reads, held against transformers' own hidden states."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers

import regard
from regard.commands import word_uses as module
from regard.commands.word_uses import word_uses
from regard.lens.analyses.word_senses import WordUses
from regard.tasks.feature_encoder import open_body
from tests import command
from tests.families.bert_folder import SMALL
from tests.families.public_folder import export, shaken, small_gpt
from tests.tasks import tiny_labels, tiny_text

WORDS = ["he", "sat", "on", "the", "river", "bank", "she", "put", "cash", "in", "a", "##ing", "."]
SENTENCES = ["He sat on the river bank.", "She put cash in a bank.", "The bank, the Bank"]


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT's body without a head, as transformers writes it."""
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = transformers.BertConfig(**{**SMALL["bert"], "vocab_size": 40, "max_position_embeddings": 24})
    shaken(transformers.BertModel(config), 0.3).save_pretrained(folder)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    raw = tokenizers.Tokenizer(tokenizers.models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    raw.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    raw.add_special_tokens(pieces[:5])
    raw.save(str(folder / "tokenizer.json"))
    return folder


@torch.no_grad()
def hidden_states(folder: Path, ids: list[int]) -> list[torch.Tensor]:
    peer = transformers.AutoModel.from_pretrained(folder).eval()
    found = peer(input_ids=torch.tensor([ids]), output_hidden_states=True)
    return [peer.get_input_embeddings()(torch.tensor([ids]))[0], *(x_BLD[0] for x_BLD in found.hidden_states)]


def test_a_bert_reads_what_transformers_reads(public: Path) -> None:
    found = word_uses(public, "bank", SENTENCES, "cpu")
    assert [use.word for use in found.uses] == ["bank", "bank", "bank", "Bank"]
    assert [(use.start, use.end) for use in found.uses] == [(20, 24), (18, 22), (4, 8), (14, 18)]
    assert found.layers == ("words", "0", "1", "2")
    first = hidden_states(public, [2, *(5 + WORDS.index(w) for w in ["he", "sat", "on", "the", "river", "bank", "."]), 3])
    second = hidden_states(public, [2, *(5 + WORDS.index(w) for w in ["she", "put", "cash", "in", "a", "bank", "."]), 3])
    for layer, (one, other) in enumerate(zip(first, second)):
        np.testing.assert_allclose(found.vectors[layer][0], one[6].numpy(), atol=1e-4)
        apart = 1 - torch.nn.functional.cosine_similarity(one[6], other[6], dim=0)
        assert found.distances_LUU[layer][0, 1] == pytest.approx(float(apart), abs=1e-5)


def test_the_static_embedding_knows_no_context_and_layers_do(public: Path) -> None:
    found = word_uses(public, "bank", SENTENCES, "cpu")
    assert found.one_spelling
    assert (found.distances_LUU[0] == 0).all()
    assert (found.pairs_LP[2:] > 1e-3).all()
    assert found.distances_LUU[1][0, 1] == pytest.approx(0, abs=1e-9)  # at the same place, before any layer


def test_a_word_of_several_pieces_is_their_mean(public: Path) -> None:
    found = word_uses(public, "banking", ["He sat on the banking.", "the banking"], "cpu")
    assert found.uses[0].pieces == ("bank", "##ing")
    ids = [2, *(5 + WORDS.index(w) for w in ["he", "sat", "on", "the", "bank", "##ing", "."]), 3]
    for layer, x_LD in enumerate(hidden_states(public, ids)):
        np.testing.assert_allclose(found.vectors[layer][0], x_LD[5:7].mean(0).numpy(), atol=1e-4)


def test_other_words_are_each_different_word_once(public: Path) -> None:
    found = word_uses(public, "bank", ["the bank the", "a bank the"], "cpu")
    table = open_body(public).tokens.weight.detach()
    one, other = (table[5 + WORDS.index(word)] for word in ("the", "a"))
    assert found.others_L[0] == pytest.approx(1 - float(torch.nn.functional.cosine_similarity(one, other, dim=0)), abs=1e-6)
    assert np.isnan(word_uses(public, "bank", ["bank bank", "bank"], "cpu").others_L).all()


def test_company_in_a_batch_changes_nothing(public: Path) -> None:
    longer = [*SENTENCES, "the river " * 5 + "bank"]
    alone, together = word_uses(public, "bank", SENTENCES, "cpu"), word_uses(public, "bank", longer, "cpu")
    for one, other in zip(alone.vectors, together.vectors):
        np.testing.assert_allclose(one, other[:4], atol=1e-5)


def test_of_a_long_text_the_words_around_are_read(public: Path) -> None:
    long = "the river " * 30 + "bank " + "a " * 30
    found = word_uses(public, "bank", [long, "a bank"], "cpu")
    assert found.notes == ("1 stand in texts longer than 24 tokens, of which that many around the word were read",)
    around = " ".join([*(["the", "river"] * 6)[-10:], "bank", *["a"] * 11])  # 22 between [CLS] and [SEP]
    same = word_uses(public, "bank", [around, "a bank"], "cpu")
    assert same.notes == ()
    np.testing.assert_allclose(found.vectors[-1], same.vectors[-1], atol=1e-5)


@torch.no_grad()
def test_a_gpt_reads_from_its_start_and_only_what_came_before(tmp_path: Path) -> None:
    folder = export(tmp_path / "gpt", small_gpt())
    texts = ["because it was too tired", "the street: it was", "the street: it did not"]
    found = word_uses(folder, "it", texts, "cpu")
    assert found.layers == ("words", "0", "1", "2")
    assert found.pairs_LP[:, 2].max() < 1e-9  # of the last two: all that differs comes after the word
    assert found.pairs_LP[2:, 0].min() > 1e-3
    body = open_body(folder, "cpu")
    ids = body.tokenizer.encode(texts[0])
    ends: list[int] = []
    for i in ids:  # every letter is a byte here, so that pieces can be counted off
        ends.append(len(str(body.tokenizer.raw.id_to_token(i))) + (ends[-1] if ends else 0))
    places = [n + 1 for n, end in enumerate(ends) if 8 < end <= 10]  # " it" is letters 7 to 10, its space not counted
    assert body.tokenizer.decode([ids[n - 1] for n in places]).strip() == "it"
    for ours, x_LD in zip(found.vectors, hidden_states(folder, [body.before[0], *ids])):
        np.testing.assert_allclose(ours[0], x_LD[places].mean(0).numpy(), atol=1e-4)


def test_runs_of_every_task_can_be_read() -> None:
    texts = ["the cat sees the dog", "a dog likes the cat"]
    for run in (tiny_text.trained(), tiny_labels.trained("gpt"), tiny_labels.trained("bert"), command.trained()):
        found = word_uses(run, "cat", texts, "cpu")
        assert len(found.uses) == 2
        assert found.model == str(run)
        assert found.mean_L[-1] > 0, run


@torch.no_grad()
def test_a_translators_encoder_is_what_is_read() -> None:
    found = word_uses(command.trained(), "cat", ["the cat sees the dog .", "the dog sees the cat ."], "cpu")
    translator = regard.load(str(command.trained()), "cpu")
    ids = [*translator.tokenizers.source.encode("the cat sees the dog ."), 2]
    memory_LD = translator.model.encode(torch.tensor([ids]), torch.tensor([len(ids)]))[0]
    np.testing.assert_allclose(found.vectors[-1][0], memory_LD[1].numpy(), atol=1e-5)
    np.testing.assert_array_equal(found.vectors[0][0], translator.model.source.tokens.weight[ids[1]].numpy())


def test_senses_come_along_and_many_uses_are_cut(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_USES", 3)
    found = word_uses(public, "bank", [("a bank", "money"), ("the bank bank", "river"), ("bank", "money")], "cpu")
    assert [use.sense for use in found.uses] == ["money", "river", "river"]
    assert found.notes == ("4 uses were found; the first 3 are compared",)
    assert found.senses is not None


# ------------------------------------------------------------------------------------------------------------- the command


def test_the_window_shows_it(public: Path) -> None:
    found = regard.word_uses(str(public), "bank", SENTENCES)
    assert isinstance(found, WordUses)
    assert len(found.pairs) == 6


def test_the_command_prints_and_draws(public: Path, tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("a river bank\triver\non the bank\triver\ncash in the bank\tmoney\nnothing here\tmoney\n")
    out = tmp_path / "bank.json"
    said = command.regard("lens", public, "--word", "bank", "--file", tmp_path / "s.tsv", "--layer", "1", "--out", out)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"bank: 3 uses, read by {public}")
    assert "layer 1, of 2:" in said.out
    assert said.out.endswith(f"drawn: {out}\n")
    read = json.loads(out.read_text())
    expected = word_uses(public, "bank", ["a river bank", "on the bank", "cash in the bank"], "cpu")
    np.testing.assert_allclose(read["distances"], expected.distances_LUU, atol=1e-6)
    typed = command.regard("lens", public, "--word", "bank", "a river bank", "on the bank", "cash in the bank")
    assert f"\n2      {expected.mean_L[-1]:.3f}" in typed.out


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_every_kind_of_picture(ending: str, public: Path, tmp_path: Path) -> None:
    said = command.regard("lens", public, *SENTENCES, "--word", "bank", "--out", tmp_path / f"x.{ending}")
    assert said.code == 0, said.err
    assert (tmp_path / f"x.{ending}").stat().st_size > 1000

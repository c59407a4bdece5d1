"""BigBird of transformers, looking at blocks: its answers are ours, at lengths that divide by the block and at others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.interop.huggingface import read_public
from regard.model.sparse import dispatch
from regard.model.visibility import View
from tests.families.bert_folder import LABELS, assert_same, export, model_of, saved, theirs
from tests.families.public_folder import VOCABULARY, change_config, shaken

LONG: dict[str, Any] = dict(attention_type="block_sparse", block_size=4, num_random_blocks=1, max_position_embeddings=2100)


def peer_of(name: str, **keys: Any) -> Any:
    return theirs("big_bird", name, **(LONG | keys))


def opened(peer: Any) -> tuple[BERT, Heads]:
    with saved(peer) as folder:
        public = read_public(folder)
    return model_of(public), public.heads


def ids_of(batch: int, length: int) -> Tensor:
    return torch.randint(4, 300, (batch, length), generator=torch.Generator().manual_seed(length))


@torch.no_grad()
def assert_same_words(model: BERT, peer: Any, batch: int, length: int) -> None:
    ids_BL = ids_of(batch, length)
    ours, expected = model(ids_BL, torch.full((batch,), length)), peer(input_ids=ids_BL).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("block", "random"), [(4, 1), (4, 3), (2, 2), (8, 1)])
def test_words_by_blocks(block: int, random: int) -> None:
    peer = peer_of("BigBirdForMaskedLM", block_size=block, num_random_blocks=random)
    model, _ = opened(peer)
    assert model.config.visibility == f"bigbird_fixed({block}, {random})"
    shortest = (5 + 2 * random) * block + 1
    for length in (shortest, shortest + block, 16 * block, 20 * block + 1, 20 * block - 1):
        if length >= shortest:
            assert_same_words(model, peer, 2, length)
            assert peer.bert.attention_type == "block_sparse"
    assert_same_words(model, peer, 2, shortest - 1)
    assert peer.bert.attention_type == "original_full"  # for so short a text, and for all that it is given afterwards


def test_long_texts_by_our_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the released models are, by the kernel that long texts take."""
    taken = []
    rendered = View.rendered
    monkeypatch.setattr(View, "rendered", lambda view: taken.append(view) or rendered(view))
    peer = peer_of("BigBirdForMaskedLM", block_size=64, num_random_blocks=3)
    model, _ = opened(peer)
    assert_same_words(model, peer, 1, 2048)
    assert_same_words(model, peer, 1, 2000)
    assert not taken  # no mask of all pairs was made
    monkeypatch.setitem(dispatch.SHORTEST, "cpu", 10_000)
    assert_same_words(model, peer, 1, 2000)
    assert taken


def test_padding_is_nobody_here() -> None:
    """There the last block of the padded batch is global; here each text answers as it does there alone."""
    peer = peer_of("BigBirdForMaskedLM")
    model, _ = opened(peer)
    ids_BL, lengths_B = ids_of(2, 80), torch.tensor([80, 41])
    with torch.no_grad():
        ours, alone = model(ids_BL, lengths_B)[1, :41], peer(input_ids=ids_BL[1:, :41]).logits[0]
    torch.testing.assert_close(ours, alone, atol=1e-4, rtol=0)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu"])
def test_whole_texts_are_told_apart_by_the_body_s_activation(activation: str, tmp_path: Path) -> None:
    peer = peer_of(
        "BigBirdForSequenceClassification", hidden_act=activation, vocab_size=VOCABULARY, id2label=dict(enumerate(LABELS))
    )
    with saved(peer) as folder:
        public = read_public(folder)
    assert public.labels == LABELS
    assert "pooler.bias" in public.notes[0]  # stored, and computed with by nobody
    model = model_of(public)
    assert isinstance(public.config, BERTConfig)
    assert public.config.pooler == {"gelu_new": "gelu_tanh"}.get(activation, activation)
    ids_BL = torch.randint(4, VOCABULARY, (3, 60))
    with torch.no_grad():
        ours = model.classes(model.pooler(model.hidden(ids_BL, torch.full((3,), 60)), torch.full((3,), 60)))
        torch.testing.assert_close(ours, peer(input_ids=ids_BL).logits, atol=1e-4, rtol=0)
    again = transformers.BigBirdForSequenceClassification.from_pretrained(export(tmp_path / "out", model, labels=LABELS))
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(input_ids=ids_BL).logits, ours, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["BigBirdModel", "BigBirdForPreTraining", "BigBirdForTokenClassification"])
def test_other_heads_at_short_lengths(name: str) -> None:
    peer = peer_of(name)
    model, heads = opened(peer)
    assert_same(model, heads, peer)


def test_what_looks_at_blocks_is_written_so(tmp_path: Path) -> None:
    small: dict[str, Any] = dict(width=24, heads=3, layers=2, feedforward=40, maximum_length=100, dropout=0.0)
    model = shaken(BERT(BERTConfig(**small, visibility="bigbird_fixed(4, 2)", activation="gelu_tanh"), VOCABULARY), 0.3)
    folder = export(tmp_path / "out", model)
    raw = json.loads((folder / "config.json").read_text())
    assert (raw["model_type"], raw["attention_type"], raw["block_size"], raw["num_random_blocks"]) == (
        "big_bird",
        "block_sparse",
        4,
        2,
    )
    peer = transformers.BigBirdForMaskedLM.from_pretrained(folder).eval()
    ids_BL = torch.randint(4, VOCABULARY, (2, 90))
    with torch.no_grad():
        ours = model.eval()(ids_BL, torch.full((2,), 90))
        torch.testing.assert_close(ours, peer(input_ids=ids_BL).logits, atol=1e-4, rtol=0)
    assert read_public(folder).config == model.config
    with pytest.raises(UserError, match=r"model.visibility=bigbird\(4\) cannot be written as big_bird"):
        export(tmp_path / "no", BERT(BERTConfig(**small, visibility="bigbird(4)"), VOCABULARY), model_type="big_bird")


def test_what_is_not_computed_here_is_refused(tmp_path: Path) -> None:
    peer_of("BigBirdForQuestionAnswering").save_pretrained(tmp_path / "answers")
    with pytest.raises(UserError, match="BigBirdForQuestionAnswering"):
        read_public(tmp_path / "answers")
    peer_of("BigBirdForMaskedLM").save_pretrained(tmp_path / "words")
    for key, value in [("use_bias", False), ("rescale_embeddings", True), ("attention_type", "sparse"), ("block_size", 0)]:
        change_config(tmp_path / "words", use_bias=True, rescale_embeddings=False, attention_type="block_sparse", block_size=4)
        change_config(tmp_path / "words", **{key: value})
        with pytest.raises(UserError, match=key):
            read_public(tmp_path / "words")

"""A classifier on either body: what Hugging Face's gives with the same weights, alone or together, padded or packed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.labelled import LabelledBatch, LabelledTexts, SpecialTokens, make_batch
from regard.data.batching.pairs import Ragged
from regard.families import marks_of
from regard.families.bert import BERTConfig
from regard.families.classifier import Classifier, classifier, count
from regard.families.gpt import GPTConfig
from regard.text.specials import EOS, SOS, Roles
from regard.training.checkpoint import Store

SMALL: dict[str, Any] = dict(width=24, heads=3, layers=2, feedforward=40, dropout=0.0, maximum_length=40)
VOCABULARY, CLASSES = 61, 3
CONFIGS: dict[str, Any] = {
    "gpt": GPTConfig(**SMALL),
    "gpt, post-norm, window": GPTConfig(**SMALL, norm_placement="post", visibility="window(4)", position="sinusoidal"),
    "bert": BERTConfig(**SMALL),
    "bert without segments": BERTConfig(**SMALL, segments=0),
    "roberta": BERTConfig(**SMALL, segments=1, first_position=2),
}
families = pytest.mark.parametrize("family", CONFIGS)


def build(family: str) -> Classifier:
    """Biases and norms start at 0 and 1, where a mistake would not show."""
    model, draw = classifier(CONFIGS[family], VOCABULARY, CLASSES, seed=2).eval(), torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return model


def texts(pairs: bool = True) -> LabelledTexts:
    draw, layout = np.random.default_rng(0), SpecialTokens(EOS, SOS, EOS)
    lengths = [(3, 5), (9, 2), (1, 1), (6, 6)]
    rows = [layout.around([draw.integers(4, VOCABULARY, n).tolist() for n in both[: 1 + pairs]], 40) for both in lengths]
    return LabelledTexts(Ragged([ids for ids, _ in rows]), np.array([s for _, s in rows]), np.array([0, 2, 1, 0]))


def asked(model: Classifier, batch: LabelledBatch) -> Tensor:
    return model(batch.ids_BL, batch.words, batch.segments_BL)


@families
@pytest.mark.parametrize("pairs", [False, True])
def test_batch_padding_and_packing_change_nothing(family: str, pairs: bool) -> None:
    model, data, rows = build(family), texts(pairs), np.arange(4)
    batch = make_batch(data, rows)
    together = asked(model, batch)
    assert together.shape == (4, CLASSES)
    for row in rows:
        torch.testing.assert_close(asked(model, make_batch(data, rows[row : row + 1]))[0], together[row], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(asked(model, make_batch(data, rows, packed=True))[:4], together, atol=2e-5, rtol=1e-4)
    garbage = batch.ids_BL.clone()
    for row, length in enumerate(batch.words.tolist()):  # type: ignore[union-attr]
        garbage[row, length:] = 7
    torch.testing.assert_close(model(garbage, batch.words, batch.segments_BL), together, atol=2e-5, rtol=1e-4)


@families
def test_every_token_of_a_text_has_its_say(family: str) -> None:
    model, batch = build(family), make_batch(texts(), np.array([3]))
    before = asked(model, batch)
    reach = batch.ids_BL.shape[1] if "window" not in family else 5
    for place in range(1, batch.ids_BL.shape[1] - 1)[-reach:]:
        changed = batch.ids_BL.clone()
        changed[0, place] = (changed[0, place] - 3) % 50 + 4
        assert not torch.allclose(model(changed, batch.words, batch.segments_BL), before, atol=1e-4)


@families
def test_gradients_reach_every_parameter(family: str) -> None:
    model = build(family).train()
    asked(model, make_batch(texts(), np.arange(4))).square().sum().backward()
    unreached = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


@families
@pytest.mark.parametrize("language", [False, True])
def test_counted_is_what_is_there(family: str, language: bool) -> None:
    if language and family.startswith("bert"):
        return
    model, config = build(family), CONFIGS[family]
    assert count(config, VOCABULARY, 9, CLASSES, language).parameters == sum(p.numel() for p in model.parameters())
    more = count(config, VOCABULARY, 9, CLASSES, True).flops - count(config, VOCABULARY, 9, CLASSES).flops
    assert not family.startswith("gpt") or more == 2 * 9 * 24 * VOCABULARY


@families
def test_saved_and_loaded_is_equal_and_the_seed_decides(family: str, tmp_path: Path) -> None:
    model, other = build(family), classifier(CONFIGS[family], VOCABULARY, CLASSES, seed=9).eval()
    store, batch = Store(tmp_path), make_batch(texts(), np.arange(4))
    store.save("step", 1, {"model": model.state_dict()}, {})
    assert not torch.equal(asked(model, batch), asked(other, batch))
    other.load_state_dict(store.newest("step").tensors("model"))  # type: ignore[union-attr]
    assert torch.equal(asked(model, batch), asked(other, batch))
    torch.manual_seed(5)
    one, two = (classifier(CONFIGS[family], VOCABULARY, CLASSES, seed=4).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_gpt_is_hugging_faces() -> None:
    """GPT2ForSequenceClassification: the vector of the last token, and a layer without a bias."""
    import transformers

    from benchmarks.peers.gpt2 import gpt2

    model = build("gpt")
    source = gpt2(model.body).eval()
    config = source.config
    config.num_labels, config.pad_token_id = CLASSES, 0
    peer = transformers.GPT2ForSequenceClassification(config).eval()
    peer.transformer.load_state_dict(source.transformer.state_dict())
    peer.score.weight.data = model.classes.project.weight.data
    batch = make_batch(texts(), np.arange(4))
    expected = peer(batch.ids_BL).logits + model.classes.project.bias
    torch.testing.assert_close(asked(model, batch), expected, atol=1e-4, rtol=1e-4)


def test_a_bert_is_hugging_faces() -> None:
    """BertForSequenceClassification: the first token, through the pooler, with segments."""
    import transformers

    from benchmarks.peers.bert import bert as masked
    from regard.families.bert import BERT

    model = build("bert")
    body = BERT(CONFIGS["bert"], VOCABULARY)
    body.load_state_dict(model.body.state_dict(), strict=False)
    source = masked(body).eval()
    source.config.num_labels = CLASSES
    peer = transformers.BertForSequenceClassification(source.config).eval()
    peer.bert.load_state_dict(source.bert.state_dict(), strict=False)
    peer.bert.pooler.dense.load_state_dict(model.body.pooler.project.state_dict())
    peer.classifier.load_state_dict(model.classes.project.state_dict())
    batch = make_batch(texts(), np.arange(4))
    seen = (torch.arange(batch.ids_BL.shape[1]) < batch.words[:, None]).long()  # type: ignore[index]
    expected = peer(batch.ids_BL, attention_mask=seen, token_type_ids=batch.segments_BL).logits
    torch.testing.assert_close(asked(model, batch), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("roles", "gpt", "bert"),
    [
        (Roles(pad=0, sos=1, eos=2, unk=3), (2, 1, 2), (1, 2, 2)),  # ours
        (Roles(sos=50256, eos=50256), (50256, 50256, 50256), None),  # GPT-2's one piece
        (Roles(unk=0), (0, 0, 0), None),  # GPT-1's
        (Roles(pad=0, unk=100, cls=101, sep=102, mask=103), None, (101, 102, 102)),  # BERT's
    ],
)
def test_marks_are_the_vocabularys_own(roles: Roles, gpt: tuple[int, ...] | None, bert: tuple[int, ...] | None) -> None:
    if gpt:
        assert marks_of(CONFIGS["gpt"], roles) == SpecialTokens(*gpt)
    if bert:
        assert marks_of(CONFIGS["bert"], roles) == SpecialTokens(*bert)
        assert marks_of(replace(CONFIGS["bert"], first_position=2), roles) == SpecialTokens(*bert, twice=True)  # RoBERTa's
    with pytest.raises(UserError, match="no piece that could start or end a text"):
        marks_of(CONFIGS["bert"], Roles(unk=3))

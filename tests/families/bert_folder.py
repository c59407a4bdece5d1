"""Small BERTs and relatives of transformers, and what both sides answer to the same texts, for tests to compare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.interop.huggingface import Public, read_public, write_public
from regard.interop.huggingface.registry import LAYOUTS
from tests.families.public_folder import TOKENIZER, VOCABULARY, shaken

transformers.utils.logging.disable_progress_bar()

LONGEST = 13
KINDS = {kind: layout for kind, layout in LAYOUTS.items() if layout.config is BERTConfig}
CONFIGS = {kind: transformers.AutoConfig.for_model(kind).__class__ for kind in KINDS}
APART = "BigBirdForSequenceClassification"  # has a pooler that it does not compute with: tests/families/test_public_bigbird.py
EVERY = [(kind, name) for kind, layout in KINDS.items() for name in layout.architectures if name != APART]
WIDE = {
    "vocab_size": 300,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": LONGEST,
}
LATER = {"max_position_embeddings": LONGEST + 2, "pad_token_id": 1}
SMALL: dict[str, dict[str, Any]] = {
    "bert": WIDE,
    "roberta": {**WIDE, **LATER, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "camembert": {**WIDE, **LATER, "type_vocab_size": 1},
    "electra": {**WIDE, "embedding_size": 10},
    "big_bird": {**WIDE, "attention_type": "original_full"},
    "distilbert": {
        "vocab_size": 300,
        "dim": 24,
        "n_layers": 2,
        "n_heads": 3,
        "hidden_dim": 40,
        "max_position_embeddings": LONGEST,
    },
}
LABELS = ("bad", "so-so", "good")


def theirs(kind: str, name: str, **keys: Any) -> Any:
    labelled = {} if "Question" in name else {"id2label": dict(enumerate(LABELS))}
    torch.manual_seed(0)
    configuration = CONFIGS[kind](**{**SMALL[kind], **labelled, **keys})
    return shaken(getattr(transformers, name)(configuration), 0.3)


def model_of(public: Public) -> BERT:
    """Whatever came is in the model, and the model has nothing that did not come."""
    assert isinstance(public.config, BERTConfig)
    model = BERT(public.config, public.vocabulary, heads=public.heads)
    model.load_state_dict(public.weights)
    return model.eval()


@contextmanager
def saved(peer: Any) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        yield Path(folder)


def opened(peer: Any) -> BERT:
    with saved(peer) as folder:
        return model_of(read_public(folder))


def export(folder: Path, model: BERT, **others: Any) -> Path:
    write_public(folder, model.config, VOCABULARY, model.state_dict(), tokenizer_json=TOKENIZER, roles={}, **others)
    return folder


def texts(padding: int, words: int = 300) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """ids_BL, lengths_B, segments_BL and mask_BL of a text of every length, whose second half is another segment."""
    lengths_B = torch.arange(1, LONGEST + 1)
    place_L = torch.arange(LONGEST)
    mask_BL = place_L < lengths_B[:, None]
    ids_BL = torch.randint(4, words, (LONGEST, LONGEST), generator=torch.Generator().manual_seed(1))
    segments_BL = (place_L > lengths_B[:, None] // 2).long()
    return ids_BL.masked_fill(~mask_BL, padding), lengths_B, segments_BL, mask_BL


@torch.no_grad()
def our_answers(model: BERT, heads: Heads, words: int = 300) -> dict[str, Tensor]:
    """By the names that transformers has for them; of tokens only those that are words."""
    ids_BL, lengths_B, segments_BL, mask_BL = texts(max(0, model.config.first_position - 1), words)
    x_BLD = model.hidden(ids_BL, lengths_B, segments_BL if model.config.segments > 1 else None)
    x_TD, found = x_BLD[mask_BL], {"last_hidden_state": x_BLD[mask_BL]}
    if heads.pooled:
        found["pooler_output"] = pooled_BD = model.pooler(x_BLD, lengths_B)
    if heads.words:
        found["prediction_logits"] = found["logits"] = model.head(x_TD)
    if heads.next_sentence:
        found["seq_relationship_logits"] = model.next_sentence(pooled_BD)
        found.setdefault("logits", found["seq_relationship_logits"])
    if heads.classes:
        found["logits"] = model.classes(pooled_BD)
    if heads.tags:
        found["logits"] = model.tags(x_TD)
    if heads.span:
        found["start_logits"], found["end_logits"] = model.span(x_TD).unbind(-1)
    if heads.replaced:
        found["logits"] = model.replaced(x_TD)
    return found


@torch.no_grad()
def their_answers(peer: Any, words: int = 300) -> dict[str, Tensor]:
    segmented = getattr(peer.config, "type_vocab_size", 1) > 1
    ids_BL, _, segments_BL, mask_BL = texts(peer.config.pad_token_id or 0, words)
    more = {"token_type_ids": segments_BL} if segmented else {}
    answers = peer(input_ids=ids_BL, attention_mask=mask_BL.long(), **more).items()
    return {name: found[mask_BL] if found.shape[:2] == mask_BL.shape else found for name, found in answers if found is not None}


def assert_same(model: BERT, heads: Heads, peer: Any, words: int = 300) -> None:
    ours, expected = our_answers(model, heads, words), their_answers(peer, words)
    assert expected
    for name, values in expected.items():
        assert values.std() > 0.1, name  # else 1e-4 would say little
        torch.testing.assert_close(ours[name], values, atol=1e-4, rtol=0, msg=lambda told, name=name: f"{name}: {told}")

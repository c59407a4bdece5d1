"""What a probe shows are the weights that transformers' eager attention gives out, with the same weights in both models.

Random weights, shaken so that attention is sharp; padded rows, both directions, every layer and head, to 1e-5. And a model whose
gates are all one answers bit for bit as if nobody had looked.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.lens.analyses.weights import Choice, attention_weights
from regard.model.probe import attentions, probe
from regard.tasks.registry import open_run
from tests.families.public_folder import shaken
from tests.lens.some_subjects import TEXT, subject
from tests.tasks.adopted_folder import folder_of

SMALL: dict[str, Any] = dict(width=48, heads=3, layers=3, feedforward=96, dropout=0.0)
WORDS, LENGTHS, TARGETS = 101, torch.tensor([17, 9, 1, 12]), torch.tensor([11, 5, 8, 2])


def ids(lengths: Tensor, seed: int) -> Tensor:
    """Words, and padding behind them."""
    found = torch.randint(4, WORDS, (len(lengths), int(lengths.max())), generator=torch.Generator().manual_seed(seed))
    return found.masked_fill(torch.arange(found.shape[1]) >= lengths[:, None], 0)


def mask(lengths: Tensor) -> Tensor:
    return (torch.arange(int(lengths.max())) < lengths[:, None]).long()


@torch.no_grad()
def theirs(peer: Any, *given: Tensor, **named: Tensor) -> Any:
    peer.eval().set_attn_implementation("eager")
    return peer(*given, **named, output_attentions=True)


def compare(seen: Any, names: list[str], expected: tuple[Tensor, ...], queries: Tensor, keys: Tensor) -> None:
    """Rows of words alone: what padding looks at is nobody's business."""
    assert len(names) == len(expected)
    for name, theirs_BHLM in zip(names, expected):
        ours_BHLM = seen[name].weights()
        for row, (query, key) in enumerate(zip(queries.tolist(), keys.tolist())):
            torch.testing.assert_close(ours_BHLM[row, :, :query, :key], theirs_BHLM[row, :, :query, :key], atol=1e-5, rtol=0)
        assert ours_BHLM[:, :, : int(queries.min())].amax() > 0.5  # somebody looks somewhere


@torch.no_grad()
def test_bert() -> None:
    from benchmarks.peers.bert import bert as peer

    model = shaken(BERT(BERTConfig(**SMALL, maximum_length=32), WORDS), 0.3)
    ids_BL = ids(LENGTHS, 0)
    with probe(model) as seen:
        model(ids_BL, LENGTHS)
    expected = theirs(peer(model), ids_BL, attention_mask=mask(LENGTHS)).attentions
    compare(seen, [f"encoder.{n}.self" for n in range(3)], expected, LENGTHS, LENGTHS)


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 2, 24])
def test_gpt2(length: int) -> None:
    from benchmarks.peers.gpt2 import gpt2

    model = shaken(GPT(GPTConfig(**SMALL, maximum_length=32), WORDS), 0.3)
    ids_BL = torch.randint(WORDS, (2, length), generator=torch.Generator().manual_seed(1))
    with probe(model) as seen:
        model(ids_BL)
    lengths = torch.tensor([length, length])
    compare(seen, [f"decoder.{n}.self" for n in range(3)], theirs(gpt2(model), ids_BL).attentions, lengths, lengths)


@torch.no_grad()
def test_encoder_and_decoder() -> None:
    from benchmarks.peers.marian import marian

    model = shaken(Transformer(TransformerConfig(**SMALL), WORDS, WORDS), 0.2)
    source_BM, target_BL = ids(LENGTHS, 2), ids(TARGETS, 3)
    with probe(model) as seen:
        model(source_BM, LENGTHS, target_BL)
    found = theirs(marian(model), source_BM, attention_mask=mask(LENGTHS), decoder_input_ids=target_BL)
    compare(seen, [f"encoder.{n}.self" for n in range(3)], found.encoder_attentions, LENGTHS, LENGTHS)
    compare(seen, [f"decoder.{n}.self" for n in range(3)], found.decoder_attentions, TARGETS, TARGETS)
    compare(seen, [f"decoder.{n}.cross" for n in range(3)], found.cross_attentions, TARGETS, LENGTHS)


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["BertForMaskedLM", "RobertaForSequenceClassification", "DistilBertModel", "ElectraForPreTraining"]
)
def test_a_public_folder_is_shown_as_transformers_shows_it(name: str) -> None:
    """From a typed text to the weights that are drawn: their tokenizer, their model."""
    found = attention_weights(subject(name), Choice()).alignment
    folder = folder_of(name)
    given = transformers.AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")
    peer = transformers.AutoModel.from_pretrained(folder)
    expected = theirs(peer, **given).attentions
    assert open_run(folder, "cpu") is not None
    for layer, weights_BHLL in zip(found.weights, expected):
        torch.testing.assert_close(torch.from_numpy(layer.copy()), weights_BHLL[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["translator", "writer", "labeller", "BertForMaskedLM"])
def test_gates_of_one_change_no_bit(name: str) -> None:
    found = subject(name)
    with torch.no_grad():
        plain_BLV = found.forward(2)
        for shape in [(), (2,)]:
            gates = {one: torch.ones(*shape, each.heads) for one, each in attentions(found.model).items()}
            with probe(found.model, gates):
                assert torch.equal(found.forward(2), plain_BLV)

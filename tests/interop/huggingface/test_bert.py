"""BERT's choices of parts: counted as they are built, and the same answers for texts in rows and packed."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.core.packing import Packing
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from tests.families.counting import count
from tests.families.public_folder import shaken

few = settings(max_examples=25)
configs = st.builds(
    lambda heads, layers, segments, first, words, pooler: BERTConfig(
        width=8 * heads,
        heads=heads,
        layers=layers,
        feedforward=20,
        maximum_length=11,
        segments=segments,
        first_position=first,
        embedding_width=words,
        pooler=pooler,
        dropout=0.0,
    ),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([0, 5, 16]),
    st.sampled_from(["tanh", "relu", "gelu"]),
)
some_heads = st.builds(
    Heads,
    words=st.booleans(),
    pooler=st.booleans(),
    next_sentence=st.booleans(),
    classes=st.integers(0, 4),
    tags=st.integers(0, 4),
    span=st.booleans(),
    replaced=st.booleans(),
)


def answers(model: BERT, heads: Heads, ids_BL: torch.Tensor, words: torch.Tensor | Packing) -> dict[str, torch.Tensor]:
    """Everything a model can be asked, tokens of all texts in one row."""
    x_BLD = model.hidden(ids_BL, words)
    found = {"words": model.head(x_BLD)} if heads.words else {"hidden": x_BLD}
    pooled_ND = model.pooler(x_BLD, words) if heads.pooled else x_BLD
    found |= {"next": model.next_sentence(pooled_ND)} if heads.next_sentence else {}
    found |= {"classes": model.classes(pooled_ND)} if heads.classes else {}
    found |= {"tags": model.tags(x_BLD)} if heads.tags else {}
    found |= {"span": model.span(x_BLD)} if heads.span else {}
    return found | ({"replaced": model.replaced(x_BLD)} if heads.replaced else {})


@few
@given(configs, some_heads, st.integers(2, 30))
def test_parameters_are_those_of_the_module(config: BERTConfig, heads: Heads, vocabulary: int) -> None:
    built = BERT(config, vocabulary, heads=heads)
    assert count(config, vocabulary, 3, heads=heads).parameters == sum(p.numel() for p in built.parameters())


@few
@given(configs, some_heads, st.integers(1, 11))
def test_operations_are_those_torch_counts(config: BERTConfig, heads: Heads, length: int) -> None:
    model = BERT(config, 13, heads=heads)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        answers(model, heads, torch.zeros(1, length, dtype=torch.long), torch.tensor([length]))
    assert counter.get_total_flops() == count(config, 13, length, heads=heads).flops


@few
@given(configs, some_heads, st.lists(st.integers(1, 11), min_size=1, max_size=4))
def test_packed_texts_get_the_answers_of_texts_in_rows(config: BERTConfig, heads: Heads, lengths: list[int]) -> None:
    model = shaken(BERT(config, 13, heads=heads))
    ids = torch.randint(13, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    rows = answers(model, heads, ids, torch.tensor(lengths))
    packed = answers(model, heads, ids[mask][None], Packing.of(lengths))
    for name, expected in rows.items():
        of_tokens = name not in ("next", "classes")
        found, wanted = (packed[name][0], expected[mask]) if of_tokens else (packed[name], expected)
        torch.testing.assert_close(found, wanted, atol=5e-5, rtol=1e-4)


def test_a_head_that_is_not_asked_for_is_not_there() -> None:
    config = BERTConfig(width=8, heads=1, layers=1, feedforward=8)
    parts = {name.partition(".")[0] for name in BERT(config, 7).state_dict()}
    assert parts == {"embed", "encoder", "head"}
    other = BERT(config, 7, heads=Heads(words=False, classes=2))
    assert {name.partition(".")[0] for name in other.state_dict()} == {"embed", "encoder", "pooler", "classes"}
    assert all(torch.equal(other.state_dict()[name], p) for name, p in BERT(config, 7).state_dict().items() if "encoder" in name)


def test_matrices_are_drawn_with_the_deviation_that_is_asked_for() -> None:
    for asked in (0.02, 0.1):
        model = BERT(BERTConfig(width=64, heads=2, layers=1, feedforward=128, deviation=asked), 500)
        for parameter in (model.embed.tokens.weight, model.encoder.blocks[0].feedforward.expand.weight):
            assert abs(parameter.std().item() / asked - 1) < 0.05

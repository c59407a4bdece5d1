"""Speculative decoding: the text of plain decoding, token for token, in fewer passes; samples as probable as they should be."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from scipy.stats import chisquare

from regard.core.errors import UserError
from regard.decode.candidates import NO_TOKEN
from regard.decode.config import GREEDY, Sampling
from regard.decode.request import Hypothesis, SearchRequest
from regard.decode.search import search
from regard.decode.speculative import Lookup, Speculation, SpeculativeInput, looked_up, shared
from regard.decode.speculative import padded as side_by_side
from regard.families import build_model
from regard.families.gpt import GPT
from regard.families.t5 import T5Config
from regard.families.transformer import Transformer
from regard.model.state.protocol import RowCompaction
from tests.decode.models import KINDS, PAIR_KINDS, language_model, last, padded, pair_model, prompts, sources
from tests.families.public_folder import shaken

DRAWN = Sampling(temperature=0.9, top_p=0.95, top_k=12)
PENALISED = Sampling(temperature=0.8, repetition_penalty=1.3)


def written(
    model: GPT, texts: list[list[int]], speculation: Speculation | None, method: Sampling, **options: Any
) -> list[Hypothesis]:
    seeds = list(range(10, 10 + len(texts)))
    read: Any = model.start(*padded(texts))
    given = dict(
        sos=last(texts), eos=2, limits=[3 + n % 17 for n in range(len(texts))], prompts=texts, seeds=seeds, method=method
    )
    given |= options
    if speculation is not None:
        read = SpeculativeInput(read, texts, speculation, method, seeds, given.get("banned", ()))
    return [found[0] for found in search(SearchRequest(encoded=read, **given))]


def assert_same(one: list[Hypothesis], other: list[Hypothesis]) -> None:
    assert [text.ids for text in one] == [text.ids for text in other]
    assert [text.finished for text in one] == [text.finished for text in other]
    for first, second in zip(one, other):
        assert first.token_logprobs == pytest.approx(second.token_logprobs, abs=1e-5)


def ways(model: GPT) -> dict[str, Speculation]:
    other = language_model("plain", seed=7, layers=1)
    return {
        "lookup": Speculation(5),
        "itself": Speculation(3, model, 64),
        "another": Speculation(4, other, 64),
        "short-sighted": Speculation(4, other, 9),
    }


@pytest.mark.parametrize("way", ["lookup", "itself", "another", "short-sighted"])
@pytest.mark.parametrize("method", [GREEDY, DRAWN, PENALISED], ids=["greedy", "drawn", "penalised"])
def test_two_hundred_prompts_are_continued_as_ever(way: str, method: Sampling) -> None:
    """In batches of 25, whose texts end at different steps, so that rows leave and move."""
    model = language_model()
    speculation, texts = ways(model)[way], prompts(200, longest=14)
    for start in range(0, len(texts), 25):
        some = texts[start : start + 25]
        options = dict(banned=(0, 1), minimum_length=2, banned_sequences=[(5, 6)])
        assert_same(written(model, some, speculation, method, **options), written(model, some, None, method, **options))
    assert speculation.written > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model(kind: str) -> None:
    model, texts = language_model(kind), prompts(12)
    for speculation in ways(model).values():
        assert_same(written(model, texts, speculation, DRAWN), written(model, texts, None, DRAWN))


def test_forced_beginnings_and_stops_are_as_ever() -> None:
    model, texts = language_model(), prompts(6)
    heard: list[tuple[int, list[int]]] = []

    def listen(row: int, ids: list[int]) -> bool:
        heard.append((row, ids))
        return 7 in ids

    options = dict(forced=[[5, 6]] * 6, listener=listen, limits=[20] * 6)
    plain = written(model, texts, None, GREEDY, **options)
    before, heard = heard, []
    assert_same(written(model, texts, Speculation(5), GREEDY, **options), plain)
    assert heard == before  # token by token, and in the same order


def test_a_draft_that_is_the_model_itself_is_always_right() -> None:
    """One text: a pass for every 4 tokens, though tokens are drawn."""
    model = language_model()
    speculation = Speculation(3, model, 64)
    written(model, prompts(1), speculation, DRAWN, limits=[32], eos=-1)
    assert (speculation.written, speculation.passes, speculation.read) == (32, 8, 8)


def test_proposals_are_read_in_one_pass() -> None:
    model, texts = language_model(), [[5, 6, 7, 8] * 3]
    speculation, lengths = Speculation(5), []
    original = GPT.start
    assert original is GPT.start
    with patch.object(model.head, "forward", lambda x: lengths.append(x.shape[1]) or type(model.head).forward(model.head, x)):
        written(model, texts, speculation, GREEDY, limits=[8], eos=-1)
    assert max(lengths) > 1
    assert sum(lengths) == speculation.proposed + len(lengths)


def test_samples_have_the_probabilities_of_the_model() -> None:
    """Two tokens of a vocabulary of 5, against products of the model's own probabilities, for 6,000 seeds."""
    model = GPT_OF_FIVE()
    draft, count = GPT_OF_FIVE(seed=9), 6_000
    text = [4, 3, 4]
    with torch.no_grad():
        first_V = model(torch.tensor([text]))[0, -1].softmax(-1)
        second_VV = torch.stack([model(torch.tensor([[*text, token]]))[0, -1].softmax(-1) for token in range(5)])
    expected = (first_V[:, None] * second_VV).flatten()
    for speculation in (Speculation(3, draft, 64), Speculation(2)):
        read = model.start(*padded([text] * count))
        seeds, method = list(range(count)), Sampling(temperature=1.0)
        given = SpeculativeInput(read, [text] * count, speculation, method, seeds)
        request = SearchRequest(encoded=given, sos=last([text] * count), eos=-1, limits=[2] * count, seeds=seeds, method=method)
        found = [one.ids for (one,) in search(request)]
        counts = torch.bincount(torch.tensor([a * 5 + b for a, b in found]), minlength=25)
        assert chisquare(counts.numpy(), (expected * count).numpy()).pvalue > 0.01
        assert speculation.proposed > count / 2


def GPT_OF_FIVE(seed: int = 1) -> GPT:
    from regard.families.gpt import GPTConfig

    torch.manual_seed(seed)
    model = GPT(GPTConfig(width=8, heads=2, layers=1, feedforward=8, maximum_length=16, dropout=0.0), 5, seed).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def from_sources(
    model: Transformer, texts: list[list[int]], speculation: Speculation | None, method: Sampling, **options: Any
) -> list[Hypothesis]:
    """What an encoder-decoder writes from these texts, after token 1."""
    seeds = list(range(10, 10 + len(texts)))
    read: Any = model.start(*sources(texts))
    given = dict(sos=1, eos=2, limits=[3 + n % 17 for n in range(len(texts))], seeds=seeds, method=method) | options
    if speculation is not None:
        drafted = None if speculation.draft is None else speculation.draft.start(*sources(texts))
        begun, banned = [[1]] * len(texts), given.get("banned", ())
        found = [[1, *text] for text in texts]
        read = SpeculativeInput(read, begun, speculation, method, seeds, banned, sources=found, drafted=drafted)
    return [found[0] for found in search(SearchRequest(encoded=read, **given))]


@pytest.mark.parametrize(("kind", "method"), [*((kind, GREEDY) for kind in PAIR_KINDS), ("t5", PENALISED), ("bart", DRAWN)])
def test_encoder_decoders_write_as_ever(kind: str, method: Sampling) -> None:
    """Sources of several lengths, whose rows leave at different steps; the last draft sees 9 tokens."""
    model, draft, texts = pair_model(kind), pair_model("transformer", seed=7, layers=1), prompts(20, longest=14)
    options: dict[str, Any] = dict(banned=(0, 1), minimum_length=2, banned_sequences=[(5, 6)])
    plain = from_sources(model, texts, None, method, **options)
    for speculation in (Speculation(5), Speculation(3, model), Speculation(4, draft, 9)):
        assert_same(from_sources(model, texts, speculation, method, **options), plain)
        assert speculation.written > 100
        assert speculation.proposed > 0


def test_a_draft_that_reads_the_same_source_is_always_right() -> None:
    model = pair_model("t5")
    speculation = Speculation(3, model)
    from_sources(model, prompts(1), speculation, DRAWN, limits=[32], eos=-1)
    assert (speculation.written, speculation.passes, speculation.read) == (32, 8, 8)


def test_outputs_have_the_probabilities_of_an_encoder_decoder() -> None:
    """Two tokens of 5, against products of the model's own probabilities, for 4,000 seeds."""
    small: dict[str, Any] = dict(width=8, heads=2, layers=1, feedforward=8, dropout=0.0)
    model, draft = (build_model(T5Config(**small, head_width=4), seed, vocabulary=5) for seed in (1, 9))
    for net in (model, draft):
        shaken(net.double(), 0.6)
    text, count = [4, 3, 4, 3], 4_000
    ids, length = torch.tensor([text]), torch.tensor([4])
    with torch.no_grad():
        first_V = model(ids, length, torch.tensor([[1]]))[0, -1].softmax(-1)
        second_VV = torch.stack([model(ids, length, torch.tensor([[1, token]]))[0, -1].softmax(-1) for token in range(5)])
    expected, method = (first_V[:, None] * second_VV).flatten(), Sampling(temperature=1.0)
    for speculation in (Speculation(3, draft), Speculation(2)):
        found = from_sources(model, [text] * count, speculation, method, limits=[2] * count, eos=-1, seeds=list(range(count)))
        counts = torch.bincount(torch.tensor([one.ids[0] * 5 + one.ids[1] for one in found]), minlength=25)
        assert chisquare(counts.numpy(), (expected * count).numpy()).pvalue > 0.01
        assert speculation.proposed > count / 4


def test_a_source_is_looked_up() -> None:
    """From the token that outputs come after, the source's beginning; nothing beyond its end, or that cannot be written."""
    lookup = Lookup(3, [[1, 5, 6, 7, 2], [1, 8, NO_TOKEN, 9]])
    assert lookup.propose([0, 1], [[1], [1]], [9, 9]) == [[5, 6, 7], [8]]
    assert lookup.propose([0, 1], [[1, 5, 6], [1, 4, 9]], [9, 1]) == [[7, 2], []]
    lookup.compact(RowCompaction.of([1], torch.device("cpu")))
    assert lookup.propose([0], [[1]], [9]) == [[8]]


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ([5, 6, 7, 8, 5, 6, 7], 4, [8, 5, 6, 7]),
        ([5, 6, 7, 8, 5, 6, 7], 2, [8, 5]),
        ([5, 6, 9, 5, 7, 5], 3, [7, 5]),  # the latest 5, not the first
        ([1, 2, 3], 4, []),
        ([4, 4], 4, [4]),
        ([4], 4, []),
        ([5, 6, 5], 0, []),
    ],
)
def test_lookup(text: list[int], most: int, expected: list[int]) -> None:
    assert looked_up(text, most) == expected


def test_small_parts() -> None:
    assert shared([1, 2, 3], [1, 2, 4]) == 2
    assert shared([1, 2], [1, 2, 4]) == 2
    ids_RL, last_R = side_by_side([[1, 2, 3], [4]], torch.device("cpu"))
    assert (ids_RL.tolist(), last_R.tolist()) == ([[1, 2, 3], [4, 4, 4]], [2, 0])


def test_a_model_without_keys_is_refused() -> None:
    model = language_model("plain", mixer="favor", position="sinusoidal")
    with pytest.raises(UserError, match=r"model\.mixer=favor keeps no keys and values"):
        written(model, prompts(2), Speculation(3), GREEDY)


@pytest.mark.gpu
@pytest.mark.parametrize("method", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_a_gpu_writes_the_text_of_plain_decoding(method: Sampling) -> None:
    """Rows that are done stay in the batch for a while there."""
    model, texts = language_model().cuda(), prompts(9)
    ids_BL, lengths_B = (tensor.cuda() for tensor in padded(texts))
    draft = language_model("plain", seed=7, layers=1).cuda()
    options: dict[str, Any] = dict(sos=last(texts).cuda(), eos=2, limits=[3 + 4 * n for n in range(9)], method=method)
    options["seeds"] = seeds = list(range(9))
    plain = search(SearchRequest(encoded=model.start(ids_BL, lengths_B), **options))
    for speculation in (Speculation(4), Speculation(3, draft, 64)):
        read: Any = SpeculativeInput(model.start(ids_BL, lengths_B), texts, speculation, method, seeds)
        found = search(SearchRequest(encoded=read, **options))
        assert [one.ids for (one,) in found] == [one.ids for (one,) in plain]
        assert speculation.proposed > 0

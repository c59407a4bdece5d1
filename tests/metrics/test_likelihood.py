"""Likelihoods of text of any length against Hugging Face's strided loop, and against one token at a time."""

from __future__ import annotations

from math import exp, inf, log, log2

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.metrics.likelihood import Likelihood, log_probabilities, spans
from regard.objectives import chunked_cross_entropy

VOCABULARY, START, LONGEST = 61, 0, 24


def model(**settings: object) -> GPT:
    made = GPT(GPTConfig(width=24, heads=3, layers=2, feedforward=48, maximum_length=LONGEST, **settings), VOCABULARY)
    draw = torch.Generator().manual_seed(5)
    for parameter in made.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=draw)  # far from uniform, where mistakes hide
    return made.eval()


def text(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, VOCABULARY, length)


@torch.no_grad()
def one_by_one(gpt: GPT, ids: np.ndarray, window: int, stride: int) -> np.ndarray:
    """Each token on its own, from the inputs that its window gives it, all logits at once in float64."""
    read = torch.tensor([START, *ids])
    found = []
    for t in range(len(ids)):
        begin = 0 if t < window else stride * (1 + (t - window) // stride)
        logits = gpt(read[None, begin : t + 1])[0, -1].double()
        found.append(float(logits.log_softmax(-1)[ids[t]]))
    return np.array(found)


@torch.no_grad()
def strided_loop(theirs: torch.nn.Module, ids: np.ndarray, longest: int, stride: int) -> tuple[float, int]:
    """The loop that Hugging Face documents for fixed-length models, with as many tokens as each loss is the mean of."""
    read = torch.tensor([[START, *ids]])
    nats, tokens, before = 0.0, 0, 0
    for begin in range(0, read.shape[1], stride):
        end = min(begin + longest, read.shape[1])
        inputs = read[:, begin:end]
        labels = inputs.clone()
        labels[:, : -(end - before)] = -100
        count = int((labels[:, 1:] != -100).sum())
        nats, tokens = nats + float(theirs(inputs, labels=labels).loss) * count, tokens + count
        before = end
        if end == read.shape[1]:
            break
    return nats, tokens


@pytest.mark.parametrize("stride", [1, 7, 16, 23])
@pytest.mark.parametrize("length", [5, 23, 24, 100])
def test_perplexity_is_that_of_hugging_faces_loop(stride, length):
    from benchmarks.peers.gpt2 import gpt2

    ours = model(dropout=0.0)
    nats, tokens = strided_loop(
        gpt2(ours).eval(), text(length), LONGEST, stride
    )  # its last token is no input, so ours is one less
    scores = log_probabilities(ours, [text(length)], start=START, window=LONGEST - 1, stride=stride)
    assert tokens == length
    assert -scores[0].sum() / length == pytest.approx(nats / tokens, abs=1e-5)


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    window=st.integers(1, LONGEST),
    stride=st.integers(1, LONGEST),
    tokens_per_batch=st.integers(1, 100),
    chunk_bytes=st.sampled_from([1, 1000, 2**25]),
)
@settings(max_examples=25)
def test_every_token_is_scored_once_whatever_the_batches_and_chunks(lengths, window, stride, tokens_per_batch, chunk_bytes):
    stride, ours, texts = min(stride, window), model(), [text(length, seed) for seed, length in enumerate(lengths)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(chunked_cross_entropy.CHUNK_BYTES, "cpu", chunk_bytes)
        found = log_probabilities(ours, texts, start=START, window=window, stride=stride, tokens_per_batch=tokens_per_batch)
    for ids, scores in zip(texts, found):
        np.testing.assert_allclose(scores, one_by_one(ours, ids, window, stride), atol=2e-5)


@given(st.integers(0, 300), st.integers(1, 50), st.integers(1, 50))
def test_windows_cover_a_text_without_gap_or_overlap(length, window, stride):
    stride = min(stride, window)
    scored = [t for span in spans([length], window, stride) for t in range(span.scored, span.end)]
    assert scored == list(range(length))
    for n, span in enumerate(spans([length], window, stride)):
        assert span.end - span.begin <= window
        assert n == 0 or span.end - span.scored <= stride


def test_more_context_never_means_another_first_window():
    ours, ids = model(), text(60)
    close, apart = (log_probabilities(ours, [ids], start=START, window=20, stride=stride)[0] for stride in (5, 20))
    np.testing.assert_allclose(close[:20], apart[:20], atol=1e-6)
    assert not np.allclose(close[20:], apart[20:])


def test_dropout_is_off_while_scoring_and_on_again_after():
    learning = model(dropout=0.5).train()
    first, second = (log_probabilities(learning, [text(9)], start=START, window=8, stride=8)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert learning.training


def test_half_precision_is_summed_in_full():
    scores = log_probabilities(model().bfloat16(), [text(50)], start=START, window=20, stride=10)[0]
    assert scores.dtype == np.float32
    expected = log_probabilities(model(), [text(50)], start=START, window=20, stride=10)[0]
    assert scores.mean() == pytest.approx(expected.mean(), abs=0.1)


def test_a_memory_mapped_file_of_small_numbers_will_do(tmp_path):
    np.save(tmp_path / "ids.npy", text(50).astype(np.uint16))
    mapped = np.load(tmp_path / "ids.npy", mmap_mode="r")
    found, expected = (log_probabilities(model(), [ids], start=START, window=20, stride=10)[0] for ids in (mapped, text(50)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("window", "stride", "told"), [(8, 9, "stride of 9"), (8, 0, "stride of 0"), (40, 8, "learned positions")]
)
def test_windows_that_do_not_fit_are_told(window, stride, told):
    with pytest.raises(UserError, match=told):
        log_probabilities(model(), [text(50)], start=START, window=window, stride=stride)


def test_units():
    """A fair coin a token: one bit each, whatever the words and bytes."""
    likelihood = Likelihood.of([np.full(6, log(0.5))], ["né à Rome"])
    assert (likelihood.tokens, likelihood.bytes, likelihood.words) == (6, 11, 3)
    assert likelihood.perplexity == pytest.approx(2)
    assert likelihood.bits_per_token == pytest.approx(1)
    assert likelihood.bits_per_byte == pytest.approx(6 / 11)
    assert likelihood.word_perplexity == pytest.approx(4)
    assert log2(likelihood.as_dict()["word_perplexity"]) == pytest.approx(2)
    assert exp(likelihood.nats / 6) == pytest.approx(2)
    assert any("11 bytes" in line for line in likelihood.lines())


def test_a_text_without_spaces_is_one_word_and_no_overflow():
    assert Likelihood(nats=5000.0, tokens=1000, bytes=1000, words=1).word_perplexity == inf


def test_nothing_to_score_is_told():
    with pytest.raises(UserError, match="nothing to score"):
        Likelihood.of([np.empty(0)], ["  "])

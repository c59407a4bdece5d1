"""Smaller KV caches: a ring equals the plain cache and does not grow; 8 bits are within half a scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.decode.algorithm import CapturedGraphs
from regard.decode.compact_cache import CompactInput, CompactState, in_8_bits, ring_size
from regard.decode.config import BeamSettings, Sampling
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.model.kernels.cuda_graph import CudaRecorder
from regard.model.state.decoder import EachLayer
from regard.model.visibility import Window, causal, full
from tests.decode.models import KINDS, PAIR_KINDS, language_model, last, padded, pair_model, prompts, sources
from tests.decode.tape import TapeRecorder

WINDOWS = [kind for kind in KINDS if kind.startswith("window")]
few = settings(max_examples=15)


def found(read: Any, texts: list[list[int]], **options: Any) -> list[list[Any]]:
    return search(SearchRequest(encoded=read, sos=last(texts), eos=2, limits=[2 + 5 * n for n in range(len(texts))], **options))


@given(st.data())
@few
def test_a_ring_changes_nothing(data: st.DataObject) -> None:
    """Prompts shorter and longer than the window, texts that go round the ring several times, rows that leave."""
    model = language_model(data.draw(st.sampled_from(WINDOWS)))
    texts = prompts(data.draw(st.integers(1, 5)), seed=data.draw(st.integers(0, 99)))
    options: dict[str, Any] = {"method": Sampling(temperature=0.9), "seeds": range(2 * len(texts))}
    plain = found(model.start(*padded(texts)), texts, **options)
    ring = found(CompactInput(model.start(*padded(texts)), "window"), texts, **options)
    assert [[one.ids for one in row] for row in ring] == [[one.ids for one in row] for row in plain]
    for one, other in zip(ring, plain):
        assert one[0].token_logprobs == pytest.approx(other[0].token_logprobs, abs=1e-9)


def held(state: CompactState) -> int:
    return sum(tensor.nbytes for cache in state.caches for tensor in vars(cache).values() if isinstance(tensor, torch.Tensor))


def test_a_ring_does_not_grow() -> None:
    model, texts = language_model("window"), prompts(3, shortest=8)
    state = CompactInput(model.start(*padded(texts)), "window").make_state(3, 1, 40, fixed=False)
    state.load(CompactInput(model.start(*padded(texts)), "window"), [40] * 3)
    before, shape = held(state), state.shape
    for _ in range(40):
        state.grow(1)
        state.step(last(texts)[:, None])
    assert (held(state), state.shape) == (before, shape)
    assert before == 2 * 2 * 3 * 2 * 4 * 8 * 8  # layers, keys and values, rows, heads, slots, head width, bytes


def test_8_bits_are_a_quarter_of_float32() -> None:
    model, texts = language_model().float(), prompts(3)
    states = []
    for given_ in (model.start(*padded(texts)), CompactInput(model.start(*padded(texts)), "int8")):
        state = given_.make_state(3, 1, 32, fixed=True)
        states.append(held(state))
    assert states[1] == states[0] * (8 + 4) / (4 * 8)  # with a scale for 8 numbers; of 64, it is 0.27


@given(st.integers(0, 999), st.sampled_from([1e-30, 1e-3, 1.0, 1e4]), st.sampled_from([torch.float32, torch.float64]))
@few
def test_no_number_is_off_by_more_than_half_a_scale(seed: int, size: float, dtype: torch.dtype) -> None:
    x = torch.randn(3, 2, 5, 8, generator=torch.Generator().manual_seed(seed), dtype=dtype) * size
    x[0, 0, 0] = 0
    integers, scale = in_8_bits(x)
    assert integers.dtype == torch.int8
    torch.testing.assert_close(scale, x.abs().amax(-1, keepdim=True) / 127)
    assert ((integers * scale - x).abs() <= scale * 0.5001).all()
    assert (integers[0, 0, 0] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_logits_in_8_bits_are_close(kind: str) -> None:
    model, texts = language_model(kind), prompts(4, shortest=6)
    options: dict[str, Any] = {"method": Sampling(temperature=0.0), "forced": [prompts(1, 7, 20, 20)[0]] * 4}
    plain = found(model.start(*padded(texts)), texts, **options)
    rounded = found(CompactInput(model.start(*padded(texts)), "int8"), texts, **options)
    exact = torch.tensor([p for row in plain for p in row[0].token_logprobs])
    off = (torch.tensor([p for row in rounded for p in row[0].token_logprobs]) - exact).abs()
    assert 0 < off.max() < 0.05 * exact.abs().max()


def test_a_beam_searches_in_8_bits() -> None:
    """Lanes share slots; what is found is near what is found without rounding."""
    model, texts = language_model(), prompts(4)
    method = BeamSettings(beam=3, n_best=3)
    plain = found(model.start(*padded(texts)), texts, method=method)
    rounded = found(CompactInput(model.start(*padded(texts)), "int8"), texts, method=method)
    for one, other in zip(rounded, plain):
        assert one[0].score == pytest.approx(other[0].score, abs=0.1)
        assert [text.score for text in one] == sorted((text.score for text in one), reverse=True)


def from_sources(read: Any, count: int, **options: Any) -> list[list[Any]]:
    limits = [2 + 5 * n for n in range(count)]
    return search(SearchRequest(encoded=read, sos=1, eos=2, limits=limits, **options))


def test_a_ring_changes_nothing_of_an_encoder_decoder() -> None:
    """What is written goes round the ring several times; the source is seen whole."""
    model, texts = pair_model("window, grouped"), prompts(6, longest=14)
    options: dict[str, Any] = {"method": Sampling(temperature=0.9), "seeds": range(2 * len(texts))}
    plain = from_sources(model.start(*sources(texts)), 6, **options)
    state = (given := CompactInput(model.start(*sources(texts)), "window")).make_state(6, 1, 40, fixed=False)
    assert state.caches[0].kv_2SHNK.shape[3] == 4  # type: ignore[attr-defined]
    for one, other in zip(from_sources(given, 6, **options), plain):
        assert [text.ids for text in one] == [text.ids for text in other]
        assert one[0].token_logprobs == pytest.approx(other[0].token_logprobs, abs=1e-9)


@pytest.mark.parametrize("kind", PAIR_KINDS)
def test_sources_in_8_bits_are_close(kind: str) -> None:
    """Forced tokens, so that both see the same text; greedy search and a beam of lanes that share slots."""
    model, texts = pair_model(kind), prompts(5, shortest=6)
    for method in (Sampling(temperature=0.0), BeamSettings(beam=3)):
        options: dict[str, Any] = {"method": method, "forced": [prompts(1, 7, 20, 20)[0]] * 5}
        plain = from_sources(model.start(*sources(texts)), 5, **options)
        rounded = from_sources(CompactInput(model.start(*sources(texts)), "int8"), 5, **options)
        exact = torch.tensor([p for row in plain for p in row[0].token_logprobs])
        off = (torch.tensor([p for row in rounded for p in row[0].token_logprobs]) - exact).abs()
        assert 0 < off.max() < 0.05 * exact.abs().max()


def test_sources_in_8_bits_are_a_quarter_of_float32() -> None:
    """Also while a layer reads them: numbers come back for that layer alone."""
    model, texts = pair_model().float(), prompts(3, shortest=6)
    sizes = []
    for given_ in (model.start(*sources(texts)), CompactInput(model.start(*sources(texts)), "int8")):
        state: Any = given_.make_state(3, 1, 32, fixed=True)
        state.load(given_, [32] * 3)
        sizes.append(sum(buffer.nbytes for layer in state.memory.layers for buffer in layer.buffers))
        assert [part.k_BHMK.dtype for part in state.memories] == [torch.float32] * 2
    assert sizes[1] == sizes[0] * (8 + 4) / (4 * 8)
    assert isinstance(state.memories, EachLayer)


@pytest.mark.parametrize("kind", ["window", "int8"])
def test_steps_of_an_encoder_decoder_can_be_recorded(kind: Any) -> None:
    model, sessions, limits = pair_model("window, grouped"), CapturedGraphs(TapeRecorder()), [24, 3, 15]
    for seed in (0, 1):
        encoded = CompactInput(model.start(*sources(prompts(3, seed))), kind)
        request = SearchRequest(encoded=encoded, sos=1, eos=2, limits=limits, method=Sampling(), seeds=limits)
        plain, recorded = search(request), search(replace(request, sessions=sessions))
        assert [one.ids for (one,) in recorded] == [one.ids for (one,) in plain]
    assert len(sessions.idle) == 1


def test_how_many_tokens_a_window_sees() -> None:
    assert ring_size(causal & Window(3)) == 4
    for pattern in (causal, full, causal & (Window(2) | Window(3))):
        with pytest.raises(UserError, match=r"decode\.cache=window is for models that see a window of the last tokens"):
            ring_size(pattern)


def test_models_that_cannot_are_refused() -> None:
    model = language_model("plain", mixer="favor", position="sinusoidal")
    for kind in ("window", "int8"):
        with pytest.raises(UserError, match=r"model\.mixer=favor keeps no keys and values"):
            CompactInput(model.start(*padded(prompts(2))), kind)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="for models that see a window"):
        CompactInput(language_model().start(*padded(prompts(2))), "window")


@pytest.mark.parametrize("kind", ["window", "int8"])
@pytest.mark.parametrize("limits", [[40, 3, 25], [9, 9, 3, 33, 20]])
def test_steps_can_be_recorded(kind: Any, limits: list[int]) -> None:
    """As a CUDA graph would be: in buffers at fixed addresses, twice in one session, with rows that leave."""
    model, sessions = language_model("window, rotary"), CapturedGraphs(TapeRecorder())
    for seed in (0, 1):
        texts = prompts(len(limits), seed)
        options: dict[str, Any] = {"sos": last(texts), "eos": 2, "limits": limits, "method": Sampling(), "seeds": limits}
        request = SearchRequest(encoded=CompactInput(model.start(*padded(texts)), kind), **options)
        plain, recorded = search(request), search(replace(request, sessions=sessions))
        assert [one.ids for (one,) in recorded] == [one.ids for (one,) in plain]
    assert len(sessions.idle) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["window", "int8"])
def test_a_gpu_writes_what_a_cpu_writes(kind: Any) -> None:
    texts = prompts(6)
    found = []
    for device in ("cpu", "cuda"):
        model = language_model("window").float().to(device)
        ids_BL, lengths_B = padded(texts)
        encoded = CompactInput(model.start(ids_BL.to(device), lengths_B.to(device)), kind)
        options: dict[str, Any] = {"encoded": encoded, "sos": last(texts).to(device), "eos": 2, "limits": [20] * 6}
        found.append([one.ids for (one,) in search(SearchRequest(**options))])
        if device == "cuda":
            sessions = CapturedGraphs(CudaRecorder(torch.device(device)))
            found += [[one.ids for (one,) in search(SearchRequest(**options, sessions=sessions))] for _ in range(2)]
    assert all(one == found[0] for one in found[1:])

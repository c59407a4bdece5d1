"""Decoding steps by the kernels against the modules they stand for, on a GPU or in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from regard.decode.algorithm import sessions_on
from regard.decode.compact_cache import CompactInput
from regard.families.gpt import GPT, GPTConfig
from regard.families.llama import LLaMAConfig
from regard.families.t5 import T5Config
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.kernels import decode_step
from regard.model.probe import probe
from regard.model.state.decoder import DecoderState
from regard.model.state.protocol import RowCompaction
from tests.decode.searches import beam_search, greedy
from tests.model.kernels.interpreted import DEVICE, INTERPRETING, close, lively, needs_triton

pytestmark = needs_triton
VOCABULARY = 37
SMALL = {"width": 32, "layers": 2, "feedforward": 48}


def gpt(**parts: object) -> GPT:
    return lively(GPT(GPTConfig(**SMALL | {"heads": 2, "maximum_length": 64, **parts}), VOCABULARY, seed=3))


def llama(**parts: object) -> GPT:
    return lively(GPT(LLaMAConfig(**SMALL | {"heads": 4, "kv_heads": 2, "maximum_length": 64, **parts}), VOCABULARY, seed=5))


def transformer(**parts: object) -> Transformer:
    return lively(Transformer(TransformerConfig(**SMALL | {"heads": 2, **parts}), VOCABULARY, VOCABULARY, seed=4))


def t5(**parts: object) -> Transformer:
    config = T5Config(**SMALL | {"heads": 2, "head_width": 24, "buckets": 8, "farthest": 12, "dropout": 0.0, **parts})
    return lively(Transformer(config, VOCABULARY, VOCABULARY, seed=6))


QWEN3 = {"qk_norm": True, "qkv_bias": False, "head_width": 12, "tie": "output"}
GATED = {"feedforward_kind": "gated", "activation": "gelu_tanh"}


MODELS = {
    "gpt-2": gpt,
    "gpt-1": partial(gpt, norm_placement="post", activation="gelu"),
    "a window": partial(gpt, visibility="window(3)"),
    "transformer": transformer,
    "pre-norm transformer": partial(transformer, norm_placement="pre", tie="none"),
    "llama": llama,
    "qwen2": partial(llama, qkv_bias=True, kv_heads=1),
    "qwen3": partial(llama, **QWEN3),
    "t5": t5,
    "t5 1.1": partial(t5, **GATED, tie="inputs", scaled_head=False),
    "bart": partial(transformer, position="learned", activation="gelu", embedding_norm=True, head_bias=True),
    "alibi": partial(gpt, position="alibi"),
    "shared memory heads": partial(transformer, heads=4, kv_heads=2, qk_norm=True),
}


def inputs(model: nn.Module, ids_SW: Tensor, past: DecoderState) -> tuple[object, ...]:
    embed = model.embed if isinstance(model, GPT) else model.target
    return embed(ids_SW, past.positions_SW), past.view(model.visibility), past.memories, past.memory_view, past.caches


def by_modules(model: nn.Module, ids_SW: Tensor, past: DecoderState) -> Tensor:
    return model.head(model.decoder(*inputs(model, ids_SW, past)))


def by_kernels(model: nn.Module, ids_SW: Tensor, past: DecoderState) -> Tensor:
    return decode_step.fused(model.decoder, model.head, *inputs(model, ids_SW, past))


def by_either(model: nn.Module, ids_SW: Tensor, past: DecoderState) -> Tensor:
    return decode_step.logits(model.decoder, model.head, *inputs(model, ids_SW, past))


def states(
    model: nn.Module, lanes: int, steps: int, fast: Callable[..., Tensor] = by_kernels
) -> tuple[DecoderState, DecoderState]:
    """One that the modules advance, and one that the kernels do."""
    words, lengths = torch.randint(4, VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(0)), torch.tensor([9, 1, 4])
    found = []
    for steps_by in (by_modules, fast):
        read = model.start(words.to(DEVICE), lengths.to(DEVICE))
        past = read.make_state(4, lanes, steps, fixed=True)  # and one place holds nothing
        past.load(read, [steps] * 3)
        past.model = type("Steps", (), {"step": staticmethod(partial(steps_by, model))})
        found.append(past)
    return found[0], found[1]


@pytest.mark.parametrize(("name", "lanes"), zip(MODELS, [1, 3, 2, 3, 1, 1, 3, 2, 1, 3, 2, 1, 2]))
def test_steps_are_those_of_the_modules(name: str, lanes: int) -> None:
    """Lanes that split and die, and sentences that leave: after each step both give the same logits."""
    model, draw, steps = MODELS[name]().to(DEVICE), torch.Generator().manual_seed(7), 3 if INTERPRETING else 30
    plain, fast = states(model, lanes, steps)
    sentences = 4
    for t in range(steps):
        ids = torch.randint(4, VOCABULARY, (sentences, lanes), generator=draw).to(DEVICE)
        parents = torch.randint(0, lanes, (sentences, lanes), generator=draw).to(DEVICE)
        logits = []
        for state in (plain, fast):
            if t:
                state.select(parents)
            state.grow(1)
            logits.append(state.step(ids))
        close(logits[1], logits[0])
        if t in (0, 1):
            kept = [[3, 2, 1], [1]][t]
            sentences = len(kept)
            for state in (plain, fast):
                state.compact(RowCompaction.of(kept, DEVICE))


def test_a_ring_of_slots_that_is_written_over_and_over() -> None:
    model = gpt(visibility="window(3)", position="rotary").to(DEVICE)
    words, states = torch.randint(4, VOCABULARY, (2, 5), generator=torch.Generator().manual_seed(0)), []
    for steps_by in (by_modules, by_kernels):
        read = CompactInput(model.start(words.to(DEVICE), torch.tensor([5, 2], device=DEVICE)), "window")
        past = read.make_state(2, 1, 9, fixed=True)
        past.load(read, [9, 9])
        past.model = type("Steps", (), {"step": staticmethod(partial(steps_by, model))})
        states.append(past)
    for t in range(9):
        ids = torch.tensor([[4 + t], [20 - t]], device=DEVICE)
        for state in states:
            state.grow(1)
        close(states[1].step(ids), states[0].step(ids))


@pytest.mark.parametrize("name", ["gpt-2", "transformer"])
def test_either_way_logits_are_the_same(name: str) -> None:
    plain, fast = states(MODELS[name]().to(DEVICE), 2, 3, by_either)
    for t in range(3):
        ids = torch.full((4, 2), 4 + t, device=DEVICE)
        for state in (plain, fast):
            state.grow(1)
        close(fast.step(ids), plain.step(ids))


def test_the_modules_step_where_kernels_would_not_serve() -> None:
    model = gpt().to(DEVICE)
    x_SWD = torch.zeros(1, 1, 32, device=DEVICE)
    assert decode_step.suits(model.decoder, model.head, x_SWD) is not INTERPRETING
    assert not decode_step.suits(model.decoder, model.head, x_SWD.expand(257, 1, 32))
    assert not decode_step.suits(model.decoder, model.head, x_SWD.bfloat16())
    assert not decode_step.suits(gpt(width=24).to(DEVICE).decoder, model.head, x_SWD[..., :24])  # not a multiple of 16
    other = gpt(position="transformer-xl").to(DEVICE)  # whose bias reads the query
    assert not decode_step.suits(other.decoder, other.head, x_SWD)
    with probe(model):
        assert not decode_step.suits(model.decoder, model.head, x_SWD)
    with torch.enable_grad():
        assert not decode_step.suits(model.decoder, model.head, x_SWD)
    with torch.autocast("cuda", torch.bfloat16, enabled=not INTERPRETING):
        assert not decode_step.suits(model.decoder, model.head, x_SWD)
    assert not decode_step.suits(model.train().decoder, model.head, x_SWD)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_half_precision_stays_near(name: str) -> None:
    model = MODELS[name]().to(DEVICE)
    half = MODELS[name]().to(DEVICE).bfloat16()
    (plain, _), (_, fast) = states(model, 2, 20), states(half, 2, 20)
    for t in range(20):
        ids = torch.full((4, 2), 4 + t, device=DEVICE)
        for state in (plain, fast):
            state.grow(1)
        close(fast.step(ids), plain.step(ids), torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("beam", [0, 4])
@pytest.mark.parametrize("name", MODELS)
def test_searches_find_the_same(name: str, beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded as CUDA graphs, and replayed for a second batch."""
    model = MODELS[name]().to(DEVICE)
    found = []
    for steps_by in (by_modules, by_kernels):
        monkeypatch.setattr(model, "step", partial(steps_by, model))
        sessions = sessions_on(DEVICE)
        for seed in (0, 1):
            words = torch.randint(4, VOCABULARY, (5, 9), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
            read = model.start(words, torch.tensor([9, 1, 4, 7, 2], device=DEVICE))
            rules = dict(sos=1, eos=2, limits=[40] * 5, sessions=sessions)
            texts = beam_search(read, beam=beam, alpha=0.6, **rules) if beam else [[one] for one in greedy(read, **rules)]
            found.append([[one.ids for one in some] for some in texts])
    assert found[:2] == found[2:]

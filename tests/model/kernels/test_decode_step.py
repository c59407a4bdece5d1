"""The step's own kernels against the modules they stand for, on a GPU or in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.decode.algorithm import sessions_on
from regard.decode.candidates import Candidates, Constraints
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.kernels import decode_step
from regard.model.layers import ACTIVATIONS
from regard.model.mixers.softmax import Softmax
from regard.model.probe import probe
from regard.model.state.decoder import DecoderState
from regard.model.state.protocol import RowCompaction
from tests.decode.searches import beam_search, greedy

if decode_step.HAS_TRITON:
    from regard.model.kernels import argmax as picking
    from regard.model.kernels.attention import attend_memory, attend_own
    from regard.model.kernels.linear import Pending, add_norm, product

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
RUNS = decode_step.HAS_TRITON and (INTERPRETING or torch.cuda.is_available())
pytestmark = pytest.mark.skipif(not RUNS, reason="needs Triton, and a CUDA device or TRITON_INTERPRET=1")
DEVICE = torch.device("cpu" if INTERPRETING else "cuda")
EXAMPLES = 10 if INTERPRETING else 100
VOCABULARY = 37
HALF = [] if INTERPRETING else [torch.bfloat16, torch.float16]  # the interpreter's bf16 is not right
SIZES = st.integers(1, 70)


@pytest.fixture(autouse=True, scope="module")
def _numpy_scalars() -> Iterator[None]:
    """The interpreter takes loop bounds from arrays of one number, which numpy 2.4 no longer turns into one."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def with_index(tensor: type, scope: object) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = with_index
    yield
    interpreter._patch_lang_tensor = patch


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def close(found: Tensor, exact: Tensor, dtype: torch.dtype = torch.float32) -> None:
    """Relative to the whole, as rounding is."""
    assert found.isfinite().all()
    assert (found.double() - exact.double()).norm() <= (1e-5 if dtype == torch.float32 else 2e-2) * exact.double().norm() + 1e-30


def lively(module: nn.Module) -> nn.Module:
    """Norms that scale and shift, biases that are not zero."""
    for n, parameter in enumerate(module.parameters()):
        if parameter.dim() == 1:
            parameter.data += 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(n))
    return module.eval()


def normed(width: int, on: bool) -> nn.LayerNorm | None:
    return lively(nn.LayerNorm(width)).to(DEVICE) if on else None


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(rows=SIZES, width=SIZES, adds=st.booleans())
def test_sums_and_their_norms(dtype: torch.dtype, rows: int, width: int, adds: bool) -> None:
    torch.manual_seed(rows + width)
    x_RD, y_RD = (torch.randn(2, rows, width) * 3 + 10).to(DEVICE, dtype)
    norm = lively(nn.LayerNorm(width)).to(DEVICE, dtype)
    sum_RD, normed_RD = add_norm(x_RD, y_RD if adds else None, norm)
    exact_RD = x_RD.double() + (y_RD.double() if adds else 0)
    close(sum_RD, exact_RD, dtype)
    close(normed_RD, norm.double()(sum_RD.double()), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(outputs=SIZES, inputs=st.sampled_from([16, 48, 160]), data=st.data())
def test_products_with_all_that_stands_around_them(dtype: torch.dtype, outputs: int, inputs: int, data: st.DataObject):
    flag = st.booleans()
    activation = data.draw(st.sampled_from([None, *ACTIVATIONS]))
    check_product(dtype, outputs, inputs, activation, data.draw(flag), data.draw(flag), data.draw(flag), data.draw(flag))


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_products_of_several_tiles(dtype: torch.dtype) -> None:
    check_product(dtype, 140, 1040, "gelu", True, True, True, True)


def check_product(
    dtype: torch.dtype,
    outputs: int,
    inputs: int,
    activation: str | None,
    bias: bool,
    norm: bool,
    adds: bool,
    late: bool,
) -> None:
    torch.manual_seed(outputs)
    linear = nn.Linear(inputs, outputs, bias=bias).to(DEVICE)
    x = (3 * torch.randn(1, inputs) + 10).to(DEVICE)
    residual = (torch.randn(1, outputs) - 5).to(DEVICE) if adds else None
    norms = (normed(inputs, norm), normed(outputs, late))
    parts = [linear, *(norm for norm in norms if norm is not None)]
    x, residual = x.to(dtype), None if residual is None else residual.to(dtype)
    for part in parts:
        part.to(dtype)
    found = product(Pending(x, norms[0]), linear, activation, None if residual is None else Pending(residual, norms[1]))
    for part in parts:
        part.double()
    exact = linear(x.double() if norms[0] is None else norms[0](x.double()))
    exact = exact if activation is None else ACTIVATIONS[activation](exact)
    if residual is not None:
        exact = exact + (residual.double() if norms[1] is None else norms[1](residual.double()))
    assert found.dtype == dtype
    close(found, exact, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@settings(max_examples=EXAMPLES)
@given(
    sentences=st.integers(1, 3),
    lanes=st.integers(1, 4),
    heads=st.integers(1, 3),
    head_width=st.sampled_from([8, 24, 64]),
    written=st.integers(0, 300),
    seed=st.integers(0, 99),
)
def test_own_attention(dtype: torch.dtype, sentences: int, lanes: int, heads: int, head_width: int, written: int, seed: int):
    """Slots not written yet hold no numbers, and some of those that were are hidden. The caches must end up the same."""
    draw, slots, room = torch.Generator().manual_seed(seed), written + 2 * lanes, written + 3 * lanes
    cache = torch.randn(2, sentences + 1, heads, room, head_width, generator=draw).to(DEVICE, dtype)
    cache[:, :, :, written:] = torch.nan
    kv_2SHNK = cache[:, :sentences, :, :slots]
    qkv_RE = torch.randn(sentences * lanes, 3 * heads * head_width, generator=draw).to(DEVICE, dtype)
    sees_SWN = torch.rand(sentences, lanes, slots, generator=draw) < 0.6
    sees_SWN[:, :, written:] = False
    sees_SWN[:, :, written : written + lanes] = torch.eye(lanes, dtype=torch.bool)
    mask_S1WN = torch.zeros(sees_SWN.shape).masked_fill(~sees_SWN, -torch.inf)[:, None].to(DEVICE, dtype)
    slots_W = torch.arange(written, written + lanes, device=DEVICE)

    q_SHWK, k_SHWK, v_SHWK = qkv_RE.unflatten(0, (sentences, lanes)).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    expected = kv_2SHNK.clone()
    expected[:, :, :, written : written + lanes] = torch.stack([k_SHWK, v_SHWK])
    known = expected[:, :, :, : written + lanes].double()
    weights = Softmax().weights(q_SHWK.double(), known[0], sees_SWN[:, None, :, : written + lanes].to(DEVICE))
    found = attend_own(qkv_RE, mask_S1WN, kv_2SHNK, slots_W)
    close(found, (weights @ known[1]).transpose(1, 2).flatten(2).flatten(0, 1), dtype)
    assert kv_2SHNK.equal(expected) if written + lanes == slots else torch.equal(kv_2SHNK.nan_to_num(7), expected.nan_to_num(7))


@settings(max_examples=EXAMPLES)
@given(lengths=st.lists(st.integers(0, 150), min_size=1, max_size=3), lanes=st.integers(1, 3), seed=st.integers(0, 99))
def test_attention_to_a_memory(lengths: list[int], lanes: int, seed: int) -> None:
    """Who sees nobody answers with zeros."""
    draw, memory = torch.Generator().manual_seed(seed), max(1, *lengths)
    kv = torch.randn(2, len(lengths), 2, memory, 12, generator=draw).to(DEVICE)
    q_RD = torch.randn(len(lengths) * lanes, 24, generator=draw).to(DEVICE)
    sees_S11M = (torch.arange(memory) < torch.tensor(lengths)[:, None])[:, None, None].to(DEVICE)
    mask = torch.zeros(sees_S11M.shape, device=DEVICE).masked_fill(~sees_S11M, -torch.inf)
    q_SHWK = q_RD.unflatten(0, (-1, lanes)).unflatten(2, (2, 12)).transpose(1, 2)
    weights = Softmax().weights(q_SHWK.double(), kv[0].double(), sees_S11M)
    found = attend_memory(q_RD, mask, kv[0], kv[1])
    close(found, (weights @ kv[1].double()).transpose(1, 2).flatten(2).flatten(0, 1))


LOGITS = st.one_of(st.floats(-60, 60, width=16), st.sampled_from([float("-inf"), 0.0, 1.0]))


@settings(max_examples=3 * EXAMPLES)
@given(
    rows=st.lists(st.lists(LOGITS, min_size=37, max_size=37), min_size=1, max_size=3),
    spoilt=st.sampled_from([None, float("nan"), float("inf")]),
    banned=st.sets(st.integers(0, 36), max_size=8),
    taken=st.integers(0, 3),
)
def test_picking(rows: list[list[float]], spoilt: float | None, banned: set[int], taken: int) -> None:
    logits = torch.tensor(rows, device=DEVICE)
    logits[0, :30] = -torch.inf if spoilt is None else logits[0, :30]
    logits[-1, 20] = logits[-1, 20] if spoilt is None else spoilt
    constraints, step_1 = Constraints(5, 2, tuple(banned)), torch.tensor([taken], device=DEVICE)
    expected = Candidates(constraints, DEVICE, fixed=True).best(logits, 1, step_1)
    banned_V = torch.zeros(37, dtype=torch.bool).index_fill(0, torch.tensor(sorted(banned), dtype=torch.long), True).to(DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picking, "BLOCK", 16)  # several tiles, the last not full
        found = picking.pick(logits, banned_V if banned else None, 5, 2, step_1)
    assert found.broken_B.equal(expected.broken_B)
    whole = ~expected.broken_B & (logits > -torch.inf).any(1)  # of an empty row no token means anything
    assert found.token_B1[whole].equal(expected.token_BK[whole])
    torch.testing.assert_close(found.logprob_B1[~expected.broken_B], expected.logprob_BK[~expected.broken_B])
    assert ((found.token_B1 >= 0) & (found.token_B1 < 37)).all()


def test_of_equals_and_of_nothing_the_first_is_picked() -> None:
    logits = torch.zeros(3, 20_000, device=DEVICE)
    logits[1] = -torch.inf
    logits[2, 11_000:] = 7
    found = picking.pick(logits, None, 0, 1, torch.zeros(1, dtype=torch.long, device=DEVICE))
    assert found.token_B1.tolist() == [[1], [0], [11_000]]
    assert found.logprob_B1[1].isneginf()


def gpt(**parts: object) -> GPT:
    return lively(
        GPT(GPTConfig(heads=2, layers=2, feedforward=48, maximum_length=64, **{"width": 32, **parts}), VOCABULARY, seed=3)
    )


def transformer(**parts: object) -> Transformer:
    config = TransformerConfig(width=32, heads=2, layers=2, feedforward=48, **parts)
    return lively(Transformer(config, VOCABULARY, VOCABULARY, seed=4))


MODELS = {
    "gpt-2": gpt,
    "gpt-1": partial(gpt, norm_placement="post", activation="gelu"),
    "a window": partial(gpt, visibility="window(3)"),
    "transformer": transformer,
    "pre-norm transformer": partial(transformer, norm_placement="pre", tie="none"),
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


@pytest.mark.parametrize(("name", "lanes"), zip(MODELS, [1, 3, 2, 3, 1]))
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


def test_references_are_what_torch_says() -> None:
    """What these tests compare with, once, against torch's own attention."""
    q, k, v = torch.randn(3, 2, 3, 5, 8).unbind()
    sees = torch.rand(2, 1, 5, 5) < 0.9
    sees[..., 0] = True
    torch.testing.assert_close(Softmax().weights(q, k, sees) @ v, F.scaled_dot_product_attention(q, k, v, attn_mask=sees))

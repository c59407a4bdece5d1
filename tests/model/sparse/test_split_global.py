"""Wide blocks shared out against all pairs, both ways: on a CPU, where a dense kernel stands in for FlexAttention."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from regard.model import visibility
from regard.model.mixers.softmax import Softmax
from regard.model.sparse import dispatch, flex
from regard.model.sparse import split_global as patterns_wide
from regard.model.sparse import split_global as sharing
from regard.model.sparse.blocks import between_blocks, block_mask
from regard.model.sparse.dispatch import choose
from regard.model.sparse.split_global import SplitGlobal, wide_of
from regard.model.visibility import Visibility, causal, full, padding, window
from regard.model.visibility.bigbird import bigbird
from regard.model.visibility.mask import dense
from regard.model.visibility.parse import parse_visibility
from regard.model.visibility.patterns import Global, Last
from tests.decode.tape import TapeRecorder

CPU = torch.device("cpu")
HEADS, WIDTH = 2, 4


def laid(pattern: Visibility, length: int, size: int, chunk: int, batch: int) -> tuple[SplitGlobal, BlockMask]:
    """As on a GPU; `chunk` in blocks."""
    some, every = between_blocks(pattern, length, length, size, batch=batch, offset=0, device=CPU)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(patterns_wide, "TILE", 2 * size)  # as many blocks as on a GPU, where they are eight times as large
        wide = wide_of(pattern, length, size, batch=batch, device=CPU, chunk=chunk * size)
    assert wide is not None
    return wide, block_mask(pattern, some, every, (length, length), size, 0, wide)


def listed(number: Tensor, which: Tensor) -> Tensor:
    """True for the blocks that are listed."""
    places = torch.arange(which.shape[-1]).expand_as(which)
    return torch.zeros_like(which).scatter(-1, which.long(), (places < number[..., None]).to(which.dtype)) > 0


def seen(mask: BlockMask, batch: int) -> Tensor:
    """sees_B1EE, as FlexAttention reads a map: pairs of partial blocks are asked about, of whole ones not, others do not see."""
    size, (queries, keys) = mask.BLOCK_SIZE[0], mask.seq_lengths
    whole, partly = listed(mask.full_kv_num_blocks, mask.full_kv_indices), listed(mask.kv_num_blocks, mask.kv_indices)
    whole, partly = (part.repeat_interleave(size, -1).repeat_interleave(size, -2) for part in (whole, partly))
    b = torch.arange(batch)[:, None, None, None]
    inside = mask.mask_mod(b, torch.zeros_like(b), torch.arange(queries).int()[:, None], torch.arange(keys).int())
    return whole | (partly & inside)


def stand_in(q: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> tuple[Tensor, Tensor]:
    """As FlexAttention answers: who sees nobody gets zeros, and a sum of nothing."""
    blind = ~sees.any(-1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~(sees | blind[..., None]), -torch.inf)
    context, lse = scores.softmax(-1) @ v, scores.logsumexp(-1)
    return context.masked_fill(blind[..., None], 0.0), lse.masked_fill(blind, -torch.inf)


def shared_out(q: Tensor, k: Tensor, v: Tensor, wide: SplitGlobal, sees: Tensor) -> Tensor:
    return sharing.mix(q, k, v, wide, partial(stand_in, sees=sees))


def assert_equal_to_all_pairs(
    pattern: Visibility,
    length: int,
    size: int,
    chunk: int,
    batch: int = 1,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    run: Callable[..., Tensor] = shared_out,
) -> None:
    pattern = pattern.with_length(length if pattern.lengths_B is None else pattern.lengths_B)
    wide, mask = laid(pattern, length, size, chunk, batch)
    draw = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(batch, HEADS, length, WIDTH, generator=draw).to(dtype).requires_grad_() for _ in range(3)]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    sees = dense(pattern, torch.arange(length), length, batch=batch).expand(batch, HEADS, length, length)
    reference = Softmax().weights(exact[0], exact[1], sees) @ exact[2]
    found = run(*inputs, wide, seen(mask, batch))
    weight = torch.randn(found.shape, generator=draw)
    gradients = torch.autograd.grad((found * weight.to(dtype)).sum(), inputs)
    expected = torch.autograd.grad((reference * weight.double()).sum(), exact)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for ours, theirs in zip((found, *gradients), (reference, *expected)):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, atol=tolerance, rtol=tolerance)


TEXTS = [
    "bigbird(4)",
    "bigbird(4, 5, 4, 1)",
    "bigbird(4, 3, 1)",
    "longformer(6, 2)",
    "longformer(6, 9)",
    "bigbird(2)",
    "bigbird(8)",
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("length", [1, 4, 8, 63, 64, 65, 101])
@pytest.mark.parametrize("text", TEXTS)
def test_shared_out_equals_all_pairs(text, length, dtype):
    assert_equal_to_all_pairs(parse_visibility(text), length, 4, 3, batch=2, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("text", TEXTS)
def test_each_text_of_a_padded_batch_has_its_own_last_block(text, dtype):
    lengths = torch.tensor([70, 3, 4, 8, 5, 1, 41])  # shorter than a block, one block, two, and some that end within one
    for padded in (parse_visibility(text) & padding(lengths), padding(lengths) & parse_visibility(text)):
        assert_equal_to_all_pairs(padded, 70, 4, 3, batch=7, dtype=dtype)


@settings(max_examples=25)
@given(
    st.sampled_from([*TEXTS, "global(3) | window(2)", "last(4) | window(1)", "last(3, 2) | block(3)", "global(4) | last(4, 3)"]),
    st.integers(1, 80),
    st.lists(st.integers(1, 80), min_size=1, max_size=3),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.integers(1, 6),
    st.booleans(),
    st.integers(0, 9),
)
def test_any_sizes_equal_all_pairs(text, length, lengths, size, chunk, padded, seed):
    pattern = parse_visibility(text)
    if padded:
        pattern = pattern & padding(torch.tensor(lengths).clamp(max=length))
    assert_equal_to_all_pairs(pattern, length, size, chunk, batch=len(lengths), seed=seed)


class Named(visibility.Window):
    """A window that calls blocks wide which are not, one of them twice, and some that are not there."""

    def wide(self, b_B1: Tensor, size: int) -> Tensor:
        return b_B1 * 0 + torch.tensor([5, 2, 5, -3, 900])


def test_which_blocks_are_wide_changes_no_answer():
    assert_equal_to_all_pairs(Named(3), 50, 4, 2, batch=2)


def test_who_sees_nobody_answers_zero_and_learns_nothing():
    pattern = Named(3) & padding(torch.tensor([50, 4]))
    assert_equal_to_all_pairs(pattern, 50, 4, 3, batch=2)
    wide, mask = laid(pattern, 50, 4, 3, 2)
    q, k, v = (torch.randn(2, HEADS, 50, WIDTH, requires_grad=True) for _ in range(3))
    context = sharing.mix(q, k, v, wide, partial(stand_in, sees=seen(mask, 2)))
    assert context[1, :, 7:].eq(0).all()  # in narrow blocks and in wide ones
    assert torch.autograd.grad(context.sum(), q)[0][1, :, 7:].eq(0).all()


# --------------------------------------------------------------------------------------------------------------------- maps
@pytest.mark.parametrize("padded", [False, True])
def test_no_row_and_no_column_grows_with_the_text(padded):
    longest = []
    for length in (1024, 4096):
        lengths = torch.tensor([length, length // 2 + 1])
        pattern = (bigbird(8) & (padding(lengths) if padded else full)).with_length(lengths if padded else length)
        _, mask = laid(pattern, length, 8, 32, 2)
        rows = mask.kv_num_blocks + mask.full_kv_num_blocks
        columns = mask.q_num_blocks + mask.full_q_num_blocks
        longest.append((int(rows.max()), int(columns.max())))
        some, _ = between_blocks(pattern, length, length, 8, batch=2, offset=0, device=CPU)
        assert int(rows.sum()) == int(some.sum())  # not one block is computed twice, or left out
        assert int(some.sum(-1).max()) == length // 8  # before, the longest was the whole text
    assert longest == [(32, 32), (32, 32)]


def test_what_is_seen_whole_stays_so():
    """Only a text's last block is asked about pair by pair, where it ends within, and none is listed twice."""
    _, mask = laid(bigbird(8).with_length(256), 256, 8, 4, 1)
    assert int(mask.kv_num_blocks.sum()) == 0
    _, mask = laid(bigbird(8).with_length(255), 255, 8, 4, 1)
    assert int(mask.kv_num_blocks.sum()) == 32  # each block of queries sees the last one once
    assert not (listed(mask.kv_num_blocks, mask.kv_indices) & listed(mask.full_kv_num_blocks, mask.full_kv_indices)).any()


def test_the_only_block_of_a_short_text_is_wide_once():
    pattern = (bigbird(4) & padding(torch.tensor([40, 3, 8]))).with_length(torch.tensor([40, 3, 8]))
    wide = wide_of(pattern, 40, 4, batch=3, device=CPU, chunk=8)
    assert wide is not None
    assert wide.numbers_BW[:, :2].tolist() == [[0, 9], [0, -1], [0, 1]]
    assert wide.numbers_BW[:, 2:].eq(-1).all()


def test_lengths_with_copies_are_multiples_of_a_tile():
    for text, size in (("bigbird(64)", 64), ("bigbird(64, 3, 1)", 64), ("longformer(512)", 128), ("bigbird(32)", 128)):
        for length in (8192, 8193, 10_000):
            wide = wide_of(parse_visibility(text).with_length(length), length, size, batch=1, device=CPU)
            assert wide is not None
            assert wide.tokens % 128 == 0
            assert wide.tokens < 1.2 * (length + 2048)


# ---------------------------------------------------------------------------------------------------------------- who decides
def test_who_has_wide_blocks():
    b = torch.zeros(1, 1, dtype=torch.long)
    lengths = torch.tensor([640])
    assert bigbird(64).with_length(640).wide(b, 64).tolist() == [[0, 9]]
    assert Global(65).wide(b, 64).tolist() == [[0, 1]]
    assert (bigbird(64) & padding(lengths)).with_length(lengths).wide(b, 64).tolist() == [[0, 9]]
    assert (padding(lengths) & bigbird(64)).with_length(lengths).wide(b, 64).tolist() == [[0, 9]]
    assert (padding(lengths) & (window(3) & bigbird(64))).with_length(lengths).wide(b, 64) is None
    everything = visibility.given(torch.ones(1, 640, 640, dtype=torch.bool))
    others = (causal & bigbird(64), window(64), parse_visibility("bigbird-fixed(64)"), bigbird(64) & everything)
    for pattern in (*others, parse_visibility("bigbird-fixed(64) | global(64)"), Last(64) & causal, full, causal):
        assert pattern.with_length(640).wide(b, 64) is None


def test_only_long_texts_on_a_gpu_are_shared_out(monkeypatch):
    pattern = bigbird(64)
    assert choose(pattern, 8192, 8192, 0, "cuda").shared
    assert choose(parse_visibility("longformer(512)"), 8192, 8192, 0, "cuda").shared
    for length, memory, offset, device in ((8191, 8191, 0, "cuda"), (8192, 8192, 0, "cpu"), (8192, 9000, 808, "cuda")):
        assert not choose(pattern, length, memory, offset, device).shared
    for other in (causal & bigbird(64), window(192), parse_visibility("bigbird-fixed(64)")):
        assert not choose(other, 8192, 8192, 0, "cuda").shared
    monkeypatch.setattr(dispatch, "LONG", 100_000)
    assert not choose(pattern, 8192, 8192, 0, "cuda").shared


# ----------------------------------------------------------------------------------------------------------------- recording
def test_a_step_can_be_recorded_and_repeated_for_other_lengths():
    tokens, lengths = 60, torch.tensor([60, 31])
    inputs = [torch.randn(2, HEADS, tokens, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    found = [torch.empty_like(part) for part in (inputs[0], *inputs)]

    def step() -> None:
        wide, mask = laid((bigbird(4) & padding(lengths)).with_length(lengths), tokens, 4, 3, 2)
        context = sharing.mix(*inputs, wide, partial(stand_in, sees=seen(mask, 2)))
        for buffer, answer in zip(found, (context, *torch.autograd.grad(context.square().sum(), inputs))):
            buffer.copy_(answer.detach())

    replay = TapeRecorder().record(step)
    for shorter in (17, 3):
        lengths[1] = shorter
        step()
        expected = [buffer.clone() for buffer in found]
        for buffer in found:
            buffer.zero_()
        with torch.no_grad():
            replay()
        for buffer, answer in zip(found, expected):
            torch.testing.assert_close(buffer, answer)


def counted_graphs() -> tuple[list[object], Callable[..., object]]:
    """A compiler that notes each graph it is given, and leaves it as it is."""
    torch._dynamo.reset()
    graphs: list[object] = []

    def compiler(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    return graphs, compiler


@pytest.mark.slow
def test_compiled_for_changing_lengths_it_answers_the_same():
    """Of texts that fill their chunks, and of those that do not."""
    graphs, compiler = counted_graphs()
    compiled = torch.compile(shared_out, fullgraph=True, backend=compiler)
    for tokens in (60, 72, 80, 96, 101, 120, 133, 144):
        wide, mask = laid(bigbird(4).with_length(tokens), tokens, 4, 3, 1)
        inputs = (*(torch.randn(2, HEADS, tokens, WIDTH, dtype=torch.float64) for _ in range(3)), wide, seen(mask, 1))
        torch.testing.assert_close(compiled(*inputs), shared_out(*inputs))
    assert len(graphs) <= 4


@pytest.mark.slow
def test_compiled_it_learns_the_same():
    """As a GPU traces it, for one length and then for all; here another kernel stands in for FlexAttention."""
    torch._dynamo.reset()
    compiled = torch.compile(shared_out, fullgraph=True, backend="aot_eager")
    for lengths in ([48, 48], [53, 30]):
        pattern = bigbird(4) & padding(torch.tensor(lengths))
        assert_equal_to_all_pairs(pattern, max(lengths), 4, 3, batch=2, dtype=torch.float32, run=compiled)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_changing_lengths_need_few_graphs(shared):
    """What a GPU compiles, with FlexAttention inside, is only traced here: one length, and then all, or two kinds of them."""
    graphs, compiler = counted_graphs()
    traced = torch.compile(flex.attend, fullgraph=True, backend=compiler)
    for tokens in (512, 640, 700, 768, 900, 1024, 1100):
        pattern = bigbird(64).with_length(tokens)
        some, every = between_blocks(pattern, tokens, tokens, 64, batch=1, offset=0, device=CPU)
        wide = wide_of(pattern, tokens, 64, batch=1, device=CPU, chunk=256) if shared else None
        mask = block_mask(pattern, some, every, (tokens, tokens), 64, 0, wide)
        q, k, v = (torch.randn(2, 1, tokens, 16) for _ in range(3))
        with torch.no_grad():
            traced(q, k, v, None, mask, wide, {"IS_DIVISIBLE": True} if shared or tokens % 128 == 0 else {})
    assert len(graphs) == (2 if shared else 3)


@pytest.mark.parametrize(
    ("queries", "keys", "learns", "alone"),
    [(4096, 4096, True, True), (8192, 4096, True, True), (4096, 4096, False, False), (4096, 5000, True, False)],
)
def test_what_is_compiled_alone(queries, keys, learns, alone):
    """Windows that are trained on; what answers has batches of any size, and texts have any length."""
    q = torch.empty(1, 1, queries, 1, requires_grad=learns)
    assert flex.is_window(q, torch.empty(1, 1, keys, 1)) == alone

"""Attention by blocks on a CPU against all pairs: every pattern, both ways, also where memory was never written."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.measure import peak_bytes
from regard.model.block import BlockConfig
from regard.model.mixers.softmax import Softmax
from regard.model.probe import probe
from regard.model.sparse import cpu as blocked
from regard.model.sparse import dispatch
from regard.model.sparse.blocks import blocks_of
from regard.model.sparse.dispatch import choose, describe
from regard.model.stack import Stack
from regard.model.visibility import Visibility, causal, documents, full, padding, window
from regard.model.visibility.mask import View
from regard.model.visibility.parse import parse_visibility

CPU = torch.device("cpu")
HEADS, WIDTH = 2, 8
PATTERNS = [
    "window(5)",
    "block(8, 1)",
    "strided(3, 4)",
    "global(3) | window(2)",
    "random(2, 1, 8) | block(8)",
    "last(8) | window(3)",
    "longformer(12, 2)",
    "bigbird(8)",
    "bigbird(4, 5, 3, 2)",
    "bigbird-fixed(8, 1)",
    "sparse-transformer-strided(16, 8)",
    "sparse-transformer(16, 4)",
    "image-local-1d(8, 4)",
    "image-local-2d(8, 2, 4, 1, 1)",
]


def over(pattern: Visibility, length: int, memory: int, batch: int, size: int, offset: int = 0) -> View:
    """By blocks of this size, however short."""
    pattern = pattern.with_length(memory if pattern.lengths_B is None else pattern.lengths_B)
    blocks = blocks_of(pattern, length, memory, size, batch=batch, offset=offset, device=CPU)
    return View(pattern, batch, length, memory, offset, CPU, blocks=blocks)


def assert_equal_to_all_pairs(view: View, dtype: torch.dtype = torch.float32, tolerance: float = 1e-5) -> None:
    """Values and gradients, against the explicit form in doubles."""
    draw = torch.Generator().manual_seed(0)
    shapes = [(view.batch, HEADS, n, WIDTH) for n in (view.length, view.memory, view.memory)]
    q, k, v = (torch.randn(shape, generator=draw).to(dtype).requires_grad_() for shape in shapes)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    sees = view.rows(torch.arange(view.length)).expand(view.batch, HEADS, view.length, view.memory)
    reference = Softmax().weights(exact[0], exact[1], sees) @ exact[2]
    found = Softmax().mix(q, k, v, view)
    with torch.no_grad():
        torch.testing.assert_close(Softmax().mix(q, k, v, view).double(), reference, atol=tolerance, rtol=tolerance)
    weight = torch.randn(found.shape, generator=draw)
    gradients = torch.autograd.grad((found * weight.to(dtype)).sum(), (q, k, v))
    expected = torch.autograd.grad((reference * weight.to(dtype).double()).sum(), exact)
    for ours, theirs in zip((found, *gradients), (reference, *expected)):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, atol=tolerance, rtol=tolerance)


@pytest.fixture
def poisoned():
    """Memory that is not written holds NaN."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(4).isnan().all()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("case", ["plain", "causal", "padded", "causal, padded", "cross", "offset", "documents"])
def test_blocks_equal_all_pairs(text, case, poisoned):
    pattern, lengths = parse_visibility(text), torch.tensor([51, 17, 1])
    if "causal" in case or case in ("offset", "documents"):
        pattern = causal & pattern
    if "padded" in case:
        pattern = pattern & padding(lengths)
    if case == "documents":
        pattern = pattern & documents(torch.arange(51).div(20).long().expand(3, 51))
    length = {"cross": 37, "offset": 11}.get(case, 51)
    offset = 40 if case == "offset" else 0
    for size in (8, 5):
        assert_equal_to_all_pairs(over(pattern, length, 51, 3, size, offset))


@pytest.mark.parametrize("text", PATTERNS)
def test_half_precision(text):
    for dtype, tolerance in [(torch.bfloat16, 2e-2), (torch.float64, 1e-5)]:
        assert_equal_to_all_pairs(
            over(causal & parse_visibility(text) & padding(torch.tensor([40, 9])), 40, 40, 2, 8), dtype, tolerance
        )


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([*PATTERNS, "causal"]), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.integers(1, 40),
    st.integers(1, 40),
    st.lists(st.integers(1, 40), min_size=2, max_size=2),
    st.sampled_from([1, 3, 8, 16, 64]),
)
def test_any_combination_equals_all_pairs(texts, joins, length, memory, lengths, size):
    pattern = parse_visibility(texts[0])
    for text, join in zip(texts[1:], joins):
        pattern = pattern & parse_visibility(text) if join else pattern | parse_visibility(text)
    padded = pattern & padding(torch.tensor(lengths).clamp(max=memory))
    for each in (pattern, padded):
        assert_equal_to_all_pairs(over(each, length, memory, 2, size))


def test_who_sees_nobody_answers_zero_and_learns_nothing(poisoned):
    view = over(window(2) & padding(torch.tensor([30, 4])), 30, 30, 2, 8)
    assert_equal_to_all_pairs(view)
    q, k, v = (torch.randn(2, HEADS, 30, WIDTH, requires_grad=True) for _ in range(3))
    context = Softmax().mix(q, k, v, view)
    assert context[1, :, 7:].eq(0).all()  # some in a tile that others see, some without any tile
    gradient = torch.autograd.grad(context.sum(), q)[0]
    assert gradient[1, :, 7:].eq(0).all()


def test_global_rows_make_nobody_else_look_at_more():
    tiles = over(parse_visibility("bigbird(8)"), 512, 512, 1, 8).blocks.tiles
    counts = {count: jobs for jobs, count, _ in tiles.groups_G3.tolist()}
    assert counts[64] == 2  # the first block and the last
    assert max(count for count in counts if count < 64) == 8
    assert tiles.added_TSS is None  # nothing inside a block is hidden


@pytest.mark.parametrize("text", ["bigbird(8)", "causal & window(9)"])
def test_weights_are_dropped_as_they_should_be(text):
    view = over(parse_visibility(text) & padding(torch.tensor([40, 23])), 40, 40, 2, 8)
    q, k, v = (torch.randn(2, HEADS, 40, WIDTH) for _ in range(3))
    exact = Softmax().mix(q, k, v, view)
    torch.testing.assert_close(blocked.explicit(q, k, v, view.blocks.tiles, 0.0), exact, atol=1e-5, rtol=1e-5)
    torch.manual_seed(0)
    draws = torch.stack([Softmax().mix(q, k, v, view, dropout=0.5) for _ in range(400)])
    assert not torch.allclose(draws[0], draws[1])
    error = (draws.mean(0) - exact) / (draws.std(0) / 20).clamp(min=1e-6)
    assert error.abs().mean() < 1.2  # as a mean of 400 draws should lie
    x = q.clone().requires_grad_()
    assert torch.autograd.grad(Softmax().mix(x, k, v, view, dropout=0.1).sum(), x)[0].isfinite().all()


def test_memory_grows_with_the_tokens():
    def peak(length: int) -> int:
        view = parse_visibility("bigbird(64)").over(length, length, device=CPU)
        q, k, v = (torch.randn(1, 2, length, 16, requires_grad=True) for _ in range(3))
        return peak_bytes(lambda: torch.autograd.grad(Softmax().mix(q, k, v, view).sum(), (q, k, v)))

    assert peak(8192) < 2.3 * peak(4096)
    assert peak(8192) < 8192**2  # a quarter of what one head's scores take


# ------------------------------------------------------------------------------------------------------------- who decides
def test_blocks_are_taken_where_they_are_worth_it(monkeypatch):
    long = parse_visibility("bigbird(64)").over(2048, 2048, device=CPU)
    assert long.blocks is not None
    assert long.blocks.size == 64
    assert long.mask is None
    for pattern, length in [("bigbird(64)", 1024), ("bigbird(64)", 256), ("full", 2048), ("strided(3)", 2048), ("causal", 2048)]:
        assert parse_visibility(pattern).over(length, length, device=CPU).blocks is None
    assert padding(torch.tensor([2000])).over(2048, 2048, device=CPU).blocks is None
    assert parse_visibility("window(64)").over(1, 2048, offset=2047, device=CPU).blocks is None  # a step of decoding
    monkeypatch.setitem(dispatch.SHORTEST, "cpu", 4096)
    assert parse_visibility("bigbird(64)").over(2048, 2048, device=CPU).blocks is None


@pytest.mark.parametrize(
    ("text", "cpu", "cuda"),
    [
        ("window(32)", 32, 128),
        ("window(64)", 64, 128),
        ("window(256)", 128, 128),
        ("bigbird(32)", 32, 64),
        ("bigbird(64)", 64, 64),
        ("bigbird(128)", 128, 128),
        ("causal & bigbird(32)", 32, 64),
        ("causal & bigbird(64)", 64, 64),  # the border of what is before lies in blocks of any size
        ("causal & bigbird(128)", 128, 128),
        ("sparse-transformer(128, 32)", 32, 0),
        ("strided(3)", 0, 0),
    ],
)
def test_blocks_have_the_size_that_costs_least(text, cpu, cuda):
    """As measured at 4,096 tokens on a CPU; on a GPU that of the pattern's own blocks."""
    sizes = [choose(parse_visibility(text), 4096, 4096, 0, device).size for device in ("cpu", "cuda")]
    assert sizes == [cpu, cuda]


def test_what_comes_later_in_padded_texts_is_left_out_by_blocks():
    view = (causal & padding(torch.tensor([2048, 1300]))).over(2048, 2048, batch=2, device=CPU)
    assert view.blocks is not None
    assert view.blocks.some_BQN.float().mean() < 0.55
    assert_equal_to_all_pairs(view)


def test_it_is_said_which_kernel_and_why():
    assert describe(full, 4096) == "all pairs at once (everybody is seen)"
    assert describe(causal, 4096).startswith("all pairs at once (all before it")
    assert describe(window(8), 100) == "all pairs at once (fewer than 512 tokens)"
    said = describe(parse_visibility("bigbird(64)"), 4096)
    assert "on a CPU blocks by the fused kernel (15% of blocks of 64 needed, 1.8 times the time a pair)" in said
    assert "on a GPU blocks by FlexAttention" in said
    assert "plain products" in describe(parse_visibility("bigbird(64)"), 4096, dropout=0.1)
    assert choose(window(8), 4096, 4096, 0, "mps").size == 0


def test_a_probe_sees_what_blocks_computed():
    stack = Stack(BlockConfig(width=32, heads=2, feedforward=32, dropout=0.0), 1, "encoder").eval()
    view = (parse_visibility("bigbird(64)") & padding(torch.tensor([2048, 1900]))).over(2048, 2048, batch=2, device=CPU)
    assert view.blocks is not None
    x = torch.randn(2, 2048, 32)
    with torch.no_grad(), probe(stack) as looking:
        stack(x, view)
    seen = looking["encoder.0.self"]
    rows = [0, 700, 2047]
    context = Softmax().mix(seen.q_BHLK, seen.k_BHMK, seen.v_BHMK, view)[:, :, rows]
    torch.testing.assert_close(seen.weights(rows=rows) @ seen.v_BHMK, context, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_compiled_stack_is_one_graph_whatever_the_padding():
    torch._dynamo.reset()
    stack = Stack(BlockConfig(width=32, heads=2, feedforward=32, dropout=0.0), 2, "encoder")
    compiled = torch.compile(stack, fullgraph=True, backend="aot_eager")
    for lengths in ([600, 600], [600, 43], [580, 599]):
        view = (parse_visibility("longformer(64)") & padding(torch.tensor(lengths))).over(600, 600, batch=2, device=CPU)
        assert view.blocks is not None
        x = torch.randn(2, 600, 32, requires_grad=True)
        for ours, expected in zip(*(_answer_and_gradients(run, x, view) for run in (compiled, stack))):
            torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def _answer_and_gradients(run, x, view):
    answer = run(x, view)
    return answer, *torch.autograd.grad(answer.square().sum(), x)


def test_a_view_can_be_rendered_after_all():
    view = over(parse_visibility("bigbird-fixed(4, 1)") & padding(torch.tensor([40, 30])), 40, 40, 2, 4)
    assert view.rendered().blocks is None
    assert_equal_to_all_pairs(replace(view.rendered()))

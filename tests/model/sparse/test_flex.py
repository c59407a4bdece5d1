"""What only a GPU runs of sparse patterns: FlexAttention with our maps against all pairs, both ways, in models and compiled."""

import copy

import pytest
import torch

from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.model.kernels.cuda_graph import CudaRecorder
from regard.model.mixers.softmax import Softmax
from regard.model.sparse import dispatch, flex
from regard.model.sparse.blocks import blocks_of
from regard.model.visibility import Visibility, causal, documents, padding, window
from regard.model.visibility.mask import View
from regard.model.visibility.parse import parse_visibility
from regard.training.compile import compile_stacks
from tests.families.harness import begin, stepped

pytestmark = pytest.mark.gpu
CASES = ["plain", "causal", "padded", "causal, padded", "cross", "offset", "documents"]
# In blocks of 64, as the kernels work; the patterns of the CPU's tests, eight times as wide.
WIDE = [
    "window(40)",
    "block(64, 1)",
    "strided(3, 64)",
    "global(3) | window(20)",
    "random(2, 1, 64) | block(64)",
    "last(64) | window(30)",
    "longformer(100, 2)",
    "bigbird(64)",
    "bigbird(32, 5, 3, 2)",
    "bigbird-fixed(64, 1)",
    "sparse-transformer-strided(128, 64)",
    "sparse-transformer(128, 32)",
    "image-local-1d(64, 32)",
    "image-local-2d(32, 4, 8, 2, 4)",
]


def over(pattern: Visibility, length: int, memory: int, batch: int, size: int, offset: int = 0) -> View:
    device = torch.device("cuda")
    pattern = pattern.with_length(memory if pattern.lengths_B is None else pattern.lengths_B)
    blocks = blocks_of(pattern, length, memory, size, batch=batch, offset=offset, device=device)
    return View(pattern, batch, length, memory, offset, device, blocks=blocks)


def assert_equal_to_all_pairs(view: View, dtype: torch.dtype, tolerance: float, width: int) -> None:
    torch.manual_seed(0)
    shapes = [(view.batch, 2, n, width) for n in (view.length, view.memory, view.memory)]
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for shape in shapes)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    sees = view.rows(torch.arange(view.length)).expand(view.batch, 2, view.length, view.memory)
    reference = Softmax().weights(exact[0], exact[1], sees) @ exact[2]
    found = Softmax().mix(q, k, v, view)
    weight = torch.randn_like(found)
    gradients = torch.autograd.grad((found * weight).sum(), (q, k, v))
    expected = torch.autograd.grad((reference * weight.double()).sum(), exact)
    for ours, theirs in zip((found, *gradients), (reference, *expected)):
        assert ours.isfinite().all()
        assert (ours.double() - theirs).norm() / theirs.norm() < tolerance


def patterned(text: str, case: str) -> tuple[Visibility, int, int]:
    """With queries and where the first one stands, of 500 keys and 3 sequences."""
    pattern, device = parse_visibility(text), "cuda"
    if "causal" in case or case in ("offset", "documents"):
        pattern = causal & pattern
    if "padded" in case:
        pattern = pattern & padding(torch.tensor([500, 170, 1], device=device))
    if case == "documents":
        pattern = pattern & documents(torch.arange(500, device=device).div(200).long().expand(3, 500))
    return pattern, {"cross": 370, "offset": 140}.get(case, 500), 360 if case == "offset" else 0


@pytest.fixture
def fresh(monkeypatch):
    """So many patterns in one process are no model's; each test compiles its own, also for texts that are short for blocks."""
    monkeypatch.setitem(dispatch.SHORTEST, "cuda", 1024)
    torch._dynamo.reset()
    flex._compiled.cache_clear()
    yield
    flex._compiled.cache_clear()


def assert_fits(text: str, case: str, size: int, dtype: torch.dtype = torch.bfloat16, width: int = 32) -> None:
    pattern, length, offset = patterned(text, case)
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    assert_equal_to_all_pairs(over(pattern, length, 500, 3, size, offset), dtype, tolerance, width)


@pytest.mark.parametrize("text", WIDE)
def test_every_pattern(text, fresh):
    assert_fits(text, "causal, padded", 64)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("text", ["bigbird(64)", "longformer(100, 2)"])
def test_every_case(text, case, fresh):
    assert_fits(text, case, 64 if "bird" in text else 128)


@pytest.mark.parametrize("text", ["bigbird(64)", "window(40)", "bigbird-fixed(64, 1)"])
def test_single_precision(text, fresh):
    assert_fits(text, "padded", 64, torch.float32)


@pytest.mark.parametrize(
    ("width", "dtype"), [(64, torch.bfloat16), (64, torch.float32), (128, torch.bfloat16), (16, torch.bfloat16)]
)
def test_heads_of_any_width(width, dtype, fresh):
    assert_fits("bigbird(64)", "padded", 64, dtype, width)


def test_who_sees_nobody_answers_zero(fresh):
    view = over(window(20) & padding(torch.tensor([500, 40, 3], device="cuda")), 500, 500, 3, 128)
    for dtype, tolerance in [(torch.bfloat16, 2e-2), (torch.float32, 2e-5)]:
        assert_equal_to_all_pairs(view, dtype, tolerance, 32)
    q, k, v = (torch.randn(3, 2, 500, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    context = Softmax().mix(q, k, v, view)
    assert context[1, :, 61:].eq(0).all()
    assert torch.autograd.grad(context.sum(), q)[0][1, :, 61:].eq(0).all()


@pytest.mark.parametrize("text", ["bigbird(8)", "window(5)", "bigbird-fixed(8, 1)"])
def test_plain_products_where_flex_does_not_suit(text):
    """Heads too narrow for it, and weights that are dropped."""
    pattern, length, offset = patterned(text, "causal, padded")
    view = over(pattern, length, 500, 3, 64, offset)
    assert_equal_to_all_pairs(view, torch.float32, 2e-5, width=8)
    q, k, v = (torch.randn(3, 2, 500, 64, device="cuda") for _ in range(3))
    draws = torch.stack([Softmax().mix(q, k, v, view, dropout=0.3) for _ in range(40)])
    assert not torch.allclose(draws[0], draws[1])
    exact = Softmax().mix(q, k, v, view.rendered())
    assert (draws.mean(0) - exact).abs().mean() < 0.3 * (draws[0] - exact).abs().mean()


SMALL = dict(width=128, heads=2, layers=2, feedforward=128, dropout=0.0, maximum_length=2048)


def bert(visibility: str) -> BERT:
    return BERT(BERTConfig(**SMALL, visibility=visibility), 50, seed=1).cuda()


def test_a_model_on_a_gpu_answers_as_on_a_cpu(fresh):
    model = bert("bigbird(64)").eval()
    ids, lengths = torch.randint(4, 50, (2, 2000), device="cuda"), torch.tensor([2000, 1500], device="cuda")
    with torch.no_grad():
        on_gpu, on_cpu = model(ids, lengths).cpu(), copy.deepcopy(model).cpu()(ids.cpu(), lengths.cpu())
    torch.testing.assert_close(on_gpu[0], on_cpu[0], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(on_gpu[1, :1500], on_cpu[1, :1500], atol=1e-3, rtol=1e-3)


def test_cached_steps_equal_the_full_pass(fresh):
    model = GPT(GPTConfig(**SMALL, visibility="bigbird(64)"), 50, seed=1).cuda().eval()
    ids = torch.randint(4, 50, (2, 1400), device="cuda")
    with torch.no_grad():
        expected = model(ids)
        state = begin(model, ids[:, :1390], torch.tensor([1390, 1390], device="cuda"), tokens=10, fixed=True)
        found = stepped(state, ids[:, 1390:])
    torch.testing.assert_close(found, expected[:, 1390:], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("visibility", "long"), [("bigbird(64)", dispatch.LONG), ("bigbird(64)", 1536), ("window(100)", dispatch.LONG)]
)
def test_compiled_stacks_train_in_bf16(visibility, long, fresh, monkeypatch):
    """Also where wide blocks are shared out."""
    monkeypatch.setattr(dispatch, "LONG", long)
    plain, compiled = bert(visibility), bert(visibility)
    compile_stacks(compiled)
    for length in (1536, 1664, 2048):  # the second size is compiled for all that follow
        ids, lengths = torch.randint(4, 50, (2, length), device="cuda"), torch.tensor([length, length - 300], device="cuda")
        answers = []
        for model in (plain, compiled):
            model.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                answer = model(ids, lengths)
            answer.float().square().mean().backward()
            gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
            answers.append((answer.float(), gradient))
        for ours, expected in zip(*answers):
            assert (ours - expected).norm() / expected.norm() < 3e-2


@pytest.mark.parametrize("stance", ["default", "force_eager"])  # as models train, and as they are validated
def test_memory_at_64k_tokens_is_no_square(stance, fresh):
    view = parse_visibility("bigbird(64)").over(65_536, 65_536, device=torch.device("cuda"))
    q, k, v = (torch.randn(1, 4, 65_536, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.compiler.set_stance(stance):
        torch.autograd.grad(Softmax().mix(q, k, v, view).sum(), (q, k, v))
    assert torch.cuda.max_memory_allocated() - before < 2e9  # one head's scores in bf16 would be 8.6e9


@pytest.mark.parametrize("tokens", [2048, dispatch.LONG])
def test_a_pass_by_blocks_can_be_recorded(tokens, fresh):
    """The map of blocks is made inside, of lengths that come with the batch. Of long texts wide blocks are shared out."""
    device = torch.device("cuda")
    lengths = torch.tensor([tokens, 1500], device=device)
    inputs = [torch.randn(2, 2, tokens, 32, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    found = [torch.empty_like(part) for part in (inputs[0], *inputs)]

    def step() -> None:
        view = (parse_visibility("bigbird(64)") & padding(lengths)).over(tokens, tokens, batch=2, device=device)
        assert view.blocks is not None
        assert (view.blocks.wide is None) == (tokens < dispatch.LONG)
        context = Softmax().mix(*inputs, view)
        for buffer, answer in zip(found, (context, *torch.autograd.grad(context.square().sum(), inputs))):
            buffer.copy_(answer.detach())

    recorder = CudaRecorder(device)
    for _ in range(3):
        recorder.warm_up(step)
    replay = recorder.record(step)
    for shorter in (700, 1100):
        lengths[1] = shorter
        step()
        expected = [buffer.clone() for buffer in found]
        for buffer in found:
            buffer.zero_()
        replay()
        for buffer, answer in zip(found, expected):
            torch.testing.assert_close(buffer, answer)


# -------------------------------------------------------------------------------------------------- wide blocks, shared out
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("lengths", [[4096], [4196, 4196], [4196, 2049, 64, 1], [4096, 4096, 63]])
@pytest.mark.parametrize("text", ["bigbird(64)", "longformer(512, 2)"])
def test_long_texts_are_shared_out(text, lengths, dtype, fresh, monkeypatch):
    """Padded and not; a text shorter than one block, of one, and of one that has ended within."""
    monkeypatch.setattr(dispatch, "LONG", 4096)
    longest, device = max(lengths), torch.device("cuda")
    pattern = parse_visibility(text)
    if len({*lengths}) > 1:
        pattern = pattern & padding(torch.tensor(lengths, device=device))
    view = pattern.over(longest, longest, batch=len(lengths), device=device)
    assert view.blocks is not None
    assert view.blocks.wide is not None
    assert_equal_to_all_pairs(view, dtype, 2e-5 if dtype == torch.float32 else 2e-2, 32)


def test_the_wide_rows_of_long_texts_are_right_by_themselves(fresh):
    """They are few, and would hide in a norm over all rows."""
    device, tokens = torch.device("cuda"), 10_000
    lengths = torch.tensor([tokens, 6_000], device=device)
    view = (parse_visibility("bigbird(64)") & padding(lengths)).over(tokens, tokens, batch=2, device=device)
    q, k, v = (torch.randn(2, 2, tokens, 32, device=device) for _ in range(3))
    context = Softmax().mix(q, k, v, view)
    for n, rows in ((0, [0, 63, 64, 9_983, 9_984, 9_999]), (1, [0, 63, 5_951, 5_952, 5_999])):
        at = torch.tensor(rows, device=device)
        sees = view.rows(at).expand(2, 2, len(rows), tokens)[n]
        expected = Softmax().weights(q[n, :, at].double(), k[n].double(), sees) @ v[n].double()
        torch.testing.assert_close(context[n, :, at].double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("text", ["bigbird(64)", "window(192)"])
def test_changing_lengths_are_compiled_for_all_at_once(text, fresh):
    """Shared out or not, of lengths that are multiples of a tile and of others: forwards, a few graphs for twelve lengths."""
    from torch._dynamo.utils import counters

    before = counters["stats"]["unique_graphs"]
    for tokens in (2048, 2176, 2304, 2500, 2501, 3000, 8192, 8320, 9000, 10_240, 11_000, 12_001):
        view = parse_visibility(text).over(tokens, tokens, device=torch.device("cuda"))
        q, k, v = (torch.randn(2, 2, tokens, 32, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        assert Softmax().mix(q, k, v, view).isfinite().all()
    assert counters["stats"]["unique_graphs"] - before <= 8

"""What only a GPU runs: its kernels against the reference, and the core's promises in bf16 and compiled."""

import pytest
import torch

from regard.families.transformer import Transformer, TransformerConfig
from regard.model.mixers.softmax import Softmax
from regard.model.probe import probe
from regard.model.visibility import causal, documents, full, padding, window
from regard.model.visibility.bigbird import bigbird
from tests.families.harness import begin, stepped

pytestmark = pytest.mark.gpu
LENGTHS = [64, 17, 1]


def views():
    device = torch.device("cuda")
    lengths, ids = torch.tensor(LENGTHS, device=device), torch.arange(64, device=device).div(20).long().expand(3, 64)
    yield "full", full.over(64, 64, batch=3, device=device)
    yield "causal", causal.over(64, 64, batch=3, device=device)
    yield "padding", padding(lengths).over(64, 64, batch=3, device=device)
    yield "causal window", (causal & window(5)).over(64, 64, batch=3, device=device)
    yield "documents", (causal & documents(ids)).over(64, 64, batch=3, device=device)
    yield "some see nobody", (window(2) & padding(lengths)).over(64, 64, batch=3, device=device)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)])
def test_kernels_equal_the_reference_forwards_and_backwards(dtype, tolerance):
    for name, view in views():
        torch.manual_seed(0)
        q, k, v = (torch.randn(3, 4, 64, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
        fused = Softmax().mix(q, k, v, view)
        exact = [t.detach().double().requires_grad_() for t in (q, k, v)]
        sees = view.rows(torch.arange(64)).expand(3, 4, 64, 64)
        reference = Softmax().weights(exact[0], exact[1], sees) @ exact[2]
        weight = torch.randn_like(fused)
        fast = torch.autograd.grad((fused * weight).sum(), (q, k, v))
        plain = torch.autograd.grad((reference * weight.double()).sum(), exact)
        for a, b in zip((fused, *fast), (reference, *plain)):
            assert a.isfinite().all(), name
            assert (a.double() - b).norm() / b.norm() < tolerance, name


@pytest.mark.parametrize("length", [64, 192, 832])
def test_gradients_under_a_mask_are_numbers_where_all_scores_are_low(length):
    """cuDNN's are not, in texts of so many tokens."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, length, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    inputs = [part.requires_grad_() for part in (0.1 * q, 0.1 * k, v)]
    inputs[0].data[..., 0], inputs[1].data[..., 0] = 8.0, -128.0  # a product of -128 for everybody
    view = (window(64) & padding(torch.tensor([length], device="cuda"))).over(length, length, device=torch.device("cuda"))
    context = Softmax().mix(*inputs, view)
    for gradient in torch.autograd.grad(context.sum(), inputs):
        assert gradient.isfinite().all()


@pytest.fixture
def model():
    return Transformer(TransformerConfig(width=64, heads=4, feedforward=128, layers=2, dropout=0.0), 50, 50).cuda().eval()


@pytest.fixture
def inputs():
    g = torch.Generator().manual_seed(0)
    source, target = torch.randint(4, 50, (3, 20), generator=g), torch.randint(4, 50, (3, 70), generator=g)
    return source.cuda(), torch.tensor([20, 9, 1]).cuda(), target.cuda()


def test_gpu_equals_cpu(model, inputs):
    on_gpu = model(*inputs)
    on_cpu = model.cpu()(*(t.cpu() for t in inputs))
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=1e-4, rtol=1e-4)


def test_cached_steps_equal_the_full_pass(model, inputs):
    source, lengths, target = inputs
    expected = model(*inputs)
    found = stepped(begin(model, source, lengths, tokens=target.shape[1], fixed=True), target)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_compiled_whole_training_and_decoding(model, inputs):
    source, lengths, target = inputs
    expected = model(*inputs)
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), expected, atol=1e-4, rtol=1e-4)
    compiled(*inputs).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.step = torch.compile(model.step, fullgraph=True)
    found = stepped(begin(model, source, lengths, tokens=40, fixed=True), target[:, :40])
    torch.testing.assert_close(found, expected[:, :40], atol=1e-4, rtol=1e-4)


def test_probe_leaves_bf16_results_alone(model, inputs):
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        plain = model(*inputs)
        with probe(model) as seen:
            looked = model(*inputs)
    assert torch.equal(plain, looked)
    weights = seen["decoder.1.cross"].weights(heads=[1])
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_probe_on_4096_tokens_costs_at_most_160_megabytes():
    from regard.model.block import BlockConfig, Stack

    stack = Stack(BlockConfig(width=512, heads=8, feedforward=2048, dropout=0.0), 6, "encoder").cuda().eval()
    x = torch.randn(1, 4096, 512, device="cuda")
    view = full.over(4096, 4096, device=x.device)

    def held(looking):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        with torch.no_grad():
            if looking:
                with probe(stack) as seen:
                    out = stack(x, view)
                return torch.cuda.memory_allocated() - before, seen, out
            out = stack(x, view)
        return torch.cuda.memory_allocated() - before, None, out

    without, _, plain = held(False)
    with_probe, seen, looked = held(True)
    assert torch.equal(plain, looked)
    assert with_probe - without <= 160e6
    assert seen["encoder.3.self"].weights(heads=[2], rows=[0, 4095]).shape == (1, 1, 2, 4096)


@pytest.fixture
def poisoned():
    """What is allocated next holds NaN wherever nobody has written yet."""
    torch.cuda.empty_cache()
    torch.full((2**30,), torch.nan, device="cuda")
    torch.cuda.synchronize()


@pytest.mark.parametrize("length", [896, 960, 1000, 1600])
def test_a_mask_of_blocks_is_not_read_behind_its_end(poisoned, length):
    """ListOps under bigbird was not a number, in steps whose texts were an odd number of blocks of 64 long."""
    lengths = torch.tensor([length, length - 1, length // 2], device="cuda")
    view = (bigbird(64) & padding(lengths)).over(length, length, batch=3, device=torch.device("cuda"))
    assert view.mask is not None
    q, k, v = (torch.randn(3, 8, length, 64, device="cuda").bfloat16().requires_grad_() for _ in range(3))
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    sees = view.rows(torch.arange(length)).expand(3, 8, length, length)
    expected = Softmax().weights(exact[0], exact[1], sees) @ exact[2]
    found = Softmax().mix(q, k, v, view)
    weight = torch.randn_like(found)
    ours = torch.autograd.grad((found * weight).sum(), (q, k, v))
    theirs = torch.autograd.grad((expected * weight.double()).sum(), exact)
    for one, other in zip((found, *ours), (expected, *theirs)):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, atol=3e-2, rtol=3e-2)

"""Looking changes nothing, rebuilt weights are the weights, and a long input does not cost n squared."""

import pytest
import torch

import regard
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.block import BlockConfig, Stack
from regard.model.probe import attentions, not_recording, probe
from regard.model.visibility import causal, dense, full


@pytest.fixture
def model():
    return Transformer(TransformerConfig(width=32, heads=4, feedforward=48, layers=2, dropout=0.0), 30, 30, seed=3).eval()


@pytest.fixture
def inputs():
    g = torch.Generator().manual_seed(0)
    source, target = torch.randint(4, 30, (3, 8), generator=g), torch.randint(4, 30, (3, 6), generator=g)
    return source, torch.tensor([8, 5, 2]), target


def test_the_result_is_bit_for_bit_the_same(model, inputs):
    plain = model(*inputs)
    with regard.probe(model) as seen:
        looked = model(*inputs)
    assert torch.equal(plain, looked)
    expected = ["encoder.0.self", "encoder.1.self"] + [f"decoder.{n}.{part}" for n in range(2) for part in ("self", "cross")]
    assert list(seen) == expected
    assert all(attention.probe is None for attention in attentions(model).values())


def test_weights_rebuilt_are_the_reference(model, inputs):
    with probe(model) as seen:
        model(*inputs)
    for name in seen:
        what = seen[name]
        q, k = what.q_BHLK, what.k_BHMK
        sees = what.view.rows(torch.arange(q.shape[2]))
        expected = (q @ k.mT / 8**0.5).masked_fill(~sees, float("-inf")).softmax(-1)
        torch.testing.assert_close(what.weights(), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(what.weights(heads=[2, 0], rows=[3, 1]), expected[:, [2, 0]][:, :, [3, 1]], atol=1e-5, rtol=0)
        torch.testing.assert_close(what.weights().sum(-1), torch.ones(expected.shape[:-1]))
    assert seen["decoder.0.self"].weights().triu(1).count_nonzero() == 0
    assert seen["decoder.1.cross"].weights()[2, :, :, 2:].count_nonzero() == 0


def test_rebuilt_weights_times_values_are_what_the_kernel_returned(model, inputs):
    """Through the module's own output projection: the picture shows what the model did."""
    cross = model.decoder.blocks[1].cross_attention
    kept = []
    hook = cross.register_forward_hook(lambda m, a, out: kept.append(out))
    with probe(model) as seen:
        model(*inputs)
    hook.remove()
    what = seen["decoder.1.cross"]
    rebuilt = cross.out((what.weights() @ what.v_BHMK).transpose(1, 2).flatten(2))
    torch.testing.assert_close(rebuilt, kept[0], atol=1e-5, rtol=1e-5)


def test_gates(model, inputs):
    plain = model(*inputs)
    ones = {name: torch.ones(4) for name in attentions(model)}
    with probe(model, gates=ones):
        assert torch.equal(model(*inputs), plain)
    gate = torch.ones(4, requires_grad=True)
    with probe(model, gates={"decoder.1.cross": gate}):
        model(*inputs).square().sum().backward()
    assert gate.grad.shape == (4,)
    assert (gate.grad != 0).all()
    closed = torch.tensor([0.0, 1, 1, 1])
    with probe(model, gates={"decoder.1.cross": closed}):
        without = model(*inputs)
    cross = model.decoder.blocks[1].cross_attention
    cross.out.weight.data[:, :8] = 0  # head 0's columns of the output projection
    torch.testing.assert_close(without, model(*inputs), atol=1e-5, rtol=1e-5)


def test_a_row_of_gates_for_each_sequence_is_each_sequence_gated_alone(model, inputs):
    source, lengths, target = inputs
    draw = torch.Generator().manual_seed(1)
    gates = {name: torch.rand(3, 4, generator=draw).round() for name in attentions(model)}
    plain = model(*inputs)
    with probe(model, gates={name: torch.ones(3, 4) for name in gates}):
        assert torch.equal(model(*inputs), plain)
    with probe(model, gates=gates):
        together = model(*inputs)
    assert not torch.allclose(together, plain)
    for row in range(3):
        with probe(model, gates={name: gate[row] for name, gate in gates.items()}):
            alone = model(source[row : row + 1], lengths[row : row + 1], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-5)


def test_wrong_names_and_shapes_are_named(model, inputs):
    with pytest.raises(KeyError, match=r"decoder\.1\.cross"), probe(model, gates={"decoder.1.crss": torch.ones(4)}):
        pass
    with pytest.raises(ValueError, match="one number a head"), probe(model, gates={"decoder.1.cross": torch.ones(3)}):
        pass
    for shape in ((3, 3), (1, 3, 4), ()):
        gates = {"decoder.1.cross": torch.ones(shape)}
        with pytest.raises(ValueError, match=r"each sequence of the batch, \(B, 4\)"), probe(model, gates=gates):
            pass
    for rows in (2, 6):
        with (
            pytest.raises(ValueError, match="one for each of 3 sequences"),
            probe(model, gates={"decoder.1.cross": torch.ones(rows, 4)}),
        ):
            model(*inputs)
    with probe(model) as seen:
        model(*inputs)
    with pytest.raises(KeyError, match=r"did you mean .encoder\.0\.self"):
        seen["encoder.0.elf"]


def test_a_search_is_gated_but_not_recorded(model, inputs):
    with probe(model) as seen:
        with not_recording(model) as looking:
            model(*inputs)
        assert looking
        assert len(seen) == 0
        model(*inputs)
        assert len(seen) == 6


def bytes_kept(seen):
    tensors = [t for name in seen for t in (seen[name].q_BHLK, seen[name].k_BHMK, seen[name].v_BHMK, seen[name].view.mask)]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t is not None}
    return sum(storages.values())


@pytest.mark.slow
@pytest.mark.parametrize("visibility", [full, causal])
def test_4096_tokens_cost_at_most_160_megabytes(visibility):
    stack = Stack(BlockConfig(width=512, heads=8, feedforward=64, dropout=0.0), 6, "encoder").eval()
    x = torch.randn(1, 4096, 512)
    with torch.no_grad(), probe(stack) as seen:
        stack(x, visibility.over(4096, 4096, device=x.device))
    assert len(seen) == 6
    assert bytes_kept(seen) <= 160e6
    some = seen["encoder.5.self"].weights(heads=[7], rows=[4095])
    q, k = seen["encoder.5.self"].q_BHLK[:, 7:, 4095:], seen["encoder.5.self"].k_BHMK[:, 7:]
    sees = dense(visibility, torch.tensor([4095]), 4096)
    expected = (q @ k.mT / 8).masked_fill(~sees, float("-inf")).softmax(-1)
    torch.testing.assert_close(some, expected, atol=1e-5, rtol=0)

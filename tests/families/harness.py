"""What every family must do, written once: shapes, gradients, causality, padding, caching, saving, compiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Family:
    """A model under test and how to call it. `inputs(batch)` draws ids and lengths; `run` gives logits_BLV."""

    name: str
    build: Callable[[], nn.Module]
    vocabulary: int
    source_length: int = 9
    target_length: int = 7

    def inputs(self, batch: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        g = torch.Generator().manual_seed(seed)
        source = torch.randint(4, self.vocabulary, (batch, self.source_length), generator=g)
        lengths = torch.randint(1, self.source_length + 1, (batch,), generator=g)
        lengths[0] = self.source_length
        target = torch.randint(4, self.vocabulary, (batch, self.target_length), generator=g)
        return source, lengths, target


def check_shapes(family: Family) -> None:
    logits = family.build().eval()(*family.inputs())
    assert logits.shape == (3, family.target_length, family.vocabulary)
    assert logits.isfinite().all()


def check_gradients_reach_every_parameter(family: Family) -> None:
    model = family.build().train()
    source, lengths, target = family.inputs()
    source = (
        torch.arange(family.vocabulary)[: source.numel()].reshape(source.shape) if family.vocabulary >= source.numel() else source
    )
    (model(source, lengths, target) * torch.randn(3, family.target_length, family.vocabulary)).sum().backward()
    unreached = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


def check_future_tokens_change_nothing(family: Family) -> None:
    model = family.build().eval()
    source, lengths, target = family.inputs()
    before = model(source, lengths, target)
    for t in range(1, family.target_length):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] - 3) % (family.vocabulary - 4) + 4
        torch.testing.assert_close(model(source, lengths, changed)[:, :t], before[:, :t], atol=1e-6, rtol=0)
        assert not torch.allclose(model(source, lengths, changed)[:, t], before[:, t])


def check_padding_and_batch_change_nothing(family: Family) -> None:
    model = family.build().eval()
    source, lengths, target = family.inputs()
    batch = model(source, lengths, target)
    garbage = source.clone()
    for row, length in enumerate(lengths.tolist()):
        garbage[row, length:] = 1
        alone = model(source[row : row + 1, :length], lengths[row : row + 1], target[row : row + 1])
        torch.testing.assert_close(alone[0], batch[row], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(model(garbage, lengths, target), batch, atol=2e-5, rtol=1e-5)


def check_cached_decoding_is_the_full_forward(family: Family) -> None:
    model = family.build().eval()
    source, lengths, _ = family.inputs()
    target = torch.randint(4, family.vocabulary, (3, 70), generator=torch.Generator().manual_seed(5))
    expected = model(source, lengths, target)
    state = model.start(source, lengths)
    stepped = torch.cat([state.step(target[:, t : t + 1]) for t in range(target.shape[1])], 1)
    torch.testing.assert_close(stepped, expected, atol=5e-5, rtol=1e-4)


def check_select_follows_the_rows(family: Family) -> None:
    """Lanes that split, swap and die, and sentences that leave, go on as if each had been alone from the start."""
    model = family.build().eval()
    source, lengths, _ = family.inputs()
    draw = torch.Generator().manual_seed(9)
    state = model.start(source, lengths)
    histories: list[list[list[int]]] = [[[]] for _ in range(3)]
    owners = [0, 1, 2]
    moves = {3: (3, None), 6: (2, [2, 0]), 9: (4, None), 40: (1, [1])}  # step -> lanes from now on, sentences kept
    for t in range(50):
        if t in moves:
            lanes, kept = moves[t]
            histories = [histories[s] for s in kept] if kept else histories
            owners = [owners[s] for s in kept] if kept else owners
            parents = torch.randint(0, len(histories[0]), (len(histories), lanes), generator=draw)
            state.select(parents, torch.tensor(kept) if kept else None)
            histories = [[list(past[p]) for p in row] for past, row in zip(histories, parents.tolist())]
        elif t % 5 == 4:
            parents = torch.randint(0, len(histories[0]), (len(histories), len(histories[0])), generator=draw)
            state.select(parents)
            histories = [[list(past[p]) for p in row] for past, row in zip(histories, parents.tolist())]
        ids = torch.randint(4, family.vocabulary, (len(histories), len(histories[0])), generator=draw)
        histories = [[[*h, i] for h, i in zip(past, row)] for past, row in zip(histories, ids.tolist())]
        logits = state.step(ids)
        for s, lanes_of in enumerate(histories):
            rows = [owners[s]] * len(lanes_of)
            expected = model(source[rows], lengths[rows], torch.tensor(lanes_of))[:, -1]
            torch.testing.assert_close(logits[s], expected, atol=5e-5, rtol=1e-4)


def check_saved_and_loaded_is_equal(family: Family, path) -> None:
    from regard.train.checkpoint import Store

    model, other = family.build().eval(), family.build().eval()
    for p in other.parameters():
        p.data.zero_()
    store = Store(path)
    store.save("step", 1, {"model": model.state_dict()}, {})
    other.load_state_dict(store.newest("step").tensors("model"))
    assert torch.equal(model(*family.inputs()), other(*family.inputs()))
    assert sum(p.numel() for p in other.parameters()) == sum(p.numel() for p in model.parameters())


def check_compiles_without_graph_breaks(family: Family) -> None:
    """Training, forwards and backwards, and the decoding step, each as one whole graph. aot_eager: tracing without C++."""
    torch._dynamo.reset()
    model = family.build().eval()
    inputs = family.inputs()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected, found = model(*inputs), compiled(*inputs)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    expected_gradients = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    found_gradients = torch.autograd.grad(found.square().sum(), list(model.parameters()))
    for a, b in zip(found_gradients, expected_gradients):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
    source, lengths, target = inputs
    state = model.start(source, lengths)
    model.step = torch.compile(model.step, fullgraph=True, backend="aot_eager")
    stepped = torch.cat([state.step(target[:, t : t + 1]) for t in range(target.shape[1])], 1)
    torch.testing.assert_close(stepped, expected, atol=5e-5, rtol=1e-4)


def check_the_seed_decides_the_weights(family: Family) -> None:
    torch.manual_seed(123)
    first = family.build().state_dict()
    torch.manual_seed(456)
    second = family.build().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)

"""What every family must do, written once: shapes, gradients, causality, padding, caching, saving, compiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.model.state.protocol import RowCompaction, State


@dataclass(frozen=True)
class Family:
    """A model under test: (source_BM, lengths_B, target_BL) -> logits_BLV. What is no encoder-decoder is wrapped to look so."""

    name: str
    build: Callable[[], nn.Module]
    vocabulary: int
    writes: bool = True  # word after word; an encoder alone does not
    compiles: bool = True  # PyTorch does not trace its own recurrent kernels
    shallow: Callable[[], nn.Module] | None = None  # the same with one layer, for compiling: a second adds only time
    backwards: bool = False  # compiled backwards too; forwards, all are
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


def begin(model: nn.Module, source: Tensor, lengths: Tensor, *, tokens: int, lanes: int = 1, fixed: bool = False) -> State:
    reading = model.start(source, lengths)
    state = reading.room(len(source), lanes, tokens, fixed=fixed)
    state.take(reading, [tokens] * len(source))
    return state


def stepped(state: State, target: Tensor) -> Tensor:
    """logits_BLV of one lane, token by token."""
    logits = []
    for t in range(target.shape[1]):
        state.reserve(1)
        logits.append(state.step(target[:, t : t + 1]))
    return torch.cat(logits, 1)


def check_cached_decoding_is_the_full_forward(family: Family) -> None:
    model = family.build().eval()
    source, lengths, _ = family.inputs()
    target = torch.randint(4, family.vocabulary, (3, 70), generator=torch.Generator().manual_seed(5))
    expected = model(source, lengths, target)
    for fixed in (False, True):
        state = begin(model, source, lengths, tokens=70, fixed=fixed)
        torch.testing.assert_close(stepped(state, target), expected, atol=5e-5, rtol=1e-4)


def check_select_follows_the_rows(family: Family) -> None:
    """Lanes that split, swap and die, and sentences that leave, go on as if each had been alone from the start."""
    for fixed in (False, True):
        _check_select(family, fixed)


@torch.no_grad()
def _check_select(family: Family, fixed: bool) -> None:
    model, lanes, draw = family.build().eval(), 3, torch.Generator().manual_seed(9)
    source, lengths, _ = family.inputs()
    state = begin(model, source, lengths, tokens=50, lanes=lanes, fixed=fixed)
    histories: list[list[list[int]]] = [[[] for _ in range(lanes)] for _ in range(3)]
    owners, pending = [0, 1, 2], list[Tensor]()

    def compare() -> None:
        """Every step since the last time these lanes were others, by one pass over what each lane has written."""
        rows = [owner for owner in owners for _ in range(lanes)]
        written = torch.tensor([lane for past in histories for lane in past])
        expected = model(source[rows], lengths[rows], written)[:, -len(pending) :].unflatten(0, (-1, lanes))
        torch.testing.assert_close(torch.stack(pending, 2), expected, atol=5e-5, rtol=1e-4)
        pending.clear()

    for t in range(50):
        if kept := {6: [2, 1], 40: [1]}.get(t):
            compare()
            state.keep(RowCompaction.of(kept, source.device))
            histories, owners = [histories[s] for s in kept], [owners[s] for s in kept]
        if t % 5 == 4:
            compare()
            parents = torch.randint(0, lanes, (len(owners), lanes), generator=draw)
            state.select(parents)
            histories = [[list(past[p]) for p in row] for past, row in zip(histories, parents.tolist())]
        ids = torch.randint(4, family.vocabulary, (len(owners), lanes), generator=draw)
        histories = [[[*h, i] for h, i in zip(past, row)] for past, row in zip(histories, ids.tolist())]
        state.reserve(1)
        pending.append(state.step(ids))
    compare()


def check_a_state_begins_anew_with_fewer_and_shorter(family: Family) -> None:
    """Nothing of the sentences a state held before is seen by those it holds now; places without one change nothing."""
    model = family.build().eval()
    source, lengths, target = family.inputs()
    state = begin(model, source, lengths, tokens=20, lanes=2, fixed=True)
    state.reserve(9)
    for t in range(9):
        state.step(target[:, t % 7, None].repeat(1, 2))
    reading = model.start(source[:1, :2], torch.tensor([2]))
    state.take(reading, [family.target_length])
    expected = model(source[:1, :2], torch.tensor([2]), target[:1])
    for t in range(family.target_length):
        state.reserve(1)
        logits = state.step(target[:, t, None].repeat(1, 2))
        assert logits.isfinite().all()
        torch.testing.assert_close(logits[0], expected[0, t].expand(2, -1), atol=5e-5, rtol=1e-4)


def check_saved_and_loaded_is_equal(family: Family, path) -> None:
    from regard.training.checkpoint import Store

    model, other = family.build().eval(), family.build().eval()
    for p in other.parameters():
        p.data.zero_()
    store = Store(path)
    store.save("step", 1, {"model": model.state_dict()}, {})
    other.load_state_dict(store.newest("step").tensors("model"))
    assert torch.equal(model(*family.inputs()), other(*family.inputs()))
    assert sum(p.numel() for p in other.parameters()) == sum(p.numel() for p in model.parameters())


def check_compiles_without_graph_breaks(family: Family) -> None:
    """Training and the decoding step, each as one whole graph. By tracing alone, without C++: aot_eager traces backwards too."""
    torch._dynamo.reset()
    model = (family.shallow or family.build)().eval()
    inputs = family.inputs()
    backend = "aot_eager" if family.backwards else "eager"
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    expected, found = model(*inputs), compiled(*inputs)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    expected_gradients = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    found_gradients = torch.autograd.grad(found.square().sum(), list(model.parameters()))
    for a, b in zip(found_gradients, expected_gradients):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
    if not family.writes:
        return
    source, lengths, target = inputs
    state = begin(model, source, lengths, tokens=target.shape[1])
    state.model.step = torch.compile(state.model.step, fullgraph=True, backend=backend)
    torch.testing.assert_close(stepped(state, target), expected, atol=5e-5, rtol=1e-4)


def check_the_seed_decides_the_weights(family: Family) -> None:
    torch.manual_seed(123)
    first = family.build().state_dict()
    torch.manual_seed(456)
    second = family.build().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


OF_WRITING = {
    "check_future_tokens_change_nothing",
    "check_cached_decoding_is_the_full_forward",
    "check_select_follows_the_rows",
    "check_a_state_begins_anew_with_fewer_and_shorter",
}

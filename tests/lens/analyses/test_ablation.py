"""All single ablations in a few passes are those made one by one; what they tell is what the model does."""

import pytest
import torch

from regard.core.packing import IGNORED
from regard.lens.analyses import ablation as module
from regard.lens.analyses.ablation import ablation, without
from regard.lens.result import html
from regard.model.probe import attentions, probe
from tests.lens.some_subjects import EVERY, subject


def one_by_one(found):
    """nll without each head, by a pass each."""
    for name, attention in attentions(found.model).items():
        for head in range(attention.heads):
            gate = torch.ones(attention.heads)
            gate[head] = 0
            with torch.no_grad(), probe(found.model, gates={name: gate}):
                yield name, head, float(found.nll()), found.forward(1)[0]


@pytest.mark.parametrize("name", EVERY)
def test_batched_is_one_by_one(name):
    found = subject(name)
    result = ablation(found)
    with torch.no_grad():
        whole, base = found.forward(1)[0].argmax(-1), float(found.nll())
    assert result.nll == pytest.approx(base, abs=1e-5)
    expected = list(one_by_one(found))
    assert [(head.attention, head.head) for head in result.heads] == [(name, head) for name, head, _, _ in expected]
    for head, (_, _, nll, logits) in zip(result.heads, expected):
        assert head.delta == pytest.approx(nll - base, abs=1e-5)
        changed = (logits.argmax(-1) != whole) & (found.targets_L != IGNORED)
        assert [change.position for change in head.changes] == changed.nonzero().flatten().tolist()
    assert any(head.delta != 0 for head in result.heads)


def test_groups_go_together_and_memory_bounds_a_pass(monkeypatch):
    found = subject("translator")
    groups = [{}, {"encoder.0.self": {0, 1}}, {"encoder.0.self": {1}, "decoder.0.cross": {0}}]
    together = list(without(found, groups))
    sizes, forward = [], found.forward
    monkeypatch.setattr(module, "NUMBERS", 2 * together[0].numel())
    object.__setattr__(found, "forward", lambda copies: (sizes.append(copies), forward(copies))[1])
    try:
        again = list(without(found, groups * 2))
    finally:
        object.__setattr__(found, "forward", forward)
    assert sizes == [1, 2, 2, 1]
    for a, b in zip(together * 2, again):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    cross = found.model.decoder.blocks[0].cross_attention.out.weight
    kept = cross.detach().clone()
    with torch.no_grad():
        cross[:, : cross.shape[1] // 2] = 0  # head 0 of two
        gate = torch.tensor([1.0, 0.0])
        with probe(found.model, gates={"encoder.0.self": gate}):
            expected = found.forward(1)[0] if not hasattr(found.model.decoder.blocks[0].cross_attention.out, "fast") else None
        cross.copy_(kept)
    if expected is not None:
        torch.testing.assert_close(together[2], expected, atol=1e-5, rtol=1e-5)


def test_it_tells_and_draws():
    result = ablation(subject("translator"))
    lines = result.lines()
    assert "each of 6 heads switched off alone" in lines[1]
    deltas = [head.delta for head in sorted(result.heads, key=lambda head: -head.delta)]
    assert [float(line.split()[2]) for line in lines[4:]] == pytest.approx(deltas, abs=6e-4)
    assert result.as_dict()["heads"][0].keys() == {"attention", "head", "delta", "changes"}
    assert "more nll" in html(result)
    assert result._repr_html_().startswith("<figure>")

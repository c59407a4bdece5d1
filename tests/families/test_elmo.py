"""ELMo against torch's own LSTMs, run by hand in both directions; what each way may know; the sum of layers by its formula."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.base import Heads
from regard.families.elmo import ELMo, ELMoConfig, count
from regard.model.pooling import LayerSum

WORDS = 17


def built(heads: Heads | None = None, **choices) -> ELMo:
    return ELMo(ELMoConfig(**(dict(width=12, layers=2, dropout=0.0) | choices)), WORDS, 3, heads or Heads()).eval()


def texts(lengths: list[int], seed: int = 0) -> Tensor:
    return torch.randint(4, WORDS, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))


def by_hand(model: ELMo, ids_L: Tensor) -> list[Tensor]:
    """Each layer of one text, both ways side by side, by LSTMs that were made here; the way back is a text turned round."""
    half, ways = model.config.width // 2, []
    for layers, order in ((model.ahead, 1), (model.back, -1)):
        x_LE = nn.functional.embedding(ids_L, model.embed.tokens.weight) * half**0.5
        x_LE = x_LE if order == 1 else x_LE.flip(0)
        found = [x_LE]
        for n, theirs in enumerate(layers):
            lstm = nn.LSTM(half, half)
            lstm.load_state_dict(theirs.state_dict())
            h_LE = lstm(x_LE[:, None])[0][:, 0]
            x_LE = h_LE + x_LE if n else h_LE
            found.append(x_LE)
        ways.append(found if order == 1 else [x.flip(0) for x in found])
    return [torch.cat(both, -1) for both in zip(*ways)]


@torch.no_grad()
@settings(max_examples=15)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4), layers=st.integers(1, 3))
def test_every_layer_is_what_torch_computes_alone(lengths: list[int], layers: int) -> None:
    model, ids_BL = built(layers=layers), texts(lengths)
    found = model.layers(ids_BL, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        for ours, theirs in zip(found, by_hand(model, ids_BL[row, :length]), strict=True):
            torch.testing.assert_close(ours[row, :length], theirs, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_each_way_knows_only_its_own_side() -> None:
    model, ids = built(), texts([8])
    length = torch.tensor([8])
    before = model(ids, length)
    for t in range(8):
        changed = ids.clone()
        changed[0, t] = (changed[0, t] - 3) % (WORDS - 4) + 4
        after = model(changed, length)
        ahead, back = ((a != b).any(-1)[0] for a, b in zip(after, before))
        assert not ahead[:t].any()
        assert ahead[t:].any()
        assert not back[t + 1 :].any()
        assert back[: t + 1].any()


@torch.no_grad()
@settings(max_examples=20)
@given(weights=st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3), scale=st.floats(-2, 2, width=32))
def test_a_sum_of_layers_is_its_formula(weights: list[float], scale: float) -> None:
    chosen = LayerSum(3)
    chosen.weights_N.copy_(torch.tensor(weights))
    chosen.scale.fill_(scale)
    x = torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(1))
    powers = [2.718281828459045**weight for weight in weights]
    expected = sum(scale * power / sum(powers) * layer for power, layer in zip(powers, x))
    torch.testing.assert_close(chosen(x), expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_before_a_task_has_learned_a_vector_is_the_mean_of_the_layers() -> None:
    model, lengths = built(Heads(words=False)), torch.tensor([5, 3])
    ids = texts([5, 3])
    torch.testing.assert_close(model.hidden(ids, lengths), torch.stack(model.layers(ids, lengths)).mean(0))


@pytest.mark.parametrize("heads", [Heads(), Heads(words=False, tags=5)], ids=["words", "tags"])
def test_the_count_is_what_there_is(heads: Heads) -> None:
    model, tokens = built(heads), 6
    told = count(model.config, WORDS, tokens, heads)
    assert told.parameters == sum(p.numel() for p in model.parameters())
    ids, length = texts([tokens]), torch.tensor([tokens])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids, length) if heads.words else model.tags(model.hidden(ids, length))
    cells = next(part for part in told.children if part.name == "both ways").flops
    assert told.flops >= cells > 0
    assert counter.get_total_flops() <= told.flops


def test_texts_that_lie_end_to_end_are_refused() -> None:
    with pytest.raises(TypeError, match="side by side"):
        built().layers(texts([5]), Packing.of([2, 3]))


@pytest.mark.parametrize(("key", "value"), [("width", 13), ("width", 0), ("layers", 0), ("dropout", 1.0)])
def test_settings_that_cannot_be_are_refused(key: str, value: float) -> None:
    with pytest.raises(UserError, match=f"model.{key}={value}"):
        ELMoConfig(**{key: value})


@pytest.mark.gpu
def test_a_gpu_computes_the_same_both_ways() -> None:
    """cuDNN's kernels, values and gradients."""
    model, lengths = built(Heads(words=False)), [9, 4, 6]
    ids, other = texts(lengths), built(Heads(words=False)).cuda()
    expected = model.hidden(ids, torch.tensor(lengths))
    with torch.backends.cudnn.flags(allow_tf32=False):  # else its recurrent kernels round to ten bits
        found = other.hidden(ids.cuda(), torch.tensor(lengths).cuda())
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length].cpu(), expected[row, :length], atol=1e-4, rtol=1e-4)
    expected[0].square().sum().backward()
    with torch.backends.cudnn.flags(allow_tf32=False):
        found[0].square().sum().backward()
    for ours, theirs in zip(other.parameters(), model.parameters()):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, atol=1e-3, rtol=1e-3)

"""HRAN's decoder: what loops over words and turns give with the same weights, and what a probe sees of both levels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.families.hran import HRAN
from regard.model.block import Stack
from regard.model.probe import attentions, not_recording, probe
from regard.model.visibility import full
from regard.text.specials import EOS
from regard.training.compile import compile_stacks
from tests.families.dialogue_models import SOURCES, TARGET, TURN, WIDTH, built, choices, laid, turns_of


def encoded(model: HRAN, words: list[int]) -> Tensor:
    """One turn by itself."""
    encoder: Any = model.words.encoder
    x_MD = model.source.tokens(torch.tensor(words)) * WIDTH**0.5
    if isinstance(encoder, Stack):
        place = torch.arange(len(x_MD), dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2).double() / WIDTH)
        x_MD = x_MD + torch.stack([place.sin(), place.cos()], -1).flatten(1).float()
        return encoder(x_MD[None], full.over(len(x_MD), len(x_MD), batch=1, device=x_MD.device))[0]
    kind = type(encoder.ahead[0])
    for ahead, back in zip(encoder.ahead, encoder.back):
        both = kind(WIDTH, WIDTH // 2, bidirectional=True)
        named = dict(ahead.named_parameters()) | {f"{name}_reverse": p for name, p in back.named_parameters()}
        x_MD = torch.func.functional_call(both, named, (x_MD,))[0]
    return x_MD


def once(layer: nn.LSTM | nn.GRU, x_D: Tensor, carried: Any) -> Any:
    """What a layer carries after one vector more."""
    return layer(x_D[None], carried)[1]


def plainly(model: HRAN, row: list[int], target: list[int]) -> tuple[Tensor, list[tuple[list[Tensor], Tensor]]]:
    """Logits after each word, and the weights of words by turn and of turns, all from the last turn to the first."""
    d: Any = model.decoder
    turns = [encoded(model, [row[place] for place in places]) for places in reversed(turns_of(row))]
    parts = torch.tanh(model.begin(turns[0].mean(0))).view(model.config.layers, -1, 1, WIDTH)
    state = [tuple(layer) if len(layer) == 2 else layer[0] for layer in parts]
    logits, looks = [], []
    for number in target:
        s = (state[-1][0] if isinstance(state[-1], tuple) else state[-1])[0]
        later, read, of_words = torch.zeros(1, WIDTH), [], []
        for h in turns:
            query = d.aligner.query.weight @ s + d.later.weight @ later[0]
            weights = (torch.tanh(query + h @ d.aligner.keys.weight.T) @ d.aligner.mixer.weight_K).softmax(0)
            later = once(d.turn.layers[0], weights @ h, later)
            of_words.append(weights)
            read.append(later[0])
        turn = torch.stack(read)
        scores = torch.tanh(d.of_turns.query.weight @ s + turn @ d.of_turns.keys.weight.T) @ d.of_turns.mixer.weight_K
        looks.append((of_words, scores.softmax(0)))
        c, y = scores.softmax(0) @ turn, model.target.tokens(torch.tensor(number)) * WIDTH**0.5
        x = torch.cat([y, c])
        for n, layer in enumerate(d.recurrence.layers):
            state[n] = once(layer, x, state[n])
            x = (state[n][0] if isinstance(state[n], tuple) else state[n])[0]
        logits.append(model.head(d.deep(torch.cat([x, y, c])).view(-1, 2).amax(-1)))
    return torch.stack(logits), looks


@choices
def test_logits_and_gradients_are_those_of_loops_over_turns(choice: dict[str, Any]) -> None:
    model = built(**choice)
    found = model(*laid(SOURCES), TARGET)
    expected = torch.stack([plainly(model, row, target)[0] for row, target in zip(SOURCES, TARGET.tolist())])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weights, parameters = torch.randn_like(found), list(model.parameters())
    for a, b in zip(*(torch.autograd.grad((x * weights).sum(), parameters) for x in (found, expected))):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-3)


@choices
def test_a_probe_sees_words_and_turns(choice: dict[str, Any]) -> None:
    """Of every word that was written: each source word's share, and each turn's, spread over its words."""
    model = built(**choice)
    with probe(model) as seen:
        model(*laid(SOURCES), TARGET)
    words, turns = (seen[f"decoder.{n}.cross"].weights()[:, 0] for n in range(2))
    for b, (row, target) in enumerate(zip(SOURCES, TARGET.tolist())):
        _, looks = plainly(model, row, target)
        for t, (of_words, of_turns) in enumerate(looks):
            expected = torch.zeros(2, words.shape[2])
            for places, inside, turn in zip(reversed(turns_of(row)), of_words, of_turns):
                expected[0, places], expected[1, places] = inside * turn, turn / len(places)
            torch.testing.assert_close(torch.stack([words[b, t], turns[b, t]]), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(words.sum(-1), torch.ones(3, 4))
    torch.testing.assert_close(turns.sum(-1), torch.ones(3, 4))


def test_gates_switch_either_level_off() -> None:
    model, given = built(), (*laid(SOURCES), TARGET)
    before = model(*given)
    assert list(attentions(model)) == ["decoder.0.cross", "decoder.1.cross"]
    for name in attentions(model):
        with probe(model, {name: torch.zeros(1)}):
            assert not torch.allclose(model(*given), before, atol=1e-3)
    with probe(model, {name: torch.ones(1) for name in attentions(model)}) as seen, not_recording(model):
        torch.testing.assert_close(model(*given), before)
    assert len(seen) == 0


def learned(model: HRAN, sources: list[list[int]], device: str = "cpu") -> list[Tensor]:
    """Vectors and gradients."""
    found = model.hidden(*(part.to(device) for part in (*laid(sources), TARGET[: len(sources)])))
    wanted = [p for p in model.parameters() if p.requires_grad]
    return [found, *(g for g in torch.autograd.grad(found.square().sum(), wanted, allow_unused=True) if g is not None)]


@choices
@pytest.mark.slow
def test_words_that_are_compiled_are_the_same(choice: dict[str, Any]) -> None:
    model, last = built(**choice).train(), [5, 6, TURN, 8, 4, EOS]
    some, others = (
        [[4, 5, 6, 7, 5, TURN, 6, TURN, 7, 8, 9, EOS], last],
        [[4, 9, 5, TURN, 7, 8, TURN, 5, 5, 4, 4, 5, 6, EOS], last],
    )
    expected = [learned(model, sources) for sources in (some, others)]
    model.decoder.compile(fullgraph=True, backend="eager")
    found = [learned(model, some)]
    with torch.compiler.set_stance("fail_on_recompile"):  # other lengths, as many turns
        found.append(learned(model, others))
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@choices
def test_words_that_are_compiled_are_the_same_on_a_gpu(choice: dict[str, Any]) -> None:
    model = built(**choice).cuda().train()
    with torch.backends.cudnn.flags(allow_tf32=False):
        expected = learned(model, SOURCES, "cuda")
        compile_stacks(model)
        assert model.decoder.fused is not None
        torch.testing.assert_close(learned(model, SOURCES, "cuda"), expected, atol=1e-4, rtol=1e-3)

"""Recurrent encoder-decoders against their papers' formulas written out word by word with torch's cells; what a probe sees of
them; and searches over them against trying everything.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import UserError
from regard.core.packing import Packing
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.model.probe import probe
from regard.model.recurrent.encoder import own
from regard.text.specials import PAD
from tests.decode.searches import beam_search, greedy
from tests.decode.tape import TapeRecorder
from tests.decode.toy import divisor
from tests.families.counting import count_pair

WORDS = 13
SOS, EOS = 1, 2
CHOICES = [
    dict(attention="none", cell="lstm"),
    dict(attention="bahdanau", cell="gru"),
    dict(attention="bahdanau", cell="lstm", mixer="bilinear"),
    dict(attention="luong", cell="lstm", input_feeding=True),
    dict(attention="luong", cell="gru", mixer="additive", input_feeding=True),
    dict(attention="luong", cell="lstm", mixer="dot"),
]


def named(choice: dict) -> str:
    return " ".join(map(str, choice.values()))


def built(seed: int = 1, **choices) -> Recurrent:
    return Recurrent(RecurrentConfig(**(dict(width=8, dropout=0.0) | choices)), WORDS, WORDS, seed).eval()


def inputs(batch: int = 3, source: int = 6, target: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(2)
    lengths = torch.randint(1, source + 1, (batch,), generator=g)
    return torch.randint(4, WORDS, (batch, source), generator=g), lengths, torch.randint(4, WORDS, (batch, target), generator=g)


def cell_of(model: Recurrent) -> nn.LSTMCell | nn.GRUCell:
    (layer,) = model.decoder.recurrence.layers
    cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[model.config.cell](layer.input_size, layer.hidden_size)
    for theirs, ours in zip(cell.parameters(), own(layer)):
        theirs.data = ours.data
    return cell


def look(model: Recurrent, s_D: Tensor, memory_MD: Tensor) -> Tensor:
    """One context, by the formula of the score."""
    aligner = model.decoder.aligner
    match model.config.score:
        case "dot":
            scores = [s_D @ h for h in memory_MD]
        case "bilinear":
            scores = [s_D @ aligner.keys.weight @ h for h in memory_MD]
        case "additive":
            inner = [aligner.query.weight @ s_D + aligner.keys.weight @ h for h in memory_MD]
            scores = [aligner.mixer.weight_K @ each.tanh() for each in inner]
    weights = torch.stack(scores).softmax(0)
    return sum(weight * h for weight, h in zip(weights, memory_MD))


def by_the_paper(model: Recurrent, source_M: Tensor, target_L: Tensor) -> Tensor:
    """logits_LV of one pair, one word at a time."""
    decoder, cell = model.decoder, cell_of(model)
    memory_1MD, end_1D = model.encoder(model.source(source_M[None]), torch.tensor([len(source_M)]))
    begin = model.begin(end_1D).tanh().view(-1, model.config.width)
    h, c, o, out = begin[0], begin[-1], torch.zeros(model.config.width), []

    def taken(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(cell, nn.GRUCell):
            return cell(x[None], h[None])[0], c
        return tuple(part[0] for part in cell(x[None], (h[None], c[None])))

    for y in model.target(target_L[None])[0]:
        match model.config.attention:
            case "none":
                h, c = taken(y, h, c)
                o = h
            case "bahdanau":
                seen = look(model, h, memory_1MD[0])
                h, c = taken(torch.cat([y, seen]), h, c)
                o = decoder.deep(torch.cat([h, y, seen])).view(-1, 2).max(1).values
            case "luong":
                h, c = taken(torch.cat([y, o]) if model.config.input_feeding else y, h, c)
                o = decoder.combine(torch.cat([look(model, h, memory_1MD[0]), h])).tanh()
        out.append(model.head(o))
    return torch.stack(out)


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_it_computes_what_the_paper_says_in_values_and_gradients(choice):
    model = built(**choice)
    source, lengths, target = inputs()
    found = model(source, lengths, target)
    expected = torch.stack([by_the_paper(model, row[:n], words) for row, n, words in zip(source, lengths, target)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    weight = torch.randn_like(found)
    cell = {id(p) for layer in model.decoder.recurrence.layers for p in layer.parameters()}  # the copy's gradients are its own
    learned = [p for p in model.parameters() if id(p) not in cell]
    for a, b in zip(*(torch.autograd.grad((each * weight).sum(), learned) for each in (found, expected))):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("choice", CHOICES[1:], ids=named)
def test_a_probe_sees_every_word_look_and_a_gate_closes_its_eyes(choice):
    model = built(**choice, layers=2)
    source, lengths, target = inputs()
    with torch.no_grad(), probe(model) as seen:
        logits = model(source, lengths, target)
    (name,) = seen
    assert name == ("decoder.0.cross" if choice["attention"] == "bahdanau" else "decoder.1.cross")
    weights_BLM = seen[name].weights()[:, 0]
    assert weights_BLM.shape == (3, 5, 6)
    torch.testing.assert_close(weights_BLM.sum(-1), torch.ones(3, 5))
    for weights_LM, length in zip(weights_BLM, lengths.tolist()):
        assert not weights_LM[:, length:].any()
    with torch.no_grad(), probe(model, {name: torch.zeros(1)}):
        assert not torch.allclose(model(source, lengths, target), logits)
    gate = torch.ones(1, requires_grad=True)
    with probe(model, {name: gate}):
        F.cross_entropy(model(source, lengths, target).flatten(0, 1), target.flatten()).backward()
    assert gate.grad.abs() > 0


def test_a_window_is_seen_around_the_place_of_the_word():
    model = built(visibility="window(1)", input_feeding=True)
    source, _, target = inputs(batch=1, target=8)
    with torch.no_grad(), probe(model) as seen:
        model(source, torch.tensor([6]), target)
    weights_LM = seen["decoder.0.cross"].weights()[0, 0]
    sees = (torch.arange(8)[:, None] - torch.arange(6)).abs() <= 1
    assert torch.equal(weights_LM > 0, sees)


def everything(model: Recurrent, source: Tensor, limit: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every output of three words that ends within the limit, best first."""
    words = [w for w in range(WORDS) if w > EOS][:3]
    found = []
    for length in range(limit):
        for ids in product(words, repeat=length):
            target = torch.tensor([[SOS, *ids]])
            logprob = model(source, torch.tensor([source.shape[1]]), target)[0].double().log_softmax(-1)
            total = sum(logprob[t, w].item() for t, w in enumerate([*ids, EOS]))
            found.append((total / divisor(length + 1, alpha), ids))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("choice", [CHOICES[0], CHOICES[1], CHOICES[3]], ids=named)
@torch.no_grad()
def test_a_wide_beam_finds_the_best_of_all_outputs(choice):
    model, limit = built(seed=4, **choice), 4
    banned = [PAD, SOS, *[w for w in range(WORDS) if w > EOS][3:]]
    source, lengths, _ = inputs()
    for row, length in zip(source, lengths.tolist()):
        reading = model.start(row[None, :length], torch.tensor([length]))
        (found,) = beam_search(reading, sos=SOS, eos=EOS, beam=3**limit, alpha=0.6, limits=[limit], n_best=5, banned=banned)
        expected = everything(model, row[None, :length], limit, alpha=0.6)
        assert [tuple(h.ids) for h in found] == [ids for _, ids in expected[:5]]
        for hypothesis, (score, _) in zip(found, expected):
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


@torch.no_grad()
def test_sentences_are_searched_alike_alone_and_in_a_batch():
    model = built(seed=4, attention="bahdanau", cell="gru")
    source, lengths, _ = inputs(batch=5)
    together = greedy(model.start(source, lengths), sos=SOS, eos=EOS, limits=[6] * 5, banned=[PAD, SOS])
    for row, length, found in zip(source, lengths.tolist(), together):
        reading = model.start(row[None, :length], torch.tensor([length]))
        (alone,) = greedy(reading, sos=SOS, eos=EOS, limits=[6], banned=[PAD, SOS])
        assert alone.ids == found.ids
        assert alone.logprob == pytest.approx(found.logprob, abs=1e-5)


def test_scheduled_sampling_tells_the_decoder_its_own_words_by_counted_draws():
    model = built(scheduled_sampling=1.0, input_feeding=True)
    source, lengths, target = inputs(target=6)
    target[1, 4:] = PAD
    given_to: list[Tensor] = []
    model.target.register_forward_pre_hook(lambda _, given: given_to.append(given[0]))
    model.train()
    torch.manual_seed(7)
    first = model(source, lengths, target)
    told, own_words = given_to
    assert torch.equal(told, target)
    assert torch.equal(own_words[:, 0], target[:, 0])
    assert torch.equal(own_words[1, 4:], target[1, 4:])
    assert (own_words[0, 1:] != target[0, 1:]).any()
    torch.manual_seed(7)
    assert torch.equal(model(source, lengths, target), first)
    first.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    given_to.clear()
    model.eval()(source, lengths, target)
    assert len(given_to) == 1


@pytest.mark.parametrize(
    "choice", [*CHOICES, dict(input_feeding=True, visibility="window(2)", scheduled_sampling=0.5)], ids=named
)
def test_a_training_step_and_a_decoding_step_can_be_recorded(choice):
    """Nothing is asked of the host in the middle; the tape refuses what a capture refuses, and cannot rewind a CPU's own GRU."""
    model, given = built(**choice | dict(cell="lstm")).train(), inputs()
    TapeRecorder().record(lambda: F.cross_entropy(model(*given).flatten(0, 1), given[2].flatten()).backward())
    reading = model.eval().start(*given[:2])
    state = reading.make_state(3, 2, 4, fixed=True)
    state.load(reading, [4] * 3)

    def step() -> None:
        state.step(given[2][:, :1].expand(-1, 2))
        state.select(torch.zeros(3, 2, dtype=torch.long))

    TapeRecorder().record(step)


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_half_precision_is_near_whole(choice):
    model = built(**choice).train()
    with torch.autocast("cpu", torch.bfloat16):
        half = model.hidden(*inputs())
    assert half.dtype == torch.bfloat16
    half.float().sum().backward()
    torch.testing.assert_close(half.float(), model.hidden(*inputs()), atol=0.05, rtol=0.05)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


CONFIGS = st.builds(
    lambda cell, half, layers, both, attention, mixer, feeding, tie: RecurrentConfig(
        cell=cell,
        width=2 * half,
        layers=layers,
        bidirectional=both,
        attention=attention,
        mixer="" if attention == "none" else mixer,
        input_feeding=feeding and attention == "luong",
        tie=tie,
    ),
    st.sampled_from(["lstm", "gru"]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["none", "bahdanau", "luong"]),
    st.sampled_from(["", "softmax", "dot", "bilinear", "additive"]),
    st.booleans(),
    st.sampled_from(["all", "output", "none"]),
)


@given(CONFIGS, st.integers(5, 30), st.integers(5, 30))
@settings(max_examples=25)
def test_parameters_are_those_of_the_module(config, source, target):
    target = source if config.tie == "all" else target
    model = Recurrent(config, source, target)
    assert count_pair(config, source, target, 3, 3).parameters == sum(p.numel() for p in model.parameters())


@given(CONFIGS, st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=10)
def test_operations_are_those_torch_counts(config, source, target):
    """The scores of an additive mixer apart: torch's counter takes a product with one vector for none."""
    model = Recurrent(config, 11, 11).eval()
    ids, lengths = torch.zeros(1, source, dtype=torch.long), torch.tensor([source])
    with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(ids, lengths, torch.zeros(1, target, dtype=torch.long))
    scores = 2 * source * target * config.width if config.score == "additive" else 0
    assert counter.get_total_flops() == count_pair(config, 11, 11, source, target).flops - scores


def test_packed_rows_are_refused_with_a_reason():
    source, _, target = inputs(batch=1)
    assert not RecurrentConfig().packable
    with pytest.raises(TypeError, match="padded for it, not packed end to end"):
        built().hidden(source, Packing.of([2, 4]), target, Packing.of([2, 3]))


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        (dict(width=0), "model.width=0 must be at least 1"),
        (dict(layers=0), "model.layers=0 must be at least 1"),
        (dict(width=7), "model.width=7 cannot be halved between two ways of reading; give an even number"),
        (dict(dropout=1.0), "model.dropout=1.0 must be at least 0 and less than 1"),
        (dict(scheduled_sampling=25.0), "is a share of words; give a number from 0 to 1"),
        (dict(mixer="favor"), "model.mixer=favor does not score single words"),
        (dict(mixer="adition"), "did you mean 'additive'"),
        (dict(visibility="causal"), "give full, or a window such as window"),
        (dict(attention="none", mixer="dot"), "model.attention=none looks at nothing"),
        (dict(attention="bahdanau", input_feeding=True), "is for model.attention=luong, not for bahdanau"),
    ],
)
def test_settings_that_cannot_be_are_refused(given_, told):
    with pytest.raises(UserError, match=told):
        RecurrentConfig(**given_)
    assert RecurrentConfig(width=7, bidirectional=False).score == "bilinear"

"""The captioner against Show, Attend and Tell's formulas written out word by word, and against the parts it is made of."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.beam import beam_search
from regard.decode.search import greedy
from regard.families.captioner import Captioner, CaptionerConfig, LSTMWriter
from regard.model.probe import probe
from tests.families.counting import count

WORDS = 13
BLOCKS = dict(heads=2, feedforward=24)


def built(encoder: str = "cnn", decoder: str = "lstm", **choices) -> Captioner:
    blocks = BLOCKS if (encoder, decoder) != ("cnn", "lstm") else {}
    config = CaptionerConfig(
        **(dict(encoder=encoder, decoder=decoder, width=16, layers=1, image_size=16, patch=4, dropout=0.0) | blocks | choices)
    )
    return Captioner(config, WORDS, seed=5).eval()


def images(batch: int = 2, side: int = 16, seed: int = 1) -> Tensor:
    return torch.randint(0, 256, (batch, side, side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def by_the_paper(model: Captioner, image: Tensor, target_L: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and weights, by sections 3.1.2 and 4.2: one cell, one vector, one word at a time."""
    writer = model.writer
    assert isinstance(writer, LSTMWriter)
    layer, aligner, width = writer.decoder.recurrence.layers[0], writer.decoder.aligner, model.config.width
    cell = torch.nn.LSTMCell(2 * width, width)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    cells_MD = model.encoder(image[None])[0]
    h, c = torch.tanh(writer.begin.weight @ cells_MD.mean(0) + writer.begin.bias).split(width)
    logits, weights = [], []
    for word in target_L:
        scores_M = torch.stack(
            [aligner.mixer.weight_K @ torch.tanh(aligner.query.weight @ h + aligner.keys.weight @ a) for a in cells_MD]
        )
        weights.append(scores_M.softmax(0))
        found = sum(share * a for share, a in zip(weights[-1], cells_MD))
        y = writer.target.tokens.weight[word] * width**0.5
        h, c = (part[0] for part in cell(torch.cat([y, found])[None], (h[None], c[None])))
        out = writer.decoder.deep.weight @ torch.cat([h, y, found]) + writer.decoder.deep.bias
        logits.append(writer.head.project.weight @ out.view(-1, 2).max(1).values)
    return torch.stack(logits), torch.stack(weights)


@torch.no_grad()
def test_the_lstm_looks_and_writes_as_the_paper_says() -> None:
    model, pixels, target = built(mixer="additive"), images(), torch.tensor([[1, 4, 5, 9], [1, 12, 7, 7]])
    with probe(model) as seen:
        logits = model(pixels, target)
    for n in range(2):
        expected, weights = by_the_paper(model, pixels[n], target[n])
        torch.testing.assert_close(logits[n], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(seen["decoder.0.cross"].weights()[n, 0], weights, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("encoder", "decoder"), list(product(["cnn", "patches"], ["lstm", "transformer"])))
@torch.no_grad()
def test_every_cell_can_be_looked_at_and_every_attention_has_its_name(encoder: str, decoder: str) -> None:
    model = built(encoder, decoder, layers=2)
    with probe(model) as seen:
        model(images(), torch.tensor([[1, 4, 5], [1, 6, 7]]))
    assert list(seen) == model.config.attentions
    for name in seen:
        if name.endswith("cross"):
            weights = seen[name].weights()
            assert weights.shape[-1] == model.config.cells == 16
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
            assert (weights > 0).all()


@torch.no_grad()
def test_patches_see_each_other_only_where_visibility_lets_them() -> None:
    model = built("patches", "transformer", visibility="image_local_2d(4, 1, 1, 1, 1)")
    pixels = images(1)
    changed = pixels.clone()
    changed[:, 12:, 12:] = 255 - changed[:, 12:, 12:]  # the last of 4 x 4 patches
    same = (model.encoder(pixels) - model.encoder(changed)).abs().amax((0, 2)) == 0
    assert (~same).nonzero().flatten().tolist() == [10, 11, 14, 15]


def everything(model: Captioner, image: Tensor, limit: int) -> dict[tuple[int, ...], float]:
    """Log-probability of every caption of at most `limit` tokens, the end (2) counted."""
    found: dict[tuple[int, ...], float] = {}
    for length in range(limit):
        for words in product(range(3, WORDS), repeat=length):
            target = torch.tensor([[1, *words]])
            chances = model(image[None], target)[0].log_softmax(-1)
            found[words] = float(chances[range(length + 1), [*words, 2]].sum())
    return found


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@torch.no_grad()
def test_a_beam_that_keeps_everything_finds_the_best_caption(decoder: str) -> None:
    model, pixels = built(decoder=decoder), images(1, seed=8)
    every = everything(model, pixels[0], 3)
    (found,), *_ = beam_search(
        model.start(pixels), 1, sos=1, eos=2, beam=120, alpha=0.0, maximum=[3], minimum=0, n_best=1, banned=(0, 1)
    )
    best = max(every, key=lambda words: every[words])
    assert tuple(found.ids) == best
    assert found.logprob == pytest.approx(every[best], abs=1e-4)


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@torch.no_grad()
def test_captions_of_a_batch_are_those_of_its_images_alone(decoder: str) -> None:
    model, pixels = built(decoder=decoder), images(5, seed=3)
    together = greedy(model.start(pixels), 5, sos=1, eos=2, maximum=[9] * 5, banned=(0, 1))
    for n in range(5):
        (alone,) = greedy(model.start(pixels[n : n + 1]), 1, sos=1, eos=2, maximum=[9], banned=(0, 1))
        assert alone.ids == together[n].ids


CHOICES = st.builds(
    lambda encoder, decoder, wide, layers, position, patch, tie, mixer: dict(
        encoder=encoder, decoder=decoder, width=8 * wide, layers=layers, position=position, patch=patch, tie=tie, mixer=mixer,
        image_size=2 * patch, maximum_length=11,
        **({} if (encoder, decoder) == ("cnn", "lstm") else dict(heads=2, feedforward=12)),
    ),
    st.sampled_from(["cnn", "patches"]),
    st.sampled_from(["lstm", "transformer"]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(["sinusoidal", "learned", "none"]),
    st.sampled_from([2, 4, 8]),
    st.sampled_from(["output", "none"]),
    st.sampled_from(["additive", "softmax", "dot", "bilinear"]),
)  # fmt: skip


@settings(max_examples=25)
@given(CHOICES)
def test_counted_parameters_are_those_there_are(choices: dict) -> None:
    config = CaptionerConfig(**choices)
    model = Captioner(config, 11)
    assert count(config, 11, 5).parameters == sum(p.numel() for p in model.parameters())
    assert config.attentions == [name for name in config.attentions if name.startswith(("encoder.", "decoder."))]


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (dict(image_size=60, patch=8), "not a multiple"),
        (dict(patch=1), "at least 2"),
        (dict(image_size=60, patch=6), "halved"),
        (dict(visibility="window(2)"), "model.encoder=patches"),
        (dict(encoder_layers=2), "model.encoder=patches"),
        (dict(mixer="favor"), "does not score single cells"),
        (dict(width=30, heads=3, decoder="transformer"), "multiple of 4"),
        (dict(heads=4), "there are none in a cnn and an lstm"),
        (dict(feedforward=64), "there are none in a cnn and an lstm"),
        (dict(decoder_layers=-1), "0 .as model.layers. or more"),
    ],
)
def test_settings_that_cannot_be_or_would_do_nothing_are_refused(choices: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        CaptionerConfig(**choices)

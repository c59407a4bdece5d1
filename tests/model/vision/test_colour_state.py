"""Colours drawn one by one have the probability that the model gives to the whole pixels."""

import torch

from regard.decode.config import Sampling
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.model.state.protocol import RowCompaction
from regard.model.vision.colour_state import ColourByColour
from regard.model.vision.logistic import coupled_likelihood, next_colour

CONFIG = ImageTransformerConfig(
    width=24, heads=2, layers=2, feedforward=32, dropout=0.0, image_size=4, levels=6, output="logistic", coupled=True, mixtures=3
)


def model() -> ImageTransformer:
    built = ImageTransformer(CONFIG, 3).eval()
    built.head.project.bias.data += torch.randn(built.head.project.bias.shape)
    return built


def drawn(built: ImageTransformer, given: list[list[int]], seeds: list[int]) -> list:
    """Images of which some pixels are given, in one batch."""
    order = built.order
    prompts = [order.ids(torch.tensor([level], dtype=torch.long))[0] for level in given]
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts])
    ids = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt) - 1] = prompt[:-1]
    request = SearchRequest(
        encoded=ColourByColour(built.start(ids, lengths)),
        sos=torch.stack([prompt[-1] for prompt in prompts]),
        eos=-1,
        limits=[48 - len(level) for level in given],
        method=Sampling(),
        seeds=seeds,
    )
    return [found for (found,) in search(request)]


@torch.no_grad()
def test_what_is_drawn_is_as_likely_as_it_was_drawn():
    built, given = model(), [[], [1, 2, 3, 4, 5, 0], [0, 0, 1]]
    found = drawn(built, given, [5, 6, 7])
    for level, hypothesis in zip(given, found):
        whole = torch.tensor([[*level, *hypothesis.ids]])
        assert whole.shape == (1, 48)
        numbers = built(built.order.ids(whole)[:, :-1])
        per_pixel = coupled_likelihood(numbers, whole.unflatten(1, (-1, 3)), 6)[0, len(level) // 3 :]
        torch.testing.assert_close(torch.tensor(hypothesis.logprob), per_pixel.sum(), atol=1e-3, rtol=1e-4)


def test_an_image_does_not_depend_on_its_neighbours():
    built = model()
    alone = drawn(built, [[1, 2, 3]], [6])[0].ids
    assert drawn(built, [[], [1, 2, 3], [0, 0, 0, 1, 1, 1]], [5, 6, 7])[1].ids == alone


@torch.no_grad()
def test_lanes_and_sentences_move_with_the_pixel_they_are_in():
    """Selected in the middle of a pixel: the conditionals are those of the pixel that the lane took over."""
    built = model()
    start = built.order.ids(torch.zeros(2, 0, dtype=torch.long))
    state = ColourByColour(built.start(start[:, :0], torch.tensor([0, 0]))).make_state(2, 2, 9, fixed=False)
    encoded = ColourByColour(built.start(start[:, :0], torch.tensor([0, 0])))
    state.load(encoded, [9, 9])
    state.grow(4)
    state.step(start.expand(2, 2))
    red = torch.tensor([[1, 2], [3, 4]])
    state.step(red)
    state.select(torch.tensor([[1, 1], [0, 1]]))
    state.compact(RowCompaction.of([1], torch.device("cpu")))
    found = state.step(torch.tensor([[0, 5]]))
    numbers = built(start[:1])[0]
    for lane, (first, second) in enumerate([(3, 0), (4, 5)]):
        expected = next_colour(numbers, torch.tensor([[first, second, 0]]), 2, 6)[0]
        torch.testing.assert_close(found[0, lane], expected, atol=1e-5, rtol=1e-4)
    pixel = state.step(torch.tensor([[2, 2]]))
    ids = built.order.ids(torch.tensor([[3, 0, 2], [4, 5, 2]]))
    expected = next_colour(built(ids)[:, -1], torch.zeros(2, 3, dtype=torch.long), 0, 6)
    torch.testing.assert_close(pixel[0], expected, atol=1e-5, rtol=1e-4)

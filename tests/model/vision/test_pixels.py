"""The order of pixels, their places and what they see, each against a plain loop over rows, columns and colours."""

import pytest
import torch

from regard.model.embedding import Pixels
from regard.model.sparse import dispatch
from regard.model.visibility import causal, dense, full
from regard.model.visibility.parse import parse_visibility
from regard.model.vision.pixels import AfterPrefix, CoupledTokens, GridPositions, PixelOrder, after_prefix

CPU = torch.device("cpu")


def places_by_hand(order: PixelOrder) -> list[tuple[int, int]]:
    scale = order.side // order.small if order.small else 0
    small = [
        (y * scale + scale // 2, (x * scale + scale // 2) * order.tokens + c)
        for y in range(order.small)
        for x in range(order.small)
        for c in range(order.tokens)
    ]
    image = [(y, x * order.tokens + c) for y in range(order.side) for x in range(order.side) for c in range(order.tokens)]
    return [*small, (-1, order.columns - 1), *image][: order.length]


@pytest.mark.parametrize("order", [PixelOrder(4, 9), PixelOrder(3, 5, tokens=3), PixelOrder(6, 7, tokens=3, small=2)])
def test_places(order):
    row, column = order.places(torch.arange(order.length))
    assert list(zip(row.tolist(), column.tolist())) == places_by_hand(order)


def test_ids_of_small_image_class_and_pixels():
    order = PixelOrder(2, 10, classes=3, small=1)
    ids = order.ids(torch.tensor([[4, 5, 6, 7]]), torch.tensor([2]), torch.tensor([[9]]))
    assert ids.tolist() == [[10 + 3 + 9, 10 + 2, 4, 5, 6, 7]]
    assert order.rows == 2 * 10 + 3
    assert int(ids.max()) < order.rows
    assert ids.shape[1] - 1 == order.length
    assert PixelOrder(2, 10).ids(torch.zeros(1, 0, dtype=torch.uint8)).tolist() == [[10]]


def test_coupled_levels_become_one_number_and_come_apart_again():
    order, level = PixelOrder(4, 256, coupled=True), torch.randint(256, (3, 48))
    joined = order.joined(level)
    assert joined.shape == (3, 16)
    assert joined[0, 0] == level[0, 0] * 65536 + level[0, 1] * 256 + level[0, 2]
    assert torch.equal(order.apart(joined), level)


def test_waves_are_those_of_pixels_elsewhere():
    """Those of the Long Range Arena's images, which have no colours and nothing before them."""
    at = torch.arange(49)
    assert torch.equal(GridPositions(32, PixelOrder(7, 2), learned=False).embed(at), Pixels(32, 7).embed(at))


def test_learned_positions_are_a_row_beside_a_column():
    order = PixelOrder(3, 5, tokens=3)
    positions = GridPositions(8, order, learned=True)
    found = positions.embed(torch.arange(order.length))
    for at, (row, column) in enumerate(places_by_hand(order)):
        assert torch.equal(found[at], torch.cat([positions.row.weight[row + 1], positions.column.weight[column]]))


def test_a_coupled_pixel_is_the_sum_of_its_colours():
    order = PixelOrder(4, 5, coupled=True, classes=2, small=2)
    tokens = CoupledTokens(order, 6)
    assert tokens.weight.shape == (order.rows, 6)
    level, small = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 0, 2]])
    ids = order.ids(level, torch.tensor([1]), small)
    w = tokens.weight
    expected = [w[17 + 4] + w[17 + 5] + w[17 + 12], w[15 + 1], w[1] + w[5 + 2] + w[10 + 3]]
    torch.testing.assert_close(tokens(ids)[0], torch.stack(expected))


PATTERNS = ["window(2)", "image-local-1d(4, 4)", "image-local-2d(6, 2, 3, 1, 2)", "block(3)"]


@pytest.mark.parametrize("text", PATTERNS)
def test_everything_sees_the_prefix_and_the_image_as_without_it(text):
    pattern, prefix, image = parse_visibility(text), 4, 36
    seen = dense(causal & after_prefix(pattern, prefix), torch.arange(prefix + image), prefix + image)[0, 0]
    alone = dense(causal & pattern, torch.arange(image), image)[0, 0]
    for i in range(prefix + image):
        for j in range(prefix + image):
            expected = j <= i if j < prefix else i >= prefix and bool(alone[i - prefix, j - prefix])
            assert bool(seen[i, j]) == expected, (i, j)


@pytest.mark.parametrize("prefix", [3, 4, 8])
@pytest.mark.parametrize("text", PATTERNS)
def test_blocks_say_the_same_as_pairs(text, prefix):
    """`some` is true wherever a pair sees, `every` only where all do."""
    from regard.model.sparse.blocks import between_blocks

    pattern, length, size = AfterPrefix(parse_visibility(text), prefix), prefix + 36, 4
    pairs = dense(pattern, torch.arange(length), length)[0, 0]
    found = between_blocks(pattern, length, length, size, batch=1, offset=0, device=CPU)
    for q in range(found.some.shape[1]):
        for k in range(found.some.shape[2]):
            block = pairs[q * size : (q + 1) * size, k * size : (k + 1) * size]
            assert bool(found.some[0, q, k]) >= bool(block.any())
            assert bool(found.every[0, q, k]) <= bool(block.all())


def test_without_a_prefix_or_a_pattern_nothing_is_added():
    assert after_prefix(full, 9) is full
    window = parse_visibility("window(2)")
    assert after_prefix(window, 0) is window
    assert str(after_prefix(window, 3)) == "window(2)"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("text", "most"), [("image-local-1d(256, 256)", 0.2), ("image-local-2d(96, 8, 24, 8, 24)", 0.35)])
def test_neighbourhoods_of_cifar_are_computed_in_a_fraction_of_all_blocks(text, most, device):
    """Of 3,072 tokens, with 192 of a small image before them or none; causal alone needs half of all blocks."""
    for prefix in (0, 192):
        pattern, tokens = causal & after_prefix(parse_visibility(text), prefix), 3072 + prefix
        choice = dispatch.choose(pattern, tokens, tokens, 0, device)
        assert choice.size
        assert choice.share < most + bool(prefix) * 0.15

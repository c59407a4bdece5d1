"""Tokens of an image against torch's own convolutions and pooling; sizes that leave none are refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.model.vision.tokens import ConvolutionTokens, PatchTokens, TokenEmbedding, TokenSettings, grid_of


def image(rows: int, columns: int, colours: int = 3) -> torch.Tensor:
    return torch.randint(0, 256, (2, rows, columns, colours), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def pixels(c: TokenSettings, image_BYXC: torch.Tensor) -> torch.Tensor:
    return c.as_numbers(image_BYXC, torch.float32).permute(0, 3, 1, 2)


@settings(max_examples=15)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 3]))
def test_patches_are_a_convolution_that_never_overlaps(size: int, rows: int, columns: int, colours: int) -> None:
    c = TokenSettings(patch=size, image_size=size, colours=colours, pixel_mean=(0.3,) * colours, pixel_deviation=(0.2,) * colours)
    cells, x = PatchTokens(c, 7), image(rows * size, columns * size, colours)
    kernel = cells.project.weight.unflatten(1, (size, size, colours)).permute(0, 3, 1, 2)
    expected = F.conv2d(pixels(c, x), kernel, cells.project.bias, stride=size).flatten(2).mT
    torch.testing.assert_close(cells(x), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(cells.image(cells.numbers(x), columns), x.float(), atol=1e-4, rtol=0)


@settings(max_examples=25)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 4), st.integers(4, 17), st.integers(4, 17))
def test_convolutions_have_the_grid_that_is_foretold(kernel: int, layers: int, pool: int, rows: int, columns: int) -> None:
    c = TokenSettings(tokens="convolutions", token_kernel=kernel, token_layers=layers, token_pool=pool, image_size=64)
    try:
        grid = grid_of(c, rows, columns)
    except UserError:
        return  # nothing is left of so small an image
    x_BCYX, cells = pixels(c, image(rows, columns)), ConvolutionTokens(c, 5)
    for layer in cells.layers:
        x_BCYX = F.relu(F.conv2d(x_BCYX, layer.weight, stride=max(1, kernel // 2 - 1), padding=kernel // 2))
        x_BCYX = F.max_pool2d(x_BCYX, pool, 2, pool // 2) if pool else x_BCYX
    assert tuple(x_BCYX.shape[2:]) == tuple(grid)
    torch.testing.assert_close(cells(image(rows, columns)), x_BCYX.flatten(2).mT)


def embedding(**choices) -> TokenEmbedding:
    given = dict(image_size=12, patch=4, position="learned", width=8, dropout=0.0, antialias=False) | choices
    c = SimpleNamespace(**(vars(TokenSettings(image_size=12, patch=4)) | given))
    c.as_numbers = TokenSettings(image_size=12, patch=4).as_numbers
    found = TokenEmbedding(c, ("class", "distillation"))
    for p in found.parameters():
        torch.nn.init.normal_(p, generator=torch.Generator().manual_seed(1))
    return found


def test_learned_tokens_stand_in_front_and_have_places_of_their_own() -> None:
    embed, x = embedding(), image(12, 12)
    cells = embed.cells(x)
    expected = torch.cat([torch.stack([embed.class_token, embed.distillation_token]).expand(2, -1, -1), cells], 1)
    torch.testing.assert_close(embed(x).x_BMD, expected + embed.vectors.table_MD)


@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_kept_cells_have_the_places_they_had(position: str) -> None:
    embed, x = embedding(position=position), image(12, 12)
    kept = torch.tensor([[4, 0, 8], [1, 7, 2]])
    whole, part = embed(x), embed(x, kept)
    for row in range(2):
        chosen = [0, 1, *(kept[row] + 2)]
        torch.testing.assert_close(part.x_BMD[row], whole.x_BMD[row, chosen])
        if position == "rotary":
            assert torch.equal(part.at_BM2[row], whole.at_BM2[0, chosen])


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (dict(patch=5), "12 x 12 pixels does not divide into patches of model.patch=5; give 10 x 10"),
        (dict(tokens="convolutions", token_layers=3, token_kernel=9, token_pool=3, patch=16, image_size=2), None),
        (dict(tokens="convolutions"), "model.patch=4 is for model.tokens=patches"),
        (dict(token_layers=2), "model.token_layers=2 is for model.tokens=convolutions"),
        (dict(pixel_mean=(0.1, 0.2)), "model.pixel_mean has 2 numbers"),
    ],
)
def test_settings_that_leave_nothing_or_do_nothing_are_refused(choices: dict, told: str | None) -> None:
    c = TokenSettings(**(dict(image_size=12, patch=4) | choices))
    if told is None:
        assert tuple(c.check_tokens() or grid_of(c, 2, 2)) == (1, 1)
        return
    with pytest.raises(UserError, match=told.replace("(", r"\(")):
        c.check_tokens()


@pytest.mark.parametrize("shape", [(2, 12, 12), (2, 12, 12, 1), (2, 3, 12, 12), (2, 13, 12, 3)])
def test_what_is_no_image_of_the_model_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"images of shape|does not divide"):
        embedding()(torch.zeros(shape, dtype=torch.uint8))

"""The races of pixels: every cell is a recipe that can be trained, and all systems draw images of the same model."""

from pathlib import Path

import pytest

from benchmarks import pixel_sampling, pixels
from regard.runs.recipe import load_recipe


@pytest.mark.parametrize("name", pixels.CELLS)
def test_every_cell_is_a_recipe(name: str) -> None:
    cell = pixels.CELLS[name]
    data = pixels.data_of(cell, Path("mnist"), Path("cifar"))
    recipe = load_recipe(cell.recipe, [*data, *cell.settings])
    model = recipe.model
    assert recipe.data.train != recipe.data.test
    assert (model.output == "categorical") == ("categorical" in name)
    assert model.order.pixels == (784 if name.startswith("mnist") else 1024 if model.coupled else 3072)
    tiny = load_recipe(cell.recipe, [*data, *cell.settings, *pixels.TINY])
    assert tiny.train.steps == 2


def test_all_systems_draw_whole_images_and_linear_attention_keeps_less() -> None:
    models = pixel_sampling.Models(pixel_sampling.Cell(8, 12, 2, 32, 2, 2, 5, 10, slow=True))
    assert models.largest_difference() < 1e-4
    for drawn in (models.regard(), models.hugging_face(), models.no_cache(), models.regard("linear")):
        assert [len(image) for image in drawn] == [64, 64]
        assert max(max(image) for image in drawn) < 12
    two_layers = 2 * 64 * 32 * 4 * 2  # keys and values of 64 pixels, 32 wide, 4 bytes, in 2 layers
    assert two_layers <= models.kept("ours") < 1.5 * two_layers
    assert models.kept("linear") < models.kept("ours")

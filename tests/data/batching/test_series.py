"""Windows against slices of the table, scaling against numpy, splits against the published ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.data.batching.series import Scaling, WindowBatches, make_windows
from regard.data.series_config import SeriesConfig
from regard.data.sources.series import Series, SeriesTable

RANDOM = np.random.default_rng(0)


def table(*lengths: int, known: int = 0) -> SeriesTable:
    series = tuple(Series(str(n), RANDOM.normal(5, 3, (n, 2)), RANDOM.normal(size=(n, known)), None) for n in lengths)
    return SeriesTable(("a", "b"), tuple("ef"[:known]), series)


def test_windows_are_slices_of_each_series():
    made = table(20, 15, 9, known=1)
    scaling = Scaling.of(made, [20, 15, 9], 3)
    windows = make_windows(made, scaling, [(0, 20), (0, 15), (0, 9)], 6, 4)
    assert len(windows) == (20 - 9) + (15 - 9) + 0
    window = windows.batch(np.arange(len(windows))).window()
    expected = [
        np.concatenate(scaling.scaled(one), 1)[start : start + 10] for one in made.series for start in range(len(one) - 9)
    ]
    whole = torch.cat([torch.cat([window.past_BLC, window.future_BHC], 1), window.known_BME], -1)
    np.testing.assert_array_equal(whole.numpy(), np.stack(expected))
    assert window.past_BLC.shape[1:] == (6, 2)


def test_forecasts_lie_within_a_part_and_may_look_back():
    made = table(50)
    scaling = Scaling.of(made, [30], 3)
    train, valid = (make_windows(made, scaling, [span], 6, 4) for span in ((0, 30), (30, 40)))
    assert train.starts[-1] + 10 == 30
    assert valid.starts[0] + 6 == 30
    assert valid.starts[-1] + 10 == 40
    assert len(valid) == 7
    assert len(make_windows(made, scaling, [(0, 30)], 6, 4, stride=5)) == 5


def test_the_scale_is_that_of_training_alone():
    made = table(50)
    made.series[0].values_TC[40:] += 1000
    scaling = Scaling.of(made, [30], 3)
    x = made.series[0].values_TC[:30]
    np.testing.assert_allclose(scaling.mean, x.mean(0))
    np.testing.assert_allclose(scaling.deviation, x.std(0))
    np.testing.assert_allclose(scaling.season_error, np.abs(x[3:] - x[:-3]).mean(0))
    values, _ = scaling.scaled(made.series[0])
    np.testing.assert_allclose(scaling.units(values), made.series[0].values_TC, rtol=1e-4)


def test_a_scaling_is_read_back_and_a_damaged_one_refused(tmp_path):
    scaling = Scaling.of(table(20, known=1), [20], 3)
    scaling.save(tmp_path / "scaling.json")
    assert Scaling.load(tmp_path / "scaling.json") == scaling
    (tmp_path / "scaling.json").write_text('{"channels": ["a"]}')
    with pytest.raises(UserError, match="is damaged"):
        Scaling.load(tmp_path / "scaling.json")
    with pytest.raises(UserError, match="There is no scaling"):
        Scaling.load(tmp_path / "other.json")


def test_published_splits_have_their_published_windows():
    """ETTh1 at look-back 336 and horizon 96: 8,209 training windows and 2,785 for validation and test each."""
    made = SeriesTable(("a",), (), (Series("", np.zeros((17_420, 1)), np.zeros((17_420, 0)), None),))
    scaling, config = Scaling.of(made, [8640], 24), SeriesConfig(train=("x",), split="ett-hours")
    train, valid, test = config.borders(17_420)
    counts = [len(make_windows(made, scaling, [span], 336, 96)) for span in ((0, train), (train, valid), (valid, test))]
    assert counts == [8209, 2785, 2785]
    assert SeriesConfig(train=("x",)).borders(52_696) == (36_887, 52_696 - 10_539, 52_696)  # as for weather


def test_an_epoch_has_each_window_once_in_full_batches():
    made = table(40)
    windows = make_windows(made, Scaling.of(made, [40], 3), [(0, 40)], 6, 4)
    batches = WindowBatches(windows, 8, seed=1)
    plan = batches.plan(0)
    assert [len(rows) for rows in plan] == [8, 8, 8]
    assert len(np.unique(np.concatenate(plan))) == 24
    assert not np.array_equal(plan[0], batches.plan(1)[0])
    assert sum(batch.tokens for batch in windows.in_order(7)) == len(windows) == 31


def static_table(*cells: tuple[str, ...]) -> SeriesTable:
    made = table(*range(12, 12 + len(cells)))
    series = tuple(replace(one, static_S=cell) for one, cell in zip(made.series, cells))
    return replace(made, series=series, static=("kind", "size"))


def test_static_numbers_are_scaled_and_categories_are_ones_among_zeros(tmp_path):
    made = static_table(("town", "3"), ("village", "5"), ("town", "7"))
    scaling = Scaling.of(made, [12, 13, 14], 3)
    root = np.std([3, 5, 7])
    expected = np.array([[1, 0, -2 / root], [0, 1, 0], [1, 0, 2 / root]], np.float32)
    windows = make_windows(made, scaling, [(0, len(one)) for one in made.series], 6, 4)
    window = windows.batch(np.arange(len(windows))).window()
    np.testing.assert_allclose(window.static_BS.numpy(), np.repeat(expected, [3, 4, 5], 0), atol=1e-6)
    assert window.given[1] is None
    scaling.save(tmp_path / "scaling.json")
    assert Scaling.load(tmp_path / "scaling.json") == scaling


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (("city", "3"), "kind of series '12' is 'city', and training had one of town, village"),
        (("town", "big"), "size of series '12' is 'big', and training had a number"),
    ],
)
def test_static_cells_that_training_had_not_are_refused(cell, told):
    scaling = Scaling.of(static_table(("town", "3"), ("village", "5")), [12, 13], 3)
    with pytest.raises(UserError, match=told):
        scaling.must_suit(static_table(cell), "t.csv")

"""Tables of series: wide and long ones, dates and gaps, and what stands for empty cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.series_config import SeriesConfig
from regard.data.sources.series import next_dates, places, read_series


def read(path: Path, content: str | bytes, **settings: object):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_series((str(path),), SeriesConfig(train=(str(path),), **settings))


def test_a_wide_table_has_a_channel_in_each_column(tmp_path):
    found = read(tmp_path / "a.csv", "date,x,y\n2024-01-01,1,2.5\n2024-01-02,3,4\n")
    assert (found.channels, found.time) == (("x", "y"), "date")
    assert found.series[0].values_TC.tolist() == [[1, 2.5], [3, 4]]
    assert str(found.series[0].dates[1]) == "2024-01-02T00:00:00"


def test_a_long_table_has_several_series(tmp_path):
    rows = "shop,ds,y,promo\nb,2024-01-02,4,0\na,2024-01-01,1,1\nb,2024-01-01,3,0\na,2024-01-02,2,0\n"
    found = read(tmp_path / "a.csv", rows, series="shop", known=("promo",))
    assert [(one.name, one.values_TC.ravel().tolist(), one.known_TE.ravel().tolist()) for one in found.series] == [
        ("a", [1, 2], [1, 0]),
        ("b", [3, 4], [0, 0]),
    ]


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        ("x;y\n1,5;2\n3;4\n", {"decimal": "comma"}),
        ("x\ty\n1.5\t2\n3\t4\n", {}),
        ('x,y\n"1,5","2"\n3,4\n', {"decimal": "comma"}),
        ("x,name,y\n1.5,Paris,2\n3,Rome,4\n", {"columns": ("x", "y")}),
        ("x,y\n1.5,2\n3,4\n\n,\n", {}),
        (b"\xef\xbb\xbfx,y\r\n1.5,2\r\n3,4\r\n", {}),
    ],
)
def test_tables_are_written_in_many_ways(tmp_path, content, settings):
    found = read(tmp_path / "a.csv", content, **settings)
    assert found.channels == ("x", "y")
    assert found.series[0].values_TC.tolist() == [[1.5, 2], [3, 4]]


def test_a_latin_header_is_read_and_told(tmp_path):
    found = read(tmp_path / "a.csv", "x (\xb5mol),y\n1,2\n3,4\n".encode("latin-1"))
    assert found.channels[0] == "x (\xb5mol)"
    assert "Latin-1" in found.notes[0]


@pytest.mark.parametrize(("missing", "expected"), [("interpolate", [1, 2, 3, 4]), ("last", [1, 1, 1, 4])])
def test_empty_cells_and_left_out_times_are_filled(tmp_path, missing, expected):
    by_cell = read(tmp_path / "a.csv", "x\n1\nNaN\nna\n4\n5\n", missing=missing)
    assert by_cell.series[0].values_TC[:4, 0].tolist() == expected
    dated = "date,x\n2024-01-01 00:00,1\n2024-01-01 03:00,4\n2024-01-01 04:00,5\n2024-01-01 05:00,6\n"
    by_time = read(tmp_path / "a.csv", dated, missing=missing)
    assert by_time.series[0].values_TC[:4, 0].tolist() == expected
    assert str(by_time.series[0].dates[1]) == "2024-01-01T01:00:00"


def test_rows_are_put_in_order_and_zones_become_utc(tmp_path):
    found = read(tmp_path / "a.csv", "time,x\n2024-01-01T02:00:00+01:00,2\n2024-01-01T00:00:00Z,1\n2024-01-01T02:00Z,3\n")
    assert found.series[0].values_TC[:, 0].tolist() == [1, 2, 3]


def test_months_and_years_are_regular_steps():
    months = np.array(["2024-01-01", "2024-02-01", "2024-03-01", "2024-05-01"], "datetime64[s]")
    assert places(months).tolist() == [0, 1, 2, 4]
    assert [str(date)[:10] for date in next_dates(months[:3], 2)] == ["2024-04-01", "2024-05-01"]
    years = np.array(["2020-06-30", "2021-06-30", "2022-06-30"], "datetime64[s]")
    assert places(years).tolist() == [0, 1, 2]
    assert str(next_dates(years, 1)[0])[:10] == "2023-06-30"
    days = np.array(["2024-02-27", "2024-02-28"], "datetime64[s]")
    assert [str(date)[:10] for date in next_dates(days, 2)] == ["2024-02-29", "2024-03-01"]


def test_covariates_may_go_further_than_what_is_forecast(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,e\n1,0\n2,0\n,1\n,1\n")
    found = read_series((str(path),), SeriesConfig(train=("x",), known=("e",)), forecasts=True)
    assert np.isnan(found.series[0].values_TC[2:]).all()
    assert found.series[0].known_TE.ravel().tolist() == [0, 0, 1, 1]


def test_limit_takes_the_first_rows(tmp_path):
    assert len(read(tmp_path / "a.csv", "x\n1\n2\n3\n4\n", limit=3).series[0]) == 3


LONG = "shop,date,y,kind,size\n" + "".join(
    f"{shop},2024-01-{day:02d},{day},{kind},{size}\n"
    for shop, kind, size in (("a", "town", 3), ("b", "village", 5), ("c", "town", 7))
    for day in range(1, 13)
)


def test_static_columns_belong_to_a_series(tmp_path):
    found = read(tmp_path / "a.csv", LONG, series="shop", static=("kind", "size"))
    assert (found.channels, found.static) == (("y",), ("kind", "size"))
    assert [one.static_S for one in found.series] == [("town", "3"), ("village", "5"), ("town", "7")]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (LONG.replace("b,2024-01-05,5,village", "b,2024-01-05,5,town"), "kind changes within series 'b'"),
        (LONG.replace("village", ""), "kind is empty for series 'b'"),
    ],
)
def test_static_columns_that_are_none_are_refused(tmp_path, content, told):
    with pytest.raises(UserError, match=told):
        read(tmp_path / "a.csv", content, series="shop", static=("kind",))


def test_the_calendar_stands_behind_known_columns(tmp_path):
    found = read(tmp_path / "a.csv", LONG, series="shop", columns=("y",), known=("size",), calendar=("weekday", "month"))
    assert found.known == ("size", "weekday sin", "weekday cos", "month sin", "month cos")
    assert found.series[0].known_TE[0].tolist() == [3, 0, 1, 0, 1]  # a Monday in January
    with pytest.raises(UserError, match="is computed from dates"):
        read(tmp_path / "a.csv", "x\n1\n2\n", calendar=("hour",))

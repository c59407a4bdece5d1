"""Heat maps: the page runs nothing foreign, the sheet lights what was looked at, and numbers survive as they are."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import UserError
from regard.lens.analyses.image_heat import Heat
from regard.lens.plots.image_maps import lit
from regard.lens.result import save

IMAGE = np.random.default_rng(1).integers(100, 256, (32, 48, 3), np.uint8)


def some(words: tuple[str, ...] = ("two", "<b>red</b>", "circles"), peak: int = 5) -> Heat:
    maps = np.full((len(words), 4, 4), 0.02, np.float32)
    maps.reshape(len(words), 16)[:, peak] = 1 - 15 * 0.02
    return Heat(" ".join(words), IMAGE, words, maps, ("decoder.0.cross",))


def test_lines_say_where_each_word_looked_most() -> None:
    lines = some().lines()
    assert lines[0] == "two <b>red</b> circles"
    assert "decoder.0.cross; 4 × 4 cells" in lines[1]
    assert lines[3].split()[0] == "two"
    assert "0.70 at row 2, column 2" in lines[3]
    assert len(lines) == 6


def test_an_image_is_bright_at_the_peak_and_dark_elsewhere() -> None:
    map_YX = np.zeros((4, 4))
    map_YX[1, 2] = 1
    light = lit(np.full((40, 40, 3), 200, np.uint8), map_YX).astype(int).sum(-1)
    row, column = np.unravel_index(light.argmax(), light.shape)
    assert (row // 10, column // 10) == (1, 2)
    assert light[35, 5] < 0.3 * 600
    assert light.max() > 0.7 * 600
    even = lit(np.full((40, 40, 3), 200, np.uint8), np.full((4, 4), 1 / 16))
    assert even.std(axis=(0, 1)).max() < 2


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_sheet_is_drawn_alike_every_time(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        save(some(), tmp_path / f"{name}{suffix}")
    content = (tmp_path / f"a{suffix}").read_bytes()
    assert content == (tmp_path / f"b{suffix}").read_bytes()
    if suffix == ".png":
        wide, high = Image.open(io.BytesIO(content)).size
        assert wide > high > 200


def test_the_numbers_come_back(tmp_path: Path) -> None:
    save(some(), tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert np.array(found["maps"]).astype(np.float32).tolist() == some().maps_LYX.tolist()
    assert found["words"] == ["two", "<b>red</b>", "circles"]


def test_the_page_holds_its_data_as_text(tmp_path: Path) -> None:
    save(some(("</script>", "red")), tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    held = page.split('id="data">')[1].split("</script>")[0]
    data = json.loads(held)
    assert data["maps"]["rows"][0]["text"] == "</script>"
    assert page.count("</script>") == 2
    assert "default-src 'none'" in page
    pixels = np.frombuffer(base64.b64decode(data["image"]["pixels"]), np.uint8)
    assert (pixels.reshape(IMAGE.shape) == IMAGE).all()
    maps = np.frombuffer(base64.b64decode(data["maps"]["weights"]), "<u2").reshape(2, 4, 4) * data["maps"]["scale"]
    assert np.abs(maps - some(("a", "b")).maps_LYX).max() < 1e-4


def test_what_is_no_heat_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sum to one"):
        Heat("a", IMAGE, ("a",), np.full((1, 2, 2), 0.5), ())
    with pytest.raises(ValueError, match="a grid for each of 2 words"):
        Heat("a", IMAGE, ("a", "b"), np.full((1, 2, 2), 0.25), ())
    with pytest.raises(UserError, match=r"must end in one of \.png"):
        save(some(), tmp_path / "a.pdf")
    assert "0 words" not in "\n".join(Heat("", IMAGE, (), np.zeros((0, 2, 2)), ("decoder.0.cross",)).lines())

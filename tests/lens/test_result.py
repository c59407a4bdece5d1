"""What every result of lens shares: it is saved by the ending of a name, and a page holds it as text and nothing that runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from rich.cells import cell_len

from regard.core.errors import UserError
from regard.lens.display import table
from regard.lens.plots.charts import Field, atlas
from regard.lens.result import fragment, html, save

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></script>",
    '"onload="x',
    "$x^2$",
    "{title}",
    "a\u2028b",
    "\u202eabc",
    "&lt;",
    "{{style}}",
]


@dataclass(frozen=True)
class Told:
    text: str

    def lines(self) -> list[str]:
        return [self.text, "second line"]

    def figure(self) -> Figure:
        return atlas(self.text, self.text, [Field(self.text, {"encoder.0.self": [0.5, float("nan")]})])

    def as_dict(self) -> dict[str, Any]:
        return {"text": self.text, "array": np.ones(2), "tensor": torch.zeros(1), "number": np.float32(0.5), "none": None}


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag = self.found[-1][0] if self.found else ""
        self.texts[tag] = self.texts.get(tag, "") + data


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_holds_text_and_nothing_that_runs(text: str) -> None:
    page = Elements(html(Told(text)))
    tags = [tag for tag, _ in page.found]
    assert tags == [
        "html",
        "head",
        "meta",
        "meta",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "figure",
        "img",
        "pre",
        "footer",
        "script",
    ]
    attributes = dict(page.found)
    assert attributes["script"] == {"type": "application/json", "id": "numbers"}
    assert attributes["img"].keys() == {"alt", "src"}
    assert attributes["img"]["alt"] == text
    assert (attributes["img"]["src"] or "").startswith("data:image/svg+xml;base64,")
    assert page.texts["pre"].startswith(f"{text}\nsecond line")
    assert json.loads(page.texts["script"])["text"] == text
    policies = [each["content"] for tag, each in page.found if tag == "meta" and "http-equiv" in each]
    assert (policies[0] or "").startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "http:" not in re.sub(r"base64,[^\"]*", "", html(Told(text)))


@pytest.mark.parametrize("text", [*HOSTILE, "half \ud800"])
def test_every_ending_can_be_written(text: str, tmp_path: Path) -> None:
    for ending, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>"), ("json", b"{")):
        save(Told(text), tmp_path / f"x.{ending}")
        assert (tmp_path / f"x.{ending}").read_bytes().startswith(begins)
    assert json.loads((tmp_path / "x.json").read_text()) == {
        "text": text,
        "array": [1, 1],
        "tensor": [0],
        "number": 0.5,
        "none": None,
    }


def test_the_same_result_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.html", "b.html", "a.png", "b.png"):
        save(Told("the same"), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert fragment(Told("the same")) in html(Told("the same"))


def test_other_endings_and_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must end in one of"):
        save(Told("x"), tmp_path / "x.pdf")
    with pytest.raises(UserError, match="Give a file in a folder that exists"):
        save(Told("x"), tmp_path / "no" / "x.json")

    class Endless(Told):
        def as_dict(self) -> dict[str, Any]:
            return {"number": float("nan")}

    with pytest.raises(ValueError, match="JSON"):
        save(Endless("x"), tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


@given(rows=st.lists(st.tuples(st.text(max_size=90), st.one_of(st.none(), st.floats(-1e3, 1e3)), st.integers(0, 99)), max_size=6))
@settings(max_examples=30)
def test_columns_line_up(rows: list[tuple[str, float | None, int]]) -> None:
    lines = table(["word", "number", "count"], [(name.replace("\t", " "), number, count) for name, number, count in rows])
    assert len(lines) == 1 + len(rows)
    if rows and all(name.isprintable() for name, _, _ in rows):
        assert len({cell_len(line) for line in lines}) == 1


def test_a_field_of_uneven_heads_is_drawn(tmp_path: Path) -> None:
    """As pruning leaves them."""
    fields = [
        Field("signed", {"encoder.0.self": [-1.0, 2.0], "encoder.1.self": [0.5]}, signed=True),
        Field("none", {"a.0.self": []}),
    ]
    figure = atlas("title", "caption", fields)
    assert [image.get_clim() for image in figure.axes[0].images] == [(-2.0, 2.0), (-2.0, 2.0)]
    assert fields[0].most == 2.0

"""Questions about forecasts, as the page asks them, and the page itself in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.testclient import TestClient

from regard.lens.analyses.series_attention import series_attention
from regard.lens.analyses.weights import Choice
from regard.studio.app import create
from tests.studio.showing import drawn
from tests.studio.tiny_series import SeriesOpening
from tests.studio.tiny_session import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

MODELS = ("patchtst", "forecaster")


def openings() -> dict[str, SeriesOpening]:
    return {model: SeriesOpening(model) for model in MODELS}


@pytest.mark.parametrize("model", MODELS)
def test_a_window_comes_with_its_weights(model):
    with TestClient(create(openings()), base_url="http://127.0.0.1:8417") as client:
        card = client.get("/api/run", params={"run": model}).json()
        text = card["example"]
        assert card["series"]["names"] == ["a", "b", "c"]
        found = client.post("/api/pass", json={"run": model, "text": text}).json()
        assert (found["steps"], found["outputs"], found["faith"]["holds"]) == ([], None, True)
        shown = client.get("/api/series-attention", params={"id": found["id"], "layer": 0}).json()
        subject = SeriesOpening(model).open(None).subject(text, None)
        expected = series_attention(subject, Choice(layer=0))
        np.testing.assert_allclose(shown["weights"], expected.weights_NQK, atol=1e-5)
        np.testing.assert_allclose(shown["series"]["forecast"], subject.series.forecast_HC, rtol=1e-4)
        assert "cannot" in client.post("/api/pass", json={"run": model, "text": "/etc/passwd"}).json()
        place = {"id": found["id"], "name": "encoder.0.self", "head": 0, "query": 1, "key": 0}
        assert client.get("/api/arithmetic", params=place).json()["difference"] < 1e-4
        for path, more in (("ablations", {}), ("kept", {}), ("explain", {"show": "gradient"})):
            answer = client.get(f"/api/{path}", params={"id": found["id"], **more}).json()
            assert "forecasts numbers" in answer["cannot"]
        off = {"off": {"encoder.0.self": [0]}}
        assert "forecasts numbers" in client.post("/api/ablate", params={"id": found["id"]}, json=off).json()["cannot"]
        assert client.get("/api/series-attention", params={"id": found["id"], "part": "all"}).status_code == 422


@pytest.fixture(scope="module")
def studio() -> Iterator[str]:
    with served(openings()) as address:
        yield address


@pytest.mark.page
def test_the_page_shows_a_window_and_what_a_row_attends_to(page: Page, studio: str):
    page.goto(f"{studio}/#/run?{urlencode({'run': 'patchtst', 'text': 'b@100', 'q': 1})}")
    drawn(page, "run")
    assert page.query_selector(".forecast .interval")
    assert page.query_selector(".forecast .came")
    assert page.locator(".series-maps canvas").count() == 1
    subject = SeriesOpening("patchtst").open(None).subject("b@100", None)
    found = series_attention(subject, Choice())
    strongest = found.keys[int(found.weights_NQK[0, 1].argmax())]
    assert page.inner_text("#told").startswith(f"{found.queries[1]} attends most to {strongest}")
    opacities = page.eval_on_selector_all(".forecast .attended", "some => some.map((one) => Number(one.getAttribute('opacity')))")
    weights = found.weights_NQK[0, 1]
    np.testing.assert_allclose(np.array(opacities) / max(opacities), weights / weights.max(), atol=1e-3)
    page.keyboard.press("ArrowRight")
    drawn(page, "run")
    page.wait_for_selector("#series-when:has-text('row 106')")
    page.select_option("#series-name", "c")
    drawn(page, "run")
    assert "c@106" in json.dumps(page.input_value("#text"))

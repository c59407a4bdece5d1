"""Questions about images in studio: answers and maps as the run gives them, no file by its name, and the page in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from regard.data.sources.captions import open_image
from regard.studio.app import create
from regard.studio.launch import RunFolderHandle
from regard.tasks.registry import open_run
from tests.studio.showing import drawn, until
from tests.studio.tiny_patches import SCENE as SHAPE
from tests.studio.tiny_patches import ClassifierOpening
from tests.studio.tiny_session import served
from tests.tasks.tiny_visual_questions import trained

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCENE, QUESTION = "builtin:scenes/test/2", "what colour are the circles?"


@pytest.fixture(scope="module")
def runs() -> dict[str, Any]:
    return {"ask": RunFolderHandle(str(trained()), "cpu"), "vit": ClassifierOpening()}


@pytest.fixture(scope="module")
def client(runs: dict[str, Any]) -> TestClient:
    return TestClient(create(runs), base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def studio(runs: dict[str, Any]) -> Iterator[str]:
    with served(runs) as address:
        yield address


def heat(client: TestClient, image: str, question: str = QUESTION, run: str = "ask") -> Any:
    return client.post("/api/heat", json={"run": run, "image": image, "question": question}).json()


def test_answers_and_maps_are_the_runs(client: TestClient) -> None:
    found, own = heat(client, SCENE), open_run(str(trained()), "cpu")
    picture = client.get("/api/image", params={"run": "ask", "name": SCENE})
    assert picture.headers["x-shape"] == "16,16,3"  # the shelf has images as the model reads them
    pixels_YXC = np.frombuffer(picture.content, np.uint8).reshape(16, 16, 3)
    told, answers = own.heat_of(Image.fromarray(pixels_YXC), QUESTION)  # type: ignore[attr-defined]
    assert [one["answer"] for one in found["answers"]] == [one.answer for one in answers]
    assert found["words"] == list(told.words)
    np.testing.assert_allclose(found["maps"], told.maps_LYX.reshape(len(told.words), -1), atol=1e-5)
    whole, _ = own.heat_of(open_image(SCENE), QUESTION)  # type: ignore[attr-defined]
    np.testing.assert_allclose(own.answer_heat(SCENE, QUESTION).maps_LYX, whole.maps_LYX)  # type: ignore[attr-defined]
    card = client.get("/api/run", params={"run": "ask"}).json()
    assert card["images"]["kind"] == "questions"
    assert len(card["images"]["questions"]) > 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"image": "/etc/passwd"}, "none of this run's images"),
        ({"image": "builtin:scenes/train/0"}, "none of this run's images"),
        ({"image": SCENE, "question": " "}, "the question is empty"),
        ({"image": SHAPE, "run": "vit"}, "answers no questions about images"),
    ],
)
def test_what_cannot_be_asked_is_said(client: TestClient, given: dict[str, str], why: str) -> None:
    assert why in heat(client, **given)["cannot"]


@pytest.mark.parametrize("path", ["pass", "answer"])
def test_no_text_leads_to_a_file(client: TestClient, path: str) -> None:
    said = client.post(f"/api/{path}", json={"run": "ask", "text": f"/etc/passwd\t{QUESTION}"}).json()
    assert "none of this run's images" in said["cannot"] or "Run shows where it attended" in said["cannot"]


@pytest.mark.page
def test_a_question_is_answered_word_by_word(page: Page, studio: str) -> None:
    page.goto(f"{studio}/#/run?{urlencode({'run': 'ask', 'text': SCENE, 'target': QUESTION})}")
    drawn(page, "run")
    words = page.evaluate("[...document.querySelectorAll('.caption-words b')].map((one) => one.textContent)")
    assert words == QUESTION.split()
    assert page.evaluate("document.querySelector('#veil').hidden")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('q=1')")
    until(page, "document.querySelector('#told').textContent.startsWith('colour: attends most to')")
    page.select_option("#question", index=3)
    until(page, "!location.hash.includes('q=1')")
    drawn(page, "run")
    page.keyboard.press("n")
    until(page, "location.hash.includes('test%2F3')")
    drawn(page, "run")
    assert "target=" in page.url  # another image, the same question
    page.keyboard.press("2")
    page.wait_for_selector("#refused")
    assert "Run shows where it attended" in page.inner_text("#refused")
    page.select_option("#run", "vit")
    until(page, "location.hash.includes('run=vit')")

"""Models that lack something: every screen draws, or says in one sentence what it cannot show, and leaves nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.testclient import TestClient

from regard.core.errors import UserError
from regard.data.config import WordsDataConfig
from regard.data.sources.word_vectors import WordVectors
from regard.decode.beam_trace import SearchTree
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.lens.analyses.document import Document, Sentence, Word
from regard.lens.subject import Subject
from regard.studio.app import create
from regard.studio.run_session import WordSession
from regard.tasks.word_vectors.predict import WordVectorModel
from tests.studio.showing import SCREENS, TEXT, USES, drawn, until
from tests.studio.tiny_session import WORDS, TinyOpening, TinySession, served

if TYPE_CHECKING:
    from playwright.sync_api import Page


def without_attention() -> Any:
    return Recurrent(RecurrentConfig(width=16, dropout=0.0, attention="none"), WORDS, WORDS, 0).eval()


@dataclass
class Unseen(TinySession):
    """It answers, and cannot be looked into, as those that retrieve."""

    def subject(self, text: str, target: str | None) -> Subject:
        raise UserError("nothing of this model can be drawn; see Words.")

    def search(self, text: str, beam: int, forced: Any) -> SearchTree:
        raise UserError("this model does not write.")


@dataclass
class BySentences(TinySession):
    """As a hierarchy is: what its attention saw is of no side."""

    shades: tuple[float, ...] = (0.9, 0.1)

    def subject(self, text: str, target: str | None) -> Subject:
        return replace(super().subject(text, target), nested=True)

    def document(self, text: str) -> Document:
        words = tuple(Word(word, weight, True) for word, weight in zip(text.split(), self.shades))
        return Document("good", (Sentence(words, 1.0),))


@dataclass
class UnmaskedPattern(TinySession):
    model: Any = field(default_factory=without_attention)


def sharing_keys() -> Any:
    config = TransformerConfig(width=16, heads=4, kv_heads=2, layers=1, feedforward=16, dropout=0.0)
    return Transformer(config, WORDS, WORDS, 0).eval()


GROUPED = TinySession(model=sharing_keys())
SESSIONS = {"plain": UnmaskedPattern(), "unseen": Unseen(), "nested": BySentences()}
SAYS = {
    "plain": dict.fromkeys(("atlas", "head", "ablate", "arithmetic", "compare"), "has no attention"),
    "unseen": {screen: "othing of this model can be drawn" for screen in SCREENS if screen not in ("run", "words")},
    "nested": dict.fromkeys(("atlas", "head", "arithmetic", "compare"), "one sentence after the other"),
}


@pytest.fixture(scope="module")
def studio() -> Iterator[str]:
    sessions = SESSIONS | {"grouped": GROUPED}
    with served({name: TinyOpening(session) for name, session in sessions.items()}) as address:
        yield address


@pytest.mark.page
@pytest.mark.parametrize("run", list(SESSIONS))
def test_every_screen_draws_or_says_why_not(page: Page, studio: str, run: str) -> None:
    page.goto(f"{studio}/#/run?{urlencode({'run': run, 'text': TEXT, **USES})}")
    for number, screen in enumerate(SCREENS, start=1):
        page.keyboard.press(str(number))
        until(page, f"document.querySelector('#screen').dataset.ready === {screen!r}")
        drawn(page, screen)
        said = page.evaluate("document.getElementById('refused')?.textContent ?? null")
        if screen in SAYS[run]:
            assert SAYS[run][screen] in said
            assert page.inner_text("#screen") == ""
        else:
            assert said is None, screen
            assert len(page.inner_text("#screen")) > 20, screen
        for key in ("ArrowRight", "ArrowDown", "Enter") if screen in SAYS[run] else ():
            page.keyboard.press(key)


@pytest.mark.page
def test_a_text_read_by_sentences_is_shaded(page: Page, studio: str) -> None:
    page.goto(f"{studio}/#/run?{urlencode({'run': 'nested', 'text': 'w5 w6'})}")
    drawn(page, "run")
    shades = page.evaluate("[...document.querySelectorAll('.sentence .token')].map((word) => word.style.background)")
    darkest = page.evaluate("import('/static/colour.js').then(({ colour }) => [colour(1), colour(0.1 / 0.9)])")
    assert [shade.replace(",", "") for shade in shades] == darkest


@pytest.mark.page
def test_what_cannot_be_looked_into_still_answers(page: Page, studio: str) -> None:
    page.goto(f"{studio}/#/run?{urlencode({'run': 'unseen', 'text': 'w5 w6'})}")
    drawn(page, "run")
    assert "w6 w5" in page.inner_text(".says")
    assert "Nothing of this model can be drawn" in page.inner_text("#screen")


def test_attention_says_how_many_heads_of_keys_it_has() -> None:
    client = TestClient(create({"grouped": TinyOpening(GROUPED)}), base_url="http://127.0.0.1")
    found = client.post("/api/pass", json={"run": "grouped", "text": "w5 w6"}).json()["attentions"]
    assert [(one["name"], one["heads"], one["kv_heads"]) for one in found] == [
        (name, 4, 2) for name in ("encoder.0.self", "decoder.0.self", "decoder.0.cross")
    ]


@pytest.mark.page
@pytest.mark.parametrize("screen", ["head", "arithmetic"])
def test_heads_that_share_keys_say_which(page: Page, studio: str, screen: str) -> None:
    page.goto(f"{studio}/#/{screen}?{urlencode({'run': 'grouped', 'text': 'w5 w6'})}")
    drawn(page, screen)
    shown = "[aria-label=head] button" if screen == "head" else "select[aria-label=head] option"
    names = page.evaluate(f"[...document.querySelectorAll('{shown}')].map((one) => one.textContent)")
    assert names[:4] == ["0 (keys 0)", "1 (keys 0)", "2 (keys 1)", "3 (keys 1)"]


def test_word_vectors_have_neighbours_and_a_sentence_for_the_rest() -> None:
    vectors = WordVectors(("king", "queen", "car"), np.array([[1, 0.1], [1, 0.2], [-1, 0.3]], np.float32))
    session = WordSession(
        WordVectorModel(vectors, WordsDataConfig(train=("a.txt",)), lowercase=True), "words", "as the run ended"
    )
    client = TestClient(create({"vectors": TinyOpening(session)}), base_url="http://127.0.0.1")  # type: ignore[arg-type]
    assert client.get("/api/run", params={"run": "vectors"}).json()["facts"]["parameters"] == "6"
    near = client.get("/api/near", params={"run": "vectors", "word": "King"}).json()
    assert [one["token"] for one in near["near"]] == ["queen", "car"]
    assert "not in this vocabulary" in client.get("/api/near", params={"run": "vectors", "word": "tree"}).json()["cannot"]
    for path in ("pass", "answer", "beam"):
        assert "word vectors" in client.post(f"/api/{path}", json={"run": "vectors", "text": "king"}).json()["cannot"]

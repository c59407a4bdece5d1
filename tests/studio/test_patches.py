"""An image before a classifier: rows, rollout, relevance and roles as the model has them, and what is refused in a sentence."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from regard.core.errors import UserError
from regard.lens.analyses.image_attention import image_rollout
from regard.lens.analyses.image_heads import image_heads
from regard.lens.analyses.image_relevance import relevances
from regard.studio.app import create
from regard.studio.launch import RunFolderHandle
from regard.studio.run_session import RunSession
from regard.tasks.registry import open_run
from tests.lens.tiny_images import NAMES
from tests.studio.tiny_captioner import CaptionOpening
from tests.studio.tiny_patches import COUNT, PATCHES, SCENE, ClassifierOpening, classifier_session, open_scene, weights
from tests.studio.tiny_session import TinyOpening, TinySession
from tests.tasks.image_classification import tiny_images as images
from tests.tasks.image_generation import tiny_images as drawings

KINDS = {"vit": "class", "pool": "sequence", "mean": "mean"}
RUNS: dict[str, Any] = {run: ClassifierOpening(kind) for run, kind in KINDS.items()} | {"cap": CaptionOpening()}
CLIENT = TestClient(
    create({**RUNS, "tiny": TinyOpening(TinySession())}), base_url="http://127.0.0.1", raise_server_exceptions=False
)


def passed(run: str = "vit", text: str = SCENE, **more: str) -> dict[str, Any]:
    answer = CLIENT.post("/api/pass", json={"run": run, "text": text, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def asked(path: str, **given: str | int) -> Any:
    answer = CLIENT.get(f"/api/{path}", params=given)
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    return np.frombuffer(answer.content, answer.headers["x-type"]).reshape([int(n) for n in answer.headers["x-shape"].split(",")])


def test_a_card_says_that_classes_are_said_of_images() -> None:
    assert asked("run", run="vit")["images"]["kind"] == "classes"
    assert asked("run", run="cap")["images"]["kind"] == "captions"
    assert asked("images", run="vit", first=28)["images"][1] == {"name": "builtin:scenes/test/29", "caption": "square"}
    assert asked("images", run="vit")["of"] == COUNT


def test_a_pass_says_which_tokens_are_patches() -> None:
    image = passed()["image"]
    assert (image["rows"], image["columns"], image["first"]) == (PATCHES, PATCHES, 1)
    assert image["attentions"] == [f"encoder.{n}.self" for n in range(3)]
    assert image["pooled"] is None
    assert passed("pool")["image"]["pooled"] == "pooling"
    assert passed("pool")["apart"] == {"pooling": ["pooling", "patches"]}
    assert passed()["steps"][0]["top"][0]["choice"] in NAMES
    assert passed()["faith"]["holds"]
    assert passed("pool")["faith"]["holds"]


def test_rows_are_the_models_weights() -> None:
    found, own = passed(), weights()
    rows_LHT = asked("image-rows", id=found["id"], token=6)
    np.testing.assert_allclose(rows_LHT, [own[name][:, 6] for name in found["image"]["attentions"]], atol=1e-5)


@pytest.mark.parametrize("run", ["vit", "pool", "mean"])
def test_rollout_relevance_and_roles_are_those_of_lens(run: str) -> None:
    found, subject = passed(run), classifier_session(KINDS[run]).subject(SCENE, None)
    first = found["image"]["first"]
    shares_LT = asked("image-rollout", id=found["id"])
    np.testing.assert_allclose(shares_LT[::-1, first:].reshape(3, 4, 4), image_rollout(subject).maps_NYX, atol=1e-6)
    of_patch = asked("image-rollout", id=found["id"], token=first + 9)
    np.testing.assert_allclose(of_patch[::-1, first:].reshape(3, 4, 4), image_rollout(subject, 2, 1).maps_NYX, atol=1e-6)
    for choice in (0, 2):
        np.testing.assert_allclose(
            asked("image-relevance", id=found["id"], choice=choice), relevances(subject)[1](choice), atol=1e-6
        )
    roles = asked("image-roles", id=found["id"])
    assert len(roles["random"]) == 6
    assert [head["distance"] for head in roles["heads"]] == pytest.approx(
        [head.distance for head in image_heads(subject)], rel=1e-5
    )


def test_what_the_head_reads_by_attention_is_shown() -> None:
    np.testing.assert_allclose(asked("image-pooled", id=passed("pool")["id"]), weights("sequence")["pooling"][0, 0], atol=1e-6)


def test_a_class_can_be_scored_and_heads_switched_off() -> None:
    found = passed(target="star")
    assert found["steps"][0]["target"] == "star"
    off = CLIENT.post("/api/ablate", params={"id": found["id"]}, json={"off": {"encoder.0.self": [0, 1]}}).json()
    assert off["answer"] in NAMES
    assert off["nll"] != pytest.approx(found["nll"])
    assert len(asked("ablations", id=found["id"])["rise"]) == 3
    assert "deletion" in asked("explain", id=found["id"], show="deletion")["format"]
    assert len(asked("explain", id=found["id"], show="integrated")["tokens"]) == 17
    weight = asked("arithmetic", id=found["id"], name="encoder.1.self", head=1, query=0, key=5)
    assert weight["weights"][5] == pytest.approx(weights()["encoder.1.self"][1, 0, 5], abs=1e-5)
    assert weight["query"]["embedding"] is None


def test_a_file_handed_in_is_read_as_the_same_image() -> None:
    kept = io.BytesIO()
    open_scene().save(kept, "PNG")
    name = CLIENT.post("/api/image", params={"run": "vit", "file": "my.png"}, content=kept.getvalue()).json()["name"]
    ours = passed(text=name)
    assert ours["title"].startswith("my.png → ")
    assert ours["steps"] == passed()["steps"]


@pytest.mark.parametrize(
    ("path", "given", "why"),
    [
        ("image-rows", {"token": 17}, "17, numbered from 0"),
        ("image-rollout", {"token": 99}, "17, numbered from 0"),
        ("image-relevance", {"choice": 4}, "there are 4, numbered from 0"),
        ("near", {"run": "vit", "word": "cat"}, "has no words"),
        ("roles", {}, "roles are of heads that read text"),
        ("explain", {"show": "logits"}, "says no words"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(path: str, given: dict[str, Any], why: str) -> None:
    said = asked(path, **{**({} if "run" in given else {"id": passed()["id"]}), **given})
    assert why in said["cannot"]


@pytest.mark.parametrize("path", ["image-rows", "image-rollout", "image-relevance", "image-roles", "image-pooled"])
def test_a_text_has_no_patches(path: str) -> None:
    given = {"image-rows": {"token": 0}, "image-relevance": {"choice": 0}}.get(path, {})
    said = asked(path, id=passed("tiny", "w5 w6")["id"], **given)["cannot"]
    assert "reads no image" in said or "this model has none" in said


def test_a_label_that_is_not_there_and_a_beam_are_refused() -> None:
    answer = CLIENT.post("/api/beam", json={"run": "vit", "text": SCENE, "beam": 2}).json()
    assert "does not write" in answer["cannot"]
    assert "none of this run's images" in passed(text="/etc/passwd")["cannot"]


@pytest.mark.parametrize("kind", ["classes", "pixels"])
def test_a_run_opens_with_the_images_that_it_is_tested_on(kind: str) -> None:
    run = images.trained("vit") if kind == "classes" else drawings.trained("classes")
    session = RunFolderHandle(str(run), "cpu").open(None)
    gallery = session.gallery
    assert gallery is not None
    assert gallery.kind == kind
    assert session.example == "builtin:shapes/test/0"
    found = session.subject("builtin:shapes/test/3", None)
    assert found.image is not None
    assert found.image.image_YXC.shape == gallery.shelf.images_NYXC.shape[1:]
    assert session.answer("builtin:shapes/test/3")


def test_a_text_session_opens_no_file_for_a_model_of_images() -> None:
    session = RunSession(str(images.trained("vit")), open_run(str(images.trained("vit")), "cpu"), "image_classification", "x")
    for asked in (session.answer, lambda text: session.subject(text, None)):
        with pytest.raises(UserError, match="for this one use 'regard predict'"):
            asked("/etc/passwd")

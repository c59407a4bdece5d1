"""Images as they are drawn: frames that grow to the image a seed gives, what each pixel attended to, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from regard.core.errors import UserError
from regard.lens.analyses.image_attention import class_maps, image_rollout, patch_maps
from regard.lens.analyses.image_heads import image_roles
from regard.lens.analyses.image_relevance import relevance
from regard.model.probe import probe
from regard.studio.app import create
from regard.tasks.image_generation.inspect import wish_of
from tests.studio.tiny_drawing import CLASSES, NAME, SIDE, DrawingOpening, drawing_session, generator
from tests.studio.tiny_patches import ClassifierOpening

CLIENT = TestClient(
    create({"pix": DrawingOpening(), "vit": ClassifierOpening()}),
    base_url="http://127.0.0.1",
    raise_server_exceptions=False,
)
FRAME = 4 + 3 * SIDE * SIDE


def drawn(**given: str | int) -> tuple[list[tuple[int, np.ndarray]], str]:
    """Return the frames, and the name by which the image is kept."""
    answer = CLIENT.get("/api/draw", params={"run": "pix", **given})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-side"] == str(SIDE)
    frames, rest = [], answer.content
    while (count := int.from_bytes(rest[:4], "little")) != 2**32 - 1:
        frames.append((count, np.frombuffer(rest[4:FRAME], np.uint8).reshape(SIDE, SIDE, 3)))
        rest = rest[FRAME:]
    return frames, rest[4:].decode()


def passed(text: str, **more: str) -> Any:
    return CLIENT.post("/api/pass", json={"run": "pix", "text": text, **more}).json()


def image(name: str) -> np.ndarray:
    answer = CLIENT.get("/api/image", params={"run": "pix", "name": name})
    return np.frombuffer(answer.content, np.uint8).reshape(SIDE, SIDE, 3)


def test_frames_grow_to_the_image_that_the_seed_gives() -> None:
    frames, name = drawn(text="night", number=7)
    counts = [count for count, _ in frames]
    assert counts == sorted(counts)
    expected = generator().write([wish_of(generator(), "night", None)], 7)[0][0].image_YXC
    assert (image(name) == expected).all()
    for count, frame in frames:
        assert (frame.reshape(-1, 3)[:count] == expected.reshape(-1, 3)[:count]).all()
    assert drawn(text="night", number=7)[1] == name
    assert drawn(text="night", number=8)[1] != name


def test_the_rest_of_an_image_is_drawn_below_what_stays() -> None:
    before = image(NAME).astype(int)
    frames, name = drawn(image=NAME, number=1)
    assert frames[0][0] >= SIDE * SIDE // 2
    after = image(name).astype(int)
    assert np.abs(after - before)[: SIDE // 2].max() <= 256 / 8  # the same, to a level
    assert np.abs(after - before)[SIDE // 2 :].max() > 256 / 8


def test_what_is_drawn_can_be_looked_into() -> None:
    _, name = drawn(text="day", number=3)
    found = passed(name, target="day")
    assert (found["image"]["ahead"], found["image"]["tokens"], found["image"]["first"]) == (1, 3, 1)
    assert found["image"]["stack"] == "decoder"
    assert found["nll"] == pytest.approx(drawing_session().subject(name, "day").nll().item(), rel=1e-4)
    token = 3 * (SIDE + 2)  # the token before the red of row 2, column 3
    rows = CLIENT.get("/api/image-rows", params={"id": found["id"], "token": token})
    rows_LHT = np.frombuffer(rows.content, np.float32).reshape(2, 2, -1)
    assert not rows_LHT[..., token + 1 :].any()
    maps = patch_maps(drawing_session().subject(name, "day"), 1, 2)
    np.testing.assert_allclose(
        rows_LHT.mean(1)[:, 1 : 1 + 3 * 8].reshape(2, 8, 3).sum(-1), maps.maps_NYX.reshape(2, -1)[:, :8], atol=1e-6
    )
    assert not maps.maps_NYX.reshape(2, -1)[:, 8:].any()
    np.testing.assert_allclose(maps.maps_NYX.sum((1, 2)) + [rest["[day]"] for rest in maps.rest], 1, atol=1e-5)


@pytest.mark.parametrize(("pixels", "more"), [("rgb", {}), ("grey", {"classes": 0}), ("rgb", {"small": 2, "classes": 0})])
def test_a_subject_is_scored_as_the_model_scores_images(pixels: str, more: dict[str, Any]) -> None:
    one = generator(pixels, **more)
    given = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE, 1 if pixels == "grey" else 3), np.uint8)
    subject = one.image_subject(given, "noise.png")
    order = one.model.order
    with torch.no_grad(), probe(one.model) as seen:
        scores_LV = subject.forward(1)[0]
    assert scores_LV.shape[0] == len(subject.sides["decoder"]) == order.length
    assert int((subject.targets_L != -100).sum()) == order.pixels
    level_N = one.levels.of(given[None])[0]
    expected = scores_LV[order.prefix :].log_softmax(-1)[torch.arange(order.pixels), torch.from_numpy(level_N.astype(np.int64))]
    assert subject.nll().item() == pytest.approx(-float(expected.mean()), rel=1e-4)
    row = seen["decoder.1.self"].weights()[0, :, subject.image.token(3, 1)].mean(0).detach().numpy()  # type: ignore[union-attr]
    where = order.prefix + 1 + order.tokens * (3 * SIDE)
    found = patch_maps(subject, 3, 1, layer=1).maps_NYX[0]
    assert found[3, 0] == pytest.approx(float(row[where : where + order.tokens].sum()), abs=1e-6)
    roles = image_roles(subject)
    assert all(head.itself < 0.7 for head in roles.heads)
    assert 0 < roles.even < SIDE


def test_views_of_classes_are_not_for_drawings() -> None:
    subject = drawing_session().subject(NAME, None)
    for view in (class_maps, image_rollout, relevance):
        with pytest.raises(UserError, match="draws images and says no class"):
            view(subject)
    assert image_rollout(subject, 2, 2).mark == (2, 2)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"run": "vit"}, "draws no images"),
        ({"text": "dusk"}, "'dusk' is no class of this model"),
        ({"image": "/etc/passwd"}, "none of this run's images"),
        ({"image": "upload:00"}, "no longer kept"),
        ({"run": "none"}, "no run 'none'"),
    ],
)
def test_what_cannot_be_drawn_is_said(given: dict[str, str], why: str) -> None:
    said = CLIENT.get("/api/draw", params={"run": "pix", **given})
    assert why in said.json()["cannot"]


def test_a_class_that_is_not_there_is_refused() -> None:
    assert "no class of this model" in passed(NAME, target="dusk")["cannot"]
    for name in CLASSES:
        assert passed(NAME, target=name)["title"] == f"{NAME} as {name}"

"""Images laid before a captioner: the run's own, what people hand in, and what nobody should."""

from __future__ import annotations

import base64
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient

from regard.data.sources.captions import open_image, read_captions
from regard.lens.analyses.gradients import integrated_gradients
from regard.studio.app import create
from regard.studio.gallery import KEPT, LARGEST, THUMB
from tests.studio.tiny_captioner import CELLS, IMAGES, SCENE, WHERE, CaptionOpening, caption_weights, captioner_session
from tests.studio.tiny_session import TinyOpening, TinySession

CLIENT = TestClient(
    create({"cap": CaptionOpening(), "tiny": TinyOpening(TinySession())}),
    base_url="http://127.0.0.1",
    raise_server_exceptions=False,
)


def asked(path: str, **given: str | int) -> Any:
    answer = CLIENT.get(f"/api/{path}", params=given)
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    return np.frombuffer(answer.content, answer.headers["x-type"]).reshape([int(n) for n in answer.headers["x-shape"].split(",")])


def passed(text: str) -> dict[str, Any]:
    answer = CLIENT.post("/api/pass", json={"run": "cap", "text": text})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def handed(content: bytes, file: str = "a.png") -> dict[str, str]:
    answer = CLIENT.post("/api/image", params={"run": "cap", "file": file}, content=content)
    assert answer.status_code == 200, answer.text
    found: dict[str, str] = answer.json()
    return found


def as_bytes(picture: Image.Image, kind: str = "PNG") -> bytes:
    kept = io.BytesIO()
    picture.save(kept, kind)
    return kept.getvalue()


def test_the_runs_images_are_listed_and_shown() -> None:
    found = asked("images", run="cap", first=24, count=24)
    assert (found["first"], found["of"], len(found["images"])) == (24, IMAGES, IMAGES - 24)
    assert asked("images", run="cap", around=SCENE, count=2)["first"] == 2
    own = read_captions([WHERE], "", THUMB)
    assert found["images"][0] == {"name": own.examples[24].name, "caption": own.examples[24].captions[0]}
    thumbs = asked("image-thumbnails", run="cap", first=0, count=5)
    assert thumbs.shape == (5, THUMB, THUMB, 3)
    assert np.abs(thumbs[0].astype(int) - own.images_NYXC[0]).mean() < 12  # read at 32 pixels, shown at 64
    assert (asked("image", run="cap", name=SCENE) == np.asarray(open_image(SCENE))).all()


def test_weights_of_a_look_are_the_models() -> None:
    found = passed(SCENE)
    assert found["faith"]["holds"]
    assert len(found["sides"]["encoder"]["tokens"]) == CELLS**2
    assert found["title"].startswith(f"{SCENE} → ")
    for name, weights_HLM in caption_weights().items():
        given = asked("weights", id=found["id"], name=name, heads="0,1")
        seen = np.frombuffer(base64.b64decode(given["weights"]), "<f4").reshape(2, -1, CELLS**2)
        np.testing.assert_allclose(seen, weights_HLM[:, : seen.shape[1]], atol=1e-5)


def test_a_file_handed_in_is_read_as_the_same_image_of_the_run() -> None:
    name = handed(as_bytes(open_image(SCENE)))["name"]
    ours, theirs = passed(name), passed(SCENE)
    assert [step["p"] for step in ours["steps"]] == [step["p"] for step in theirs["steps"]]
    assert asked("images", run="cap", around=name)["label"] == "a.png"


@pytest.mark.parametrize("screen", ["pass", "answer", "beam"])
def test_no_name_leads_to_a_file_of_the_machine(tmp_path: Path, screen: str) -> None:
    open_image(SCENE).save(tmp_path / "secret.png")
    for name in (
        str(tmp_path / "secret.png"),
        "/etc/passwd",
        "../secret.png",
        "builtin:scenes/train/0",
        "builtin:scenes/test/30",
    ):
        said = CLIENT.post(f"/api/{screen}", json={"run": "cap", "text": name}).json()
        assert "none of this run's images" in said["cannot"]
        assert "cannot" in asked("image", run="cap", name=name)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A whole image that was cut or changed in places."""
    kind = draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP"]))
    content = bytearray(as_bytes(Image.new("RGB", (9, 7), (200, 30, 60)), kind))
    for place in draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        content[place] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(1, len(content)))])


@given(st.binary(max_size=200) | damaged())
@settings(max_examples=60)
def test_no_bytes_break_the_server(content: bytes) -> None:
    """An image, or one sentence."""
    found = handed(content)
    if "cannot" in found:
        assert found["cannot"].startswith("a.png ")
        assert "\n" not in found["cannot"]
    else:
        assert asked("image", run="cap", name=found["name"]).shape[2] == 3


def test_what_is_too_large_or_of_another_kind_is_told() -> None:
    bomb = bytearray(as_bytes(Image.new("L", (1, 1))))
    bomb[16:24] = (9000).to_bytes(4, "big") * 2
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4, "big")
    assert "9,000 × 9,000 pixels" in handed(bytes(bomb))["cannot"]
    for kind in ("TIFF", "EPS", "PCX"):
        assert "PNG, JPEG" in handed(as_bytes(Image.new("RGB", (4, 4)), kind))["cannot"]
    answer = CLIENT.post("/api/image", params={"run": "cap"}, content=b"x" * (LARGEST + 1))
    assert answer.status_code == 413
    assert "cannot" in CLIENT.post("/api/image", params={"run": "tiny"}, content=b"x").json()


def test_only_the_last_few_are_kept() -> None:
    names = [handed(as_bytes(Image.new("RGB", (3, 3), (n, n, n))))["name"] for n in range(KEPT + 1)]
    assert "no longer kept" in passed(names[0])["cannot"]
    assert "steps" in passed(names[-1])


def test_a_captioner_is_searched_ablated_and_explained() -> None:
    found = passed(SCENE)
    tree = CLIENT.post("/api/beam", json={"run": "cap", "text": SCENE, "beam": 2}).json()
    best = [node["token"] for step in tree["steps"] for node in step if node["best"]]
    alignment = CLIENT.post("/api/alignment", json={"run": "cap", "text": SCENE, "tokens": best[:1]}).json()
    np.testing.assert_allclose(alignment["weights"], caption_weights()["decoder.1.cross"][:, 0].mean(0), atol=1e-5)
    rise = asked("ablations", id=found["id"])["rise"]
    assert {name: len(heads) for name, heads in rise.items() if "cross" in name} == {"decoder.0.cross": 2, "decoder.1.cross": 2}
    sums = asked("explain", id=found["id"], show="integrated")
    assert len(sums["tokens"]) == CELLS**2 + len(found["sides"]["decoder"]["tokens"])
    exact = integrated_gradients(captioner_session().subject(SCENE, None), steps=200)
    assert exact.missing is not None
    assert max(map(abs, exact.missing)) < 0.05  # so what cells and words add is all there
    assert "deletion" in asked("explain", id=found["id"], show="deletion")["format"]
    assert "roles are of heads that read text" in asked("roles", id=found["id"])["cannot"]
    weight = asked("arithmetic", id=found["id"], name="decoder.1.cross", head=1, query=2, key=5)
    assert weight["key"]["embedding"] is None
    assert weight["weights"][5] == pytest.approx(caption_weights()["decoder.1.cross"][1, 2, 5], abs=1e-5)
    assert asked("near", run="cap", word=captioner_session().target_tokenizer.tokens([10])[0].lstrip("▁"))["near"]

"""Maps over images: every weight is the model's own, rollout is the product of its layers, relevance the published rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.lens.analyses.deletion import deletion
from regard.lens.analyses.gradients import integrated_gradients, word_shares
from regard.lens.analyses.image_attention import ImageMaps, class_maps, image_rollout, latent_maps, patch_maps
from regard.lens.analyses.image_relevance import relevance, relevances
from regard.lens.analyses.rollout import rollout
from regard.lens.image_subject import image_subject
from regard.lens.result import save
from regard.lens.subject import Subject
from regard.model.probe import attentions, probe
from tests.lens import some_subjects
from tests.lens.tiny_images import KINDS, NAMES, subject


def weights_of(kind: str) -> np.ndarray:
    """weights_LHTT of the layers, as the probe has them."""
    one = subject(kind)
    with torch.no_grad(), probe(one.model) as seen:
        one.forward(1)
    return np.stack([seen[name].weights()[0].numpy() for name in seen if name.endswith(".self")])


@torch.no_grad()
def pooled(one: Subject) -> np.ndarray:
    with probe(one.model) as seen:
        one.forward(1)
    return seen["pooling"].weights()[0, 0, 0].numpy()


@pytest.mark.parametrize("kind", ["class", "mean", "deit", "groups", "rotary"])
def test_a_patch_is_shown_as_it_attends(kind: str) -> None:
    weights_LHTT = weights_of(kind)
    first = subject(kind).image.first  # type: ignore[union-attr]
    row_LHT = weights_LHTT[:, :, first + 4 + 2]  # row 2, column 3 of four columns
    assert np.ptp(row_LHT[..., first:]) > 0.05  # or any map would do
    found = patch_maps(subject(kind), 1, 2)
    np.testing.assert_allclose(found.maps_NYX.reshape(3, -1), row_LHT.mean(1)[:, first:], atol=1e-6)
    assert found.names == ("layer 0", "layer 1", "layer 2")
    heads = patch_maps(subject(kind), 1, 2, layer=1)
    np.testing.assert_allclose(heads.maps_NYX.reshape(3, -1), [row_LHT[1].mean(0)[first:], *row_LHT[1][:, first:]], atol=1e-6)
    one = patch_maps(subject(kind), 1, 2, layer=2, head=1)
    np.testing.assert_allclose(one.maps_NYX.reshape(-1), row_LHT[2, 1, first:], atol=1e-6)
    across = patch_maps(subject(kind), 1, 2, head=1)
    np.testing.assert_allclose(across.maps_NYX.reshape(3, -1), row_LHT[:, 1, first:], atol=1e-6)
    for shown in (found, heads, one, across):
        beside = [sum(rest.values()) for rest in shown.rest]
        np.testing.assert_allclose(shown.maps_NYX.sum((1, 2)) + beside, 1, atol=1e-5)
    assert set(found.rest[0]) == {"class": {"[class]"}, "deit": {"[class]", "[distillation]"}}.get(kind, set(found.rest[0]))


def test_the_class_token_is_shown_by_layer() -> None:
    found, weights_LHTT = class_maps(subject("deit")), weights_of("deit")
    np.testing.assert_allclose(found.maps_NYX.reshape(3, -1), weights_LHTT.mean(1)[:, 0, 2:], atol=1e-6)
    assert found.rest[1]["[distillation]"] == pytest.approx(float(weights_LHTT[1, :, 0, 1].mean()), abs=1e-6)


def test_a_query_that_pools_is_shown_in_place_of_a_class_token() -> None:
    one = subject("sequence")
    np.testing.assert_allclose(class_maps(one).maps_NYX.reshape(-1), pooled(one), atol=1e-6)
    with pytest.raises(UserError, match="only a query at its end"):
        class_maps(one, layer=0)


@pytest.mark.parametrize("kind", ["class", "mean", "deit", "sequence", "mean beside a class token"])
def test_rollout_is_the_product_of_the_layers(kind: str) -> None:
    one, weights_LTT = subject(kind), weights_of(kind).mean(1).astype(np.float64)
    first, tokens = one.image.first, weights_LTT.shape[1]  # type: ignore[union-attr]
    whole_TT = np.linalg.multi_dot([0.5 * (w + np.eye(tokens)) for w in weights_LTT[::-1]])
    begin_T = np.zeros(tokens)
    if kind in ("class", "deit"):
        begin_T[:first] = 1 / first
    elif kind == "sequence":
        begin_T[:] = pooled(one)
    else:
        begin_T[first:] = 1 / (tokens - first)
    found = image_rollout(one)
    np.testing.assert_allclose(found.maps_NYX[0].reshape(-1), (begin_T @ whole_TT)[first:], atol=1e-6)
    assert found.names == ("all layers", "from layer 1", "from layer 2")
    if kind == "class":  # what is written for texts says the same of the same model
        np.testing.assert_allclose(found.maps_NYX[0].reshape(-1), rollout(one).shares_LN[0, first:], atol=1e-6)
    patch = image_rollout(one, 3, 0)
    np.testing.assert_allclose(patch.maps_NYX[0].reshape(-1), whole_TT[first + 12, first:], atol=1e-6)
    assert patch.mark == (3, 0)


def explicit(one: Subject, choice: int) -> np.ndarray:
    """Chefer et al. 2021 (ICCV), equations 5 and 6, with weights that are really in the graph: autograd says their gradients."""
    kept: dict[str, Tensor] = {}

    def explicitly(name: str, weigh: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def mix(q: Tensor, k: Tensor, v: Tensor, view: object, dropout: float = 0.0, *more: object) -> Tensor:
            weights = weigh(q, k, view.rows(torch.arange(q.shape[2])))  # type: ignore[attr-defined]
            weights.retain_grad()
            kept[name] = weights
            return weights @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)

        return mix

    model = one.model
    every = attentions(model)
    own = {name: found.mixer for name, found in every.items()}
    try:
        for name, found in every.items():
            weigh = own[name].weights
            found.mixer = type("Explicit", (), {"mix": staticmethod(explicitly(name, weigh)), "weights": staticmethod(weigh)})()
        model.zero_grad()
        one.forward(1)[0, 0, choice].backward()
    finally:
        for name, found in every.items():
            found.mixer = own[name]
    step = {name: (w.grad * w).clamp(min=0)[0].mean(0).detach().numpy() for name, w in kept.items() if w.grad is not None}
    layers = [name for name in step if name.endswith(".self")]
    tokens = len(one.sides["encoder"])
    whole_TT = np.eye(tokens)
    for name in layers:
        whole_TT = whole_TT + step[name] @ whole_TT
    if "pooling" in step:
        return np.asarray(step["pooling"][0] @ whole_TT)
    first = one.image.first  # type: ignore[union-attr]
    reads = list(one.image.reads) or list(range(first, tokens))  # type: ignore[union-attr]
    return np.asarray((whole_TT - np.eye(tokens))[reads].mean(0))


@pytest.mark.parametrize("kind", list(KINDS))
def test_relevance_is_the_published_rule(kind: str) -> None:
    one = subject(kind)
    logits_V, relevant = relevances(one)
    with torch.no_grad():
        torch.testing.assert_close(logits_V, one.forward(1)[0, 0])
    every = [explicit(one, choice) for choice in range(len(NAMES))]
    assert sum(expected.max() > 1e-4 for expected in every) > 1
    for choice, expected in enumerate(every):
        np.testing.assert_allclose(relevant(choice), expected, atol=1e-8 + 1e-5 * expected.max(), rtol=1e-3)


def test_relevance_shows_the_likeliest_classes_with_their_probability() -> None:
    one = subject("class")
    with torch.no_grad():
        chances = one.forward(1)[0, 0].softmax(-1)
    found = relevance(one)
    order = [NAMES[n] for n in chances.argsort(descending=True)]
    assert [name.split()[0] for name in found.names] == order
    assert found.names[0].endswith(f"{chances.max():.2f}")
    assert relevance(one, [2]).names[0].startswith("triangle")


def test_lines_name_the_largest_patch_and_the_picture_frames_the_query(tmp_path: Path) -> None:
    found = patch_maps(subject("class"), 1, 2)
    lines = found.lines()
    assert lines[0] == subject("class").title
    assert "what patch 2,3 attends to" in lines[1]
    row, column = divmod(int(found.maps_NYX[0].argmax()), 4)
    assert f"{row + 1},{column + 1}" in lines[5]
    assert "[class]" in lines[4]
    save(found, tmp_path / "a.png")
    plain = ImageMaps(found.title, "patch", found.caption, found.image_YXC, found.names, found.maps_NYX, found.rest)
    save(plain, tmp_path / "b.png")
    framed, bare = (np.asarray(Image.open(tmp_path / name).convert("RGB")).astype(int) for name in ("a.png", "b.png"))
    assert framed.shape == bare.shape
    assert (np.abs(framed - bare).sum(-1) > 30).sum() > 200
    for suffix in (".json", ".html", ".svg"):
        save(found, tmp_path / f"a{suffix}")
    data = json.loads((tmp_path / "a.json").read_text())
    np.testing.assert_allclose(data["maps"], found.maps_NYX, rtol=1e-6)
    assert data["patch"] == [2, 3]


def test_what_a_map_cannot_show_is_said() -> None:
    one = subject("class")
    for row, column in ((4, 0), (0, 4), (-1, 0)):
        with pytest.raises(UserError, match="4 rows and 4 columns"):
            patch_maps(one, row, column)
        with pytest.raises(UserError, match="4 rows and 4 columns"):
            image_rollout(one, row, column)
    for layer, head in ((3, None), (-1, None), (0, 2), (None, 9)):
        with pytest.raises(UserError, match="numbered from 0 to"):
            patch_maps(one, 0, 0, layer, head)
    with pytest.raises(UserError, match="no class token: its head reads the mean"):
        class_maps(subject("mean"))
    for view in (class_maps, image_rollout, relevance):
        with pytest.raises(UserError, match="reads no image"):
            view(some_subjects.subject("labeller"))


@pytest.mark.parametrize("kind", ["class", "sequence", "deit"])
def test_patches_are_taken_away_as_words_are(kind: str) -> None:
    one, image = subject(kind), subject(kind).image
    assert image is not None
    found = integrated_gradients(one)
    assert found.values_PN.shape[1] == len(one.tokens)
    assert not found.values_PN[0, : image.first].any()
    assert found.missing is not None
    assert max(map(abs, found.missing)) < 0.02  # what the patches add is all there
    shares = torch.ones(1, len(one.sides["encoder"]))
    shares[0, image.first + 5] = 0
    with torch.no_grad(), word_shares(one, {"encoder": shares}):
        gone = one.forward(1)[0, 0]
    with torch.no_grad():
        tokens = one.model.embed.cells(torch.from_numpy(image.image_YXC)[None])
        tokens[:, 5] = 0
        hook = one.model.embed.cells.register_forward_hook(lambda module, inputs, out: tokens)
        expected = one.forward(1)[0, 0]
        hook.remove()
    torch.testing.assert_close(gone, expected)


def test_explanations_of_an_image_are_tried_by_taking_patches_away() -> None:
    found = deletion([subject("class")], draws=4)
    assert {"rollout", "relevance", "attention", "integrated gradients"} <= {*found.areas}
    assert found.areas["each word alone"] >= found.areas["random order"]


# --- latents ------------------------------------------------------------------------------------------------------------------


@cache
def perceiver(**more: Any) -> Subject:
    family = FAMILIES["perceiver"]
    sizes = {"width": 24, "latents": 5, "layers": 2, "heads": 3, "image_size": 8, "bands": 3, "input_width": 12}
    config = family.config(**{**sizes, **more})
    model: Any = family.build(config, Sizes(vocabulary=0, heads=Heads(words=False, classes=len(NAMES))), 1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(12)
    return image_subject(model, np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8), "drawn.png", NAMES)


@pytest.mark.parametrize("more", [{}, {"blocks": 2, "readings": 2, "layers": 1}])
def test_latents_are_shown_as_they_read(more: dict[str, int]) -> None:
    one = perceiver(**more)
    with torch.no_grad(), probe(one.model) as seen:
        one.forward(1)
    reads = [seen[name].weights()[0].mean(0).numpy() for name in seen if name.startswith("encoder") and name.endswith("cross")]
    asks_N = seen["decoder.0.cross"].weights()[0].mean(0)[0].numpy()
    found = latent_maps(one)
    np.testing.assert_allclose(found.maps_NYX[0].reshape(-1), reads[0].mean(0), atol=1e-6)
    strongest = int(asks_N.argmax())
    assert found.names[1].startswith(f"latent {strongest} ")
    np.testing.assert_allclose(found.maps_NYX[1].reshape(-1), reads[0][strongest], atol=1e-6)
    np.testing.assert_allclose(class_maps(one).maps_NYX.reshape(-1), asks_N @ np.mean(reads, axis=0), atol=1e-6)
    last = latent_maps(one, layer=len(reads) - 1, head=0).maps_NYX[0].reshape(-1)
    np.testing.assert_allclose(last, reads[-1].mean(0), atol=1e-6)
    # Rollout, written out: from the answer down, half of each step stays, and of a reading half is left with the latents.
    share_N, share_T = asks_N, np.zeros(64)
    for name in reversed([name for name in seen if name.startswith("encoder")]):
        weights = seen[name].weights()[0].mean(0).numpy()
        if name.endswith(".self"):
            share_N = (share_N + share_N @ weights) / 2
        else:
            share_T, share_N = share_T + share_N @ weights / 2, share_N / 2
    np.testing.assert_allclose(image_rollout(one).maps_NYX.reshape(-1), share_T, atol=1e-6)


def test_what_latents_have_not_is_said() -> None:
    for view in (relevance, lambda one: patch_maps(one, 0, 0)):
        with pytest.raises(UserError, match="no patch of this image attends to another"):
            view(perceiver())
    with pytest.raises(UserError, match="--layer 1 is not there"):
        latent_maps(perceiver(), layer=1)
    with pytest.raises(UserError, match="reads pixels together with where they are"):
        integrated_gradients(perceiver())

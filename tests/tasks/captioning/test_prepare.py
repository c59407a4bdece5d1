"""Captioners by the commands of any task: trained, continued, evaluated, predicted with, looked into, explained."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from regard.data.sources.captions import read_captions
from regard.model.probe import probe
from regard.tasks.captioning.predict import CaptionGenerator
from regard.tasks.generated_text import GeneratedText
from regard.tasks.registry import open_run
from tests.command import refused, regard, tiny

SMALL = [
    "model.width=16",
    "model.image_size=16",
    "model.patch=4",
    "train.steps=8",
    "train.warmup=2",
    "train.tokens_per_batch=200",
]
DATA = [f"data.{split}=builtin:scenes@count={count}/{split}" for split, count in (("train", 30), ("valid", 6), ("test", 6))]
RECIPES = {
    "lstm": ["caption-scenes", *SMALL],
    "transformer": ["caption-scenes-transformer", *SMALL, "model.heads=2", "model.feedforward=32", "model.layers=1"],
}
SCENE = "builtin:scenes/test/3"


@cache
def trained(decoder: str) -> Path:
    run = tiny().parent / f"caption-{decoder}"
    result = regard("train", *RECIPES[decoder], *DATA, "--out", run)
    assert result.code == 0, result.err
    return run


@pytest.mark.parametrize("decoder", list(RECIPES))
def test_a_run_is_scored_described_and_explained(decoder: str) -> None:
    run = trained(decoder)
    scored = json.loads(regard("evaluate", run, "--json").out)
    assert scored["images"] == 6
    assert 0 <= scored["right"] <= 100
    assert "nrefs:" in scored["bleu_signature"]
    card = (run / "README.md").read_text()
    assert "BLEU-4" in card
    assert "to 4 x 4 cells" in card
    explained = regard("explain", run)
    assert explained.code == 0, explained.err
    assert "words to all 4 x 4 cells" in explained.out
    figures = json.loads(regard("explain", run, "--json").out)
    weights = load_file(next((run / "checkpoints").glob("step-*/model.safetensors")))
    tied = {"writer.head.project.weight"} if "writer.head.project.weight" in weights else set()
    assert figures["parameters"] == sum(w.numel() for name, w in weights.items() if name not in tied)


@pytest.mark.parametrize("decoder", list(RECIPES))
def test_an_image_is_described_from_a_file_as_from_the_set(decoder: str, tmp_path: Path) -> None:
    answers = open_run(trained(decoder))
    assert isinstance(answers, CaptionGenerator)
    data = read_captions(["builtin:scenes@count=4/test"], "", 16)
    Image.fromarray(data.images_NYXC[3]).save(tmp_path / "scene.png")
    expected = [best[0].text for best in answers.write(data.images_NYXC)]
    found = regard("predict", trained(decoder), tmp_path / "scene.png")
    assert found.code == 0, found.err
    assert found.out == expected[3] + "\n"
    told = json.loads(regard("predict", trained(decoder), tmp_path / "scene.png", "--json", "decode.n_best=2").out)
    assert told["outputs"][0]["text"] == expected[3]
    assert len(told["outputs"]) == 2
    (tmp_path / "names.txt").write_text(f"{tmp_path}/scene.png\n\n")
    assert regard("predict", trained(decoder), "--input", tmp_path / "names.txt").out == f"{expected[3]}\n\n"


@pytest.mark.parametrize("decoder", list(RECIPES))
def test_heat_is_what_the_probe_saw_while_the_caption_was_written(decoder: str, tmp_path: Path) -> None:
    run, drawn = trained(decoder), tmp_path / "heat.json"
    found = regard("lens", run, SCENE, "--out", drawn)
    assert found.code == 0, found.err
    picture = json.loads(drawn.read_text())
    assert picture["words"] == found.out.splitlines()[0].split()
    answers = open_run(run)
    with probe(answers.model) as seen:
        assert answers(SCENE) == " ".join(picture["words"])
    names = [name for name in seen if name.endswith("cross")]
    mean = torch.stack([seen[name].weights()[0].mean(0) for name in names]).mean(0)
    np.testing.assert_allclose(np.array(picture["maps"]).reshape(-1, 16), mean[: len(picture["words"])].numpy(), atol=1e-6)
    for name in ("heat.png", "heat.html"):
        assert regard("lens", run, SCENE, "--out", tmp_path / name).code == 0
        assert (tmp_path / name).stat().st_size > 1000


def test_a_word_of_several_pieces_has_the_mean_of_their_maps() -> None:
    answers = open_run(trained("lstm"))

    class Pieces:
        def decode(self, ids: list[int]) -> str:
            return "".join(["re", "d", " cir", "cle", "s"][: len(ids)])

    answers.tokenizer = Pieces()  # type: ignore[assignment]
    assert answers._words([4, 5, 6, 7, 8]).tolist() == [0, 0, 1, 1, 1]
    pixels = read_captions(["builtin:scenes@count=1/test"], "", 16).images_NYXC
    with probe(answers.model) as seen:
        (maps,) = answers.maps(pixels, [GeneratedText("red circles", 0.0, 0.0, True, [4, 5, 6, 7, 8])])
        answers._look(pixels, [GeneratedText("", 0.0, 0.0, True, [4, 5, 6, 7, 8])])
    weights = seen["decoder.0.cross"].weights()[0, 0].numpy()
    np.testing.assert_allclose(maps.reshape(2, 16), [weights[:2].mean(0), weights[2:5].mean(0)], atol=1e-6)


def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path: Path) -> None:
    settings = [*RECIPES["lstm"], *DATA, "model.dropout=0.2", "objective.coverage=0.5", "train.validate_every=4"]
    for name, steps in (("whole", [8]), ("parts", [4, 8])):
        for last in steps:
            result = regard(
                "train", *settings, "train.checkpoint_every=4", "train.schedule=constant", f"train.steps={last}",
                "--out", tmp_path / name,
            )  # fmt: skip
            assert result.code == 0, result.err
    whole, parts = (load_file(tmp_path / name / "checkpoints/step-00000008/model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_ones_own_images(tmp_path: Path) -> None:
    """Grey and transparent ones among them, no built-in scene, and so no right or wrong."""
    for n, mode in enumerate(["RGB", "L", "RGBA", "RGB"]):
        Image.new(mode, (20 + n, 12), "white").save(tmp_path / f"{n}.png")
    lines = [
        {"image": f"{n}.png", "split": "test" if n == 3 else "train", "captions": [f"a word {n}", "white"]} for n in range(4)
    ]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    where = {split: f"data.{split}={tmp_path}/captions.jsonl@split={chosen}" for split, chosen in SPLITS.items()}
    result = regard("train", *RECIPES["lstm"], *where.values(), "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "BLEU-4" in result.out
    assert "right" not in result.out
    assert "warning: 1 of 1 test images are also in train" in result.err  # all are white
    assert regard("predict", tmp_path / "run", tmp_path / "1.png").code == 0


SPLITS = {"train": "train", "valid": "test", "test": "test"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["predict", "RUN", "nowhere.png"], "nowhere.png does not exist"),
        (["predict", "RUN", "TEXT"], "is not an image that can be read"),
        (["predict", "RUN", SCENE, "model.width=32"], "cannot be set for a trained run"),
        (["predict", "RUN", SCENE, "decode.search=greedy", "decode.stop=x"], "a caption ends by itself"),
        (["lens", "RUN", SCENE, "--part", "encoder"], "--part encoder is of texts"),
        (["lens", "RUN", SCENE, "--out", "x.pdf"], "must end in one of"),
        (["train", "caption-scenes", "data.train=builtin:scenes/tarin", "--dry-run"], "did you mean 'train'"),
        (["train", "caption-scenes", "data.train=nowhere.jsonl", "--dry-run"], "data.valid is empty"),
        (["train", "caption-scenes", "model.patch=7", "--dry-run"], "model.patch=7"),
        (["train", "caption-scenes", "train.compile=true", "--dry-run"], "made of blocks"),
        (["train", "caption-scenes", "model.encoder=vgg", "--dry-run"], "model.encoder=vgg is not a choice"),
        (["train", "caption-scenes", *DATA, "data.maximum_tokens=2", "--dry-run"], "all captions are longer than 2 tokens"),
    ],
)
def test_mistakes_are_told(arguments: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    places = {"RUN": trained("lstm"), "TEXT": tmp_path / "text.png"}
    refused(regard(*(places.get(each, each) for each in arguments)), told)


def test_what_a_training_would_cost_is_known_before() -> None:
    for decoder in RECIPES:
        result = regard("train", *RECIPES[decoder], *DATA, "--dry-run")
        assert result.code == 0, result.err
        assert "training memory" in result.out

"""Visual questions by the commands of any task: trained, continued, scored, asked, looked into, explained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from regard.data.sources.captions import open_image
from regard.lens.analyses.image_heat import Heat
from regard.tasks.registry import open_run
from regard.tasks.visual_questions.predict import VisualAnswerer
from tests.command import regard
from tests.tasks.tiny_visual_questions import DATA, RECIPES, ROWS, SMALL, TRAIN, trained, write_images

SCENE, ASKED = "builtin:scenes/test/3", "how many things are there?"
each = pytest.mark.parametrize("kind", list(RECIPES))


@each
def test_a_run_is_scored_beside_answers_without_the_image(kind: str) -> None:
    run = trained(kind)
    scored = json.loads(regard("evaluate", run, "--json").out)
    assert scored["questions"] == sum(one["questions"] for one in scored["kinds"])
    assert {one["kind"] for one in scored["kinds"]} <= {"colour", "shape", "count", "existence", "place", "relation"}
    right = sum(one["accuracy"] * one["questions"] for one in scored["kinds"])
    assert scored["accuracy"] == pytest.approx(right / scored["questions"])
    assert 0 < scored["without_image"] <= 1
    told = regard("evaluate", run).out
    assert "without the image" in told
    assert (run / "errors.tsv").read_text().startswith("image\tquestion\tanswer\tpredicted")
    card = (run / "README.md").read_text()
    assert "accuracy" in card
    explained = regard("explain", run)
    assert explained.code == 0, explained.err
    assert " to all 4 x 4 cells" in explained.out or "latents to" in explained.out


@each
def test_a_training_continues_as_if_it_had_not_stopped(kind: str, tmp_path: Path) -> None:
    for steps in ("train.steps=4", "train.steps=8"):
        result = regard("train", *RECIPES[kind], *DATA, steps, "train.schedule=constant", "--out", tmp_path / "stopped")
        assert result.code == 0, result.err
    regard("train", *RECIPES[kind], *DATA, "train.schedule=constant", "--out", tmp_path / "whole")
    weights = [load_file(tmp_path / run / "checkpoints/step-00000008/model.safetensors") for run in ("stopped", "whole")]
    assert weights[0].keys() == weights[1].keys()
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])


@each
def test_questions_are_typed_piped_and_read_alike(kind: str, tmp_path: Path) -> None:
    run, file = trained(kind), tmp_path / "scene.png"
    open_image(SCENE).save(file)
    typed = regard("predict", run, file, ASKED, "is there a red circle?")
    assert typed.code == 0, typed.err
    lines = typed.out.splitlines()
    assert len(lines) == 2
    answer, probability = lines[0].split("\t")
    told = [json.loads(line) for line in regard("predict", run, file, ASKED, "--json", "data.n_best=2").out.splitlines()]
    assert told[0]["answers"][0]["answer"] == answer
    assert len(told[0]["answers"]) == 2
    assert f"{told[0]['answers'][0]['probability']:.4f}" == probability
    (tmp_path / "lines.txt").write_text(f"{file}\t{ASKED}\n\n{file}\tis there a red circle?\n")
    assert regard("predict", run, "--input", tmp_path / "lines.txt").out == f"{lines[0]}\n\n{lines[1]}\n"
    other = regard("predict", run, SCENE, ASKED, file, ASKED).out.splitlines()
    assert len(other) == 2


@each
def test_heat_is_a_map_for_each_word_or_for_the_answer(kind: str, tmp_path: Path) -> None:
    run = trained(kind)
    result = regard("lens", run, SCENE, ASKED, "--out", tmp_path / "heat.png")
    assert result.code == 0, result.err
    assert Image.open(tmp_path / "heat.png").size[0] > 100
    answers = open_run(run)
    assert isinstance(answers, VisualAnswerer)
    heat = answers.answer_heat(SCENE, ASKED)
    assert isinstance(heat, Heat)
    if kind == "cross":
        assert heat.words == ("how", "many", "things", "are", "there?")
        assert heat.maps_LYX.shape == (5, 4, 4)
    else:
        assert heat.words == (f"→ {answers(SCENE, ASKED)}",)
        assert heat.maps_LYX.shape == (1, 4, 4)
    again = regard("lens", run, f"{SCENE}\t{ASKED}")
    assert again.out.splitlines()[0] == result.out.splitlines()[0]


@pytest.mark.parametrize("layout", ["csv", "tsv", "jsonl", "json"])
def test_peoples_own_files_are_read(layout: str, tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    file, images = tmp_path / f"questions.{layout}", tmp_path / "images"
    if layout == "csv":
        file.write_text("Image,Question,Answer\n" + "".join(f'{i},"{q}",{a}\n' for i, q, a in ROWS))
    elif layout == "tsv":
        file.write_text("".join(f"{i}\t{q}\t{a}\n" for i, q, a in ROWS))
    elif layout == "jsonl":
        file.write_text(
            "".join(json.dumps({"image": i, "question": q, "answers": [a, a, "?"], "kind": "x"}) + "\n" for i, q, a in ROWS)
        )
    else:
        file.write_text(json.dumps([[q, a, int(i[0])] for i, q, a in ROWS]))
    given = [f"data.train={file}", "data.valid_fraction=0.4", *([] if layout == "json" else [f"data.images={images}"])]
    result = regard("train", "vqa-scenes", *SMALL, *TRAIN, *given, f"data.test={file}", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "train: 8 questions about 2 images" in result.err or "train: 4 questions about 1 images" in result.err
    scored = json.loads(regard("evaluate", tmp_path / "run", "--json").out)
    assert scored["questions"] == 12
    assert scored["majority"] == 0.5


def test_rarer_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    write_images(tmp_path)
    rows = [*ROWS, ("0.png", "what is rare?", "odd")]
    (tmp_path / "questions.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    given = [f"data.{split}={tmp_path}/questions.tsv" for split in ("train", "valid", "test")]
    result = regard("train", "vqa-scenes", *SMALL, *TRAIN, *given, "data.most_answers=2", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "train: 1 questions have rarer answers than data.most_answers=2" in result.err
    scored = json.loads(regard("evaluate", tmp_path / "run", "--json").out)
    assert scored["unknown_answers"] == 1
    assert np.isfinite(scored["nll"])

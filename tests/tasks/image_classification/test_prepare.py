"""Image classifiers by the commands of any task: trained on every augmentation, stopped and continued, scored, taught."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from regard.data.batching.images import ImageBatches, LabelledImages
from regard.runs.recipe import load_recipe
from regard.tasks.image_classification.prepare import images_of_a_batch, prepare
from regard.tasks.image_classification.teacher import Teacher
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.image_classification.tiny_images import AUGMENTED, DATA, MODELS, SMALL, train, trained


def weights(run: Path, step: int = 8) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


@pytest.mark.parametrize("model", list(MODELS))
def test_a_run_is_scored_described_and_explained(model: str) -> None:
    run = trained(model)
    scored = json.loads(regard("evaluate", run, "--json").out)
    assert scored["images"] == 20
    assert len(scored["labels"]) == 10
    assert np.array(scored["confusion"]).sum() == 20
    card = (run / "README.md").read_text()
    assert "40 images, 10 labels to train on, 10 images to validate with" in card
    assert "nats a image" not in card
    listed = (run / "errors.tsv").read_text().splitlines()
    assert listed[0] == "image\tlabel\tpredicted\tprobability"
    assert all(line.startswith("builtin:shapes@count=20/test") or "builtin:shapes/test/" in line for line in listed[1:])
    explained = regard("explain", run)
    assert explained.code == 0, explained.err
    parameters = sum(t.numel() for name, t in weights(run).items() if not name.endswith(("mean_C", "variance_C")))
    assert f"{parameters:,}" in explained.out


def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path: Path) -> None:
    """With every augmentation: what is drawn in a step depends on its number alone."""
    whole = train(tmp_path / "whole", "convnet", *AUGMENTED)
    stopped = train(tmp_path / "stopped", "convnet", *AUGMENTED, "train.steps=4")
    train(stopped, "convnet", *AUGMENTED)
    one, other = weights(whole), weights(stopped)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(weights(trained())["classes.project.weight"], one["classes.project.weight"])


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = regard("train", *MODELS["vit"], *SMALL, *DATA, "--dry-run", "--out", tmp_path / "run", "--device", "cpu")
    assert result.code == 0, result.err
    assert not (tmp_path / "run").exists()


# --- batches ---------------------------------------------------------------------------------------------------------------
def test_batches_are_full_and_an_epoch_has_each_image_once() -> None:
    data = LabelledImages.of(np.zeros((22, 4, 4, 3), np.uint8), np.arange(22))
    plan = ImageBatches(data, 5, seed=1).plan(0)
    assert [len(rows) for rows in plan] == [5] * 4
    assert len(np.unique(np.concatenate(plan))) == 20
    assert not np.array_equal(plan[0], ImageBatches(data, 5, seed=1).plan(1)[0])
    repeated = ImageBatches(data, 6, seed=1, repeats=3).plan(0)
    assert len(repeated) == len(ImageBatches(data, 6, seed=1).plan(0))
    assert all(len(np.unique(rows)) == 2 for rows in repeated)
    assert [len(batch.labels_B) for batch in ImageBatches(data, 5, seed=1).in_order()] == [5, 5, 4, 4, 4]
    assert ImageBatches(data, 100, seed=1).plan(0)[0].shape == (22,)


def test_images_that_do_not_fit_travel_with_their_batch() -> None:
    images_NYXC = np.random.default_rng(0).integers(0, 256, (9, 4, 4, 3), dtype=np.uint8)
    data = LabelledImages.of(images_NYXC, np.arange(9))
    here = ImageBatches(data, 4, seed=0).batch(np.array([3, 1]), 0)
    data.store.resident = False
    carried = ImageBatches(data, 4, seed=0).batch(np.array([3, 1]), 0)
    assert here.rows.dim() == 1
    assert carried.rows.dim() == 4
    assert torch.equal(here.images(), carried.images())
    assert torch.equal(here.images(), torch.from_numpy(images_NYXC[[3, 1]]))


def test_a_batch_is_counted_in_images_or_in_patches() -> None:
    recipe = load_recipe("vit", [*SMALL, *DATA])
    assert images_of_a_batch(recipe) == 8
    assert images_of_a_batch(load_recipe("vit", ["train.examples_per_batch=0", "train.tokens_per_batch=650"])) == 10  # of 65


# --- held out, classes, teachers -------------------------------------------------------------------------------------------
def photos(folder: Path, classes: dict[str, int]) -> Path:
    random = np.random.default_rng(0)
    for label, count in classes.items():
        (folder / label).mkdir(parents=True)
        for n in range(count):
            Image.fromarray(random.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(folder / label / f"{n}.png")
    return folder


def test_equal_images_are_on_one_side_of_a_split(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", {"cat": 8, "dog": 8})
    for n in range(8):
        shutil.copy(folder / "cat" / f"{n}.png", folder / "cat" / f"again-{n}.png")
    said = list[str]()
    recipe = load_recipe("vit", [*SMALL, f"data.train={folder}", "data.valid_fraction=0.4"])
    found = prepare(recipe, None, said.append)
    assert found.labels.names == ("cat", "dog")
    assert len(found.train) + len(found.valid) == 24
    both = [{image.numpy().tobytes() for image in part.store.images} for part in (found.train, found.valid)]
    assert not both[0] & both[1]
    assert any("24" not in line and "images: " in line for line in said)


def test_a_student_has_its_teachers_classes_and_learns_from_it(tmp_path: Path) -> None:
    teacher = trained("convnet")
    taught = ["objective.name=image_distillation", f"objective.teacher={teacher}"]
    for name, more in (("hard", []), ("soft", ["objective.distillation=soft"])):
        run = train(tmp_path / name, "vit", "model.family=deit", *taught, *more)
        assert {"classes", "distilled"} <= {part.partition(".")[0] for part in weights(run)}
        scored = open_run(run, "cpu")
        assert scored.labels.names == Teacher.of(str(teacher)).labels.names  # type: ignore[attr-defined]
        assert "agrees" in (run / "metrics.jsonl").read_text()


def test_a_teacher_that_does_not_suit_is_refused(tmp_path: Path) -> None:
    teacher = ["objective.name=image_distillation", f"objective.teacher={trained('convnet')}"]
    command = ["train", *MODELS["vit"], *SMALL, *DATA, "--out", tmp_path / "run", "--device", "cpu", *teacher]
    refused(regard(*command, "model.image_size=32"), "reads images of 16 pixels", "model.image_size=16")
    refused(regard(*command, "objective.teacher=runs/nothing"), "objective.teacher=runs/nothing does not exist")
    refused(regard(*command, "objective.teacher=runs/convnet-shapes"), "train it first, 'regard train convnet-shapes'")
    refused(regard(*command, "objective.teacher="), "objective.teacher is empty")
    folder = photos(tmp_path / "photos", {"cat": 3, "dog": 3})
    refused(regard(*command, f"data.train={folder}", f"data.valid={folder}", "data.test="), "has the label", "same classes")
    assert not (tmp_path / "run").exists()


def test_training_begins_with_the_weights_of_a_run(tmp_path: Path) -> None:
    start = trained("vit")
    same = ["train.learning_rate=1e-12", "train.weight_decay=0", "train.steps=1", f"task.init_from={start}"]
    run = train(tmp_path / "same", "vit", *same)
    one, other = weights(start), weights(run, 1)
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)
    folder = photos(tmp_path / "photos", {"cat": 6, "dog": 6})
    data = [f"data.train={folder}", f"data.valid={folder}", "data.test="]
    other = weights(train(tmp_path / "other", "vit", *same, *data), 1)
    assert other["classes.project.weight"].shape[0] == 2
    body = [name for name in one if not name.startswith("classes.")]
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in body)

"""Image classifiers of transformers: imported, opened as they are, exported, fine-tuned at another size and by adapters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from tests.command import refused, regard
from tests.interop.huggingface.test_vit import drawn, peer, pixels
from tests.tasks.image_classification.tiny_images import DATA, SMALL, trained

transformers = pytest.importorskip("transformers")
NAMES = dict(enumerate(["a", "b", "c", "d", "side by side"]))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    Image.fromarray(drawn(16, 16)[0].numpy()).save(tmp_path / "image.png")
    return tmp_path / "image.png"


@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_a_folder_is_imported_and_answers_as_it_does_there(kind: str, image: Path, tmp_path: Path) -> None:
    theirs = peer(kind, tmp_path / "theirs", id2label=NAMES)
    imported = regard("import", tmp_path / "theirs", tmp_path / "run", "--check")
    assert imported.code == 0, imported.err
    assert "largest difference from transformers" in imported.out + imported.err
    with torch.no_grad():
        expected = theirs(pixels(drawn(16, 16)[:1])).logits.softmax(-1)[0]
    for source in (tmp_path / "run", tmp_path / "theirs"):
        told = json.loads(regard("predict", source, image, "--json", "--device", "cpu").out)
        assert list(told["probabilities"]) == list(NAMES.values())
        assert list(told["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_run_is_exported_with_its_labels(image: Path, tmp_path: Path) -> None:
    exported = regard("export", trained("vit"), tmp_path / "hf", "--to", "hf")
    assert exported.code == 0, exported.err
    theirs = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "hf").eval()
    told = json.loads(regard("predict", trained("vit"), image, "--json", "--device", "cpu").out)
    with torch.no_grad():
        found = theirs((drawn(16, 16)[:1] / 127.5 - 1).permute(0, 3, 1, 2)).logits.softmax(-1)[0]
    assert [theirs.config.id2label[n] for n in range(10)] == list(told["probabilities"])
    assert found.tolist() == pytest.approx(list(told["probabilities"].values()), abs=1e-4)
    described = json.loads((tmp_path / "hf" / "preprocessor_config.json").read_text())
    assert described["image_mean"] == [0.5] * 3


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


def tuned(run: Path, source: Path, *settings: str) -> dict[str, torch.Tensor]:
    given = [s for s in SMALL if not s.startswith("model.")]
    result = regard("train", "vit", *given, *DATA, f"task.init_from={source}", *settings, "--out", run, "--device", "cpu")
    assert result.code == 0, result.err
    return weights(run, 8)


def test_a_public_classifier_is_fine_tuned_at_another_size(tmp_path: Path) -> None:
    """Positions are interpolated once, as a picture is; classes are new."""
    peer("vit", tmp_path / "theirs")
    after = tuned(tmp_path / "run", tmp_path / "theirs", "model.image_size=24", "train.learning_rate=1e-20")
    table = load_file(tmp_path / "theirs" / "model.safetensors")["vit.embeddings.position_embeddings"][0]
    grid = table[1:].T.reshape(1, 24, 4, 4)
    expected = torch.nn.functional.interpolate(grid, (6, 6), mode="bicubic", align_corners=False)[0].flatten(1).T
    torch.testing.assert_close(after["embed.vectors.table_MD"][1:], expected)
    torch.testing.assert_close(after["embed.vectors.table_MD"][0], table[0])
    assert after["classes.project.weight"].shape == (10, 24)


@pytest.mark.parametrize("targets", ["", "train.lora_targets=query,expand"])
def test_adapters_learn_and_the_rest_stays(targets: str, tmp_path: Path) -> None:
    before = weights(trained("vit"), 8)
    after = tuned(tmp_path / "run", trained("vit"), "train.lora=2", *[targets] * bool(targets))
    adapters = [name for name in after if "lora" in name or "adapter" in name.lower()]
    assert adapters
    assert all(name.startswith("encoder.") for name in adapters)
    kept = [name for name in before if name in after and not name.startswith("classes.")]
    assert all(torch.equal(before[name], after[name]) for name in kept)
    assert not torch.equal(before["classes.project.weight"], after["classes.project.weight"])


def test_an_encoder_without_classes_is_no_classifier_yet(tmp_path: Path, image: Path) -> None:
    peer("vit, no head", tmp_path / "theirs")
    refused(regard("predict", tmp_path / "theirs", image, "--device", "cpu"), "task.init_from")

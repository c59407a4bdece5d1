"""What people may get wrong about the arena's data, models and benchmark: one sentence each, exit code 2, nothing written."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.command import contents, refused, regard
from tests.tasks.tiny_labels import PAIRS, ROWS, write_rows

LISTS = "builtin:listops@length=5-20@count=20"
TINY = [
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16"),
    *("train.steps=2", "train.warmup=1", "train.precision=fp32"),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def train(folder: Path, recipe: str, *settings: str) -> object:
    return regard("train", recipe, *TINY, *settings, "--out", folder / "run", "--device", "cpu")


NAMES: list[tuple[str, tuple[str, ...]]] = [
    ("builtin:listop/train", ("no built-in labelled texts 'listop'", "did you mean 'listops'?")),
    ("builtin:listops", ("to say which split: /train, /valid or /test",)),
    ("builtin:listops/dev", ("no split 'dev'",)),
    ("builtin:listops@lenght=5-20/train", ("'lenght=5-20' is not a setting of listops", "did you mean 'length'?")),
    ("builtin:listops@length/train", ("'length' is not a setting", "@KEY=VALUE")),
    ("builtin:listops@length=20-5/train", ("'20-5' is no range", "the smaller first")),
    ("builtin:listops@length=-5/train", ("'-5' is no range",)),
    ("builtin:listops@length=a-b/train", ("'a-b' is no range",)),
    ("builtin:listops@length=1-3/train", ("the shortest list", "4 symbols")),
    ("builtin:listops@depth=1/train", ("listops@depth=1 must be from 2 to 30",)),
    ("builtin:listops@depth=deep/train", ("@depth=deep must be a whole number",)),
    ("builtin:listops@arguments=1/train", ("listops@arguments=1 must be from 2",)),
    ("builtin:listops@count=0/train", ("@count must be at least 1",)),
    ("builtin:listops@count=-3/train", ("@count=-3 must be a whole number",)),
    ("builtin:listops@count=99999999999999999999/train", ("must be a whole number below a billion",)),
    ("builtin:pathfinder@side=33/train", ("pathfinder@side=33 must be one of 16, 32, 64, 128", "Path-X")),
    ("builtin:pathfinder@dashes=1/train", ("pathfinder@dashes=1 must be from 2 to 14 in pictures of side 32",)),
    ("builtin:pathfinder@side=16@dashes=6/train", ("pathfinder@dashes=6 must be from 2 to 5 in pictures of side 16",)),
    ("builtin:dyck@kinds=9/train", ("dyck@kinds=9 must be from 1 to 4",)),
    ("builtin:dyck@depth=0/train", ("dyck@depth=0 must be at least 1",)),
    ("builtin:dyck@length=5-5/train", ("must reach an even length",)),
    ("builtin:dyck@length=2-3/train", ("must reach an even length",)),
    ("builtin:parity@length=2-4@count=500/train", ("only", "different sequences were found, of 500 wanted", "@count=")),
    ("builtin:parity@seed=x/train", ("@seed=x must be a whole number",)),
    ("nowhere.npz", ("nowhere.npz does not exist",)),
    ("missing/photos.tar.gz", ("neither does the folder missing",)),
]


@pytest.mark.parametrize(("entry", "told"), NAMES, ids=[entry for entry, _ in NAMES])
def test_a_wrong_name_or_setting_of_a_set(entry: str, told: tuple[str, ...], tmp_path: Path) -> None:
    before = contents(tmp_path)
    result = train(tmp_path, "lra-listops", f"data.train={entry}", f"data.valid={LISTS}/valid", f"data.test={LISTS}/test")
    assert refused(result, *told).startswith("regard: data.train: ")  # type: ignore[arg-type]
    assert contents(tmp_path) == before


def archive(names: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def arrays(**given: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.savez(made, **given)  # type: ignore[arg-type]
    return made.getvalue()


def png(side: int) -> bytes:
    made = io.BytesIO()
    Image.new("L", (side, side)).save(made, "png")
    return made.getvalue()


FILES: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("empty.bin", b"", ("not a batch of CIFAR-10's binary version",)),
    ("short.bin", bytes(3000), ("3,073 bytes each",)),
    ("label.bin", bytes([77]) + bytes(3072), ("a label from 0 to 9",)),
    ("text.npz", b"hello", ("cannot be read as pictures",)),
    ("names.npz", arrays(pictures=np.zeros((2, 4, 4)), labels=np.zeros(2)), ("expected are numpy arrays", "`images`")),
    ("flat.npz", arrays(images=np.zeros((2, 16)), labels=np.zeros(2)), ("images are 2x16, labels 2", "rows x columns")),
    ("uneven.npz", arrays(images=np.zeros((2, 4, 4)), labels=np.zeros(3)), ("labels 3", "N labels")),
    ("loud.npz", arrays(images=np.full((2, 4, 4), 999), labels=np.zeros(2)), ("values from 0 to 255",)),
    ("pickle.npz", arrays(images=np.array([{}, {}], object), labels=np.zeros(2)), ("cannot be read as pictures",)),
    ("cut.tar.gz", archive({"a/1.png": png(8), "b/2.png": png(8)})[:-60], ("not a whole archive",)),
    ("bare.tar.gz", archive({"1.png": png(8)}), ("is in no folder of a class", "called like its label")),
    ("broken.tar.gz", archive({"a/1.png": png(8), "b/2.png": b"no picture"}), ("b/2.png is not an image",)),
    ("sizes.tar.gz", archive({"a/1.png": png(8), "b/2.png": png(9)}), ("9 x 9 pixels, the first 8 x 8", "@side=32")),
    ("one.tar.gz", archive({"a/1.png": png(8), "a/2.png": png(8)}), ("one label only, 'a'",)),
]


@pytest.mark.parametrize(("name", "content", "told"), FILES, ids=[name for name, *_ in FILES])
def test_wrong_pictures(name: str, content: bytes, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    before = contents(tmp_path)
    refused(train(tmp_path, "lra-pixels", f"data.train={name}", f"data.valid={name}", "data.test="), *told)  # type: ignore[arg-type]
    assert contents(tmp_path) == before


SETTINGS: list[tuple[str, list[str], tuple[str, ...]]] = [
    ("lra-listops", ["model.pooling=max"], ("model.pooling=max", "first")),
    ("lra-listops", ["model.pairs=apart"], ("model.pairs=apart", "set model.pairs=joined")),
    ("lra-listops", ["text.tokenizer=byte", "text.size=0"], ("15 symbols", "set text.tokenizer=spaced")),
    ("lra-listops", ["text.size=9"], ("text.size=20 or more",)),
    ("lra-listops", ["model.position=learned", "model.maximum_length=10"], ("positions", "raise model.maximum_length")),
    ("lra-listops", [f"data.train={LISTS}/train,rows.tsv"], ("rows.tsv holds texts", "different runs")),
    ("lra-listops", [f"data.train={LISTS}/train,builtin:parity@count=9/train"], ("different kinds",)),
    ("lra-listops", ["data.valid=builtin:parity@count=9/valid"], ("not one that training knows",)),
    ("lra-listops", ["data.valid_fraction=1"], ("data.valid_fraction=1",)),
    ("lra-listops", ["data.valid=", "data.valid_fraction=0"], ("data.valid is empty",)),
    ("lra-listops", ["task.name=denoising", "objective.mask_rate=2"], ("objective.mask_rate=2",)),
    ("lra-listops", ["task.name=denoising", "objective.next_sentence=true"], ("objective.next_sentence=true", "running text")),
    ("lra-listops", ["task.name=denoising", "objective.name=classification"], ("objective.name=classification", "denoising")),
    ("lra-listops", ["task.name=denoising", "model.family=gpt"], ("model.family=gpt", "denoising")),
    ("lra-text", ["data.train=rows.tsv", "model.pairs=apart"], ("model.pairs=apart", "here is one alone")),
    ("lra-retrieval", ["data.train=rows.tsv", "data.valid=rows.tsv"], ("model.pairs=apart", "here is one alone")),
    ("lra-retrieval", ["data.train=pairs.tsv", "data.valid=other.tsv"], ("texts found: 1, in training: 2",)),
]


@pytest.mark.parametrize(("recipe", "settings", "told"), SETTINGS, ids=[" ".join(settings) for _, settings, _ in SETTINGS])
def test_a_wrong_setting(recipe: str, settings: list[str], told: tuple[str, ...], tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.tsv", ROWS)
    write_rows(tmp_path / "pairs.tsv", PAIRS)
    write_rows(tmp_path / "other.tsv", [(first, label) for first, _, label in PAIRS])
    lists = [f"data.{split}={LISTS}/{split}" for split in ("train", "valid", "test")] if recipe == "lra-listops" else []
    refused(train(tmp_path, recipe, *lists, *settings), *told)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["lra", "listop"], ("no task 'listop'", "did you mean 'listops'?")),
        (["lra", "variants=ful"], ("no variant 'ful'", "did you mean 'full'?")),
        (["lra", "seed=1"], ("no choice 'seed'", "did you mean 'seeds'?")),
        (["lra", "seeds=0"], ("whole numbers above 0",)),
        (["limits", "paritty"], ("no task 'paritty'", "did you mean 'parity'?")),
        (["cost_growth", "bigbird"], ("measures all it has", "leave out 'bigbird'")),
    ],
)
def test_what_is_typed_behind_a_benchmark(arguments: list[str], told: tuple[str, ...]) -> None:
    refused(regard("bench", *arguments), *told)

"""Captions from JSON lines, tables and Flickr8k's layout; chosen by a key or a list; batches of them."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from regard.core.errors import UserError
from regard.data.batching.captions import CaptionBatches, encode_captions, in_order, make_batch
from regard.data.sources.captions import CaptionedImages, open_captioned, open_image, read_captions
from regard.text.specials import EOS, PAD, SOS

LINES = [
    {"image": "a.png", "split": "train", "captions": ["a  cat", "one cat\tsits"]},
    {"image": "b.png", "split": "dev", "caption": "a dog"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for n, name in enumerate("abc"):
        Image.new("RGB", (6, 4), (n, 0, 0)).save(tmp_path / f"{name}.png")
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    table = "a.png#0\ta cat\na.png#1\tone cat sits\nb.png#0\ta dog\n"
    (tmp_path / "token.txt.gz").write_bytes(gzip.compress(table.encode()))
    (tmp_path / "plain.tsv").write_text("b.png\ta dog\na.png\ta cat\nb.png\tdogs\n")
    (tmp_path / "dev.txt").write_text("b.png\n")
    return tmp_path


def found(data: CaptionedImages) -> dict[str, tuple[str, ...]]:
    assert [image[0, 0, 0] for image in data.images_NYXC] == ["abc".index(example.name[0]) for example in data.examples]
    return {example.name: example.captions for example in data.examples}


def test_three_layouts(folder: Path) -> None:
    both = {"a.png": ("a cat", "one cat sits"), "b.png": ("a dog",)}
    for name in ("captions.jsonl", "token.txt.gz"):
        data = read_captions([str(folder / name)], "", 4)
        assert found(data) == both
        assert data.images_NYXC.shape == (2, 4, 4, 3)
    assert found(read_captions([str(folder / "plain.tsv")], str(folder), 4)) == {"b.png": ("a dog", "dogs"), "a.png": ("a cat",)}
    several = read_captions([str(folder / "captions.jsonl"), str(folder / "plain.tsv")], "", 4)
    assert found(several) == {"a.png": ("a cat", "one cat sits", "a cat"), "b.png": ("a dog", "a dog", "dogs")}
    assert len(read_captions([str(folder / "captions.jsonl"), str(folder / "plain.tsv")], "", 4, limit=1)) == 1


@pytest.mark.parametrize("header", ["", "image,caption\r\n", '"File","Comment"\r\n'])
def test_a_spreadsheet(folder: Path, header: str) -> None:
    """With a mark, quotes and Windows' line ends, as Excel writes it; a header or none."""
    rows = 'a.png,"one cat, sitting"\r\nb.png,a dog\r\na.png,"a ""cat"""\r\n'
    (folder / "sheet.csv").write_bytes(b"\xef\xbb\xbf" + (header + rows).encode())
    (folder / "sheet.csv.gz").write_bytes(gzip.compress((header + rows).encode()))
    expected = {"a.png": ("one cat, sitting", 'a "cat"'), "b.png": ("a dog",)}
    for name in ("sheet.csv", "sheet.csv.gz"):
        assert found(read_captions([str(folder / name)], "", 4)) == expected


def test_a_split_is_chosen_by_a_key_or_a_list(folder: Path) -> None:
    assert list(found(read_captions([f"{folder}/captions.jsonl@split=dev"], "", 4))) == ["b.png"]
    assert list(found(read_captions([f"{folder}/token.txt.gz@names={folder}/dev.txt"], "", 4))) == ["b.png"]
    for entry, told in {
        "captions.jsonl@split=test": "no image with captions is left",
        "captions.jsonl@split": "KEY=VALUE",
        "plain.tsv@split=dev": "give @names=FILE",
        "plain.tsv@names=nowhere.txt": "nowhere.txt",
    }.items():
        with pytest.raises(UserError, match=told):
            read_captions([f"{folder}/{entry}"], "", 4)


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("x.jsonl", '{"captions": ["a"]}', "line 1: there is no column 'image'"),
        ("x.jsonl", '{"image": "a.png", "captions": []}', "a list of one or more texts"),
        ("x.jsonl", '{"image": "a.png", "captions": "a cat"}', "a list of one or more texts"),
        ("x.jsonl", '{"image": "a.png", "captions": [" "]}', "the caption is empty"),
        ("x.jsonl", '{"image": "a.png"}', "there is no column 'caption'"),
        ("x.jsonl", "[1]", "list found, object expected"),
        ("x.tsv", "a.png a cat", "line 1: image, tab and caption are expected"),
        ("x.tsv", "\ta cat", "image, tab and caption"),
        ("x.csv", "a.png,a cat, sitting", "line 1: columns found: 3, expected: 2"),
        ("x.csv", "image;caption\na.png;a cat", "parted by semicolons"),
        ("x.csv", "image,caption\n,a cat", "line 2"),
        ("x.tsv", "a.png\t ", "the caption is empty"),
        ("x.tsv", "z.png\ta cat", "there is no image"),
    ],
)
def test_a_wrong_line_is_named(folder: Path, name: str, line: str, told: str) -> None:
    (folder / name).write_text(line + "\n")
    with pytest.raises(UserError, match=told):
        read_captions([str(folder / name)], "", 4)


def test_an_image_is_opened_where_its_own_captions_are(tmp_path: Path) -> None:
    """Two files of captions in two folders, and an archive; in each another image of the same name."""
    entries = []
    for number, name in enumerate(("one", "two")):
        (place := tmp_path / name).mkdir()
        Image.new("RGB", (9 + number, 5), (50 * number, 0, 0)).save(place / "a.png")
        (place / "captions.tsv").write_text("a.png\ta cat\n")
        entries.append(str(place / "captions.tsv"))
    assert [open_captioned(each).size for each in read_captions(entries, "", 4).examples] == [(9, 5), (10, 5)]
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        archive.add(tmp_path / "two" / "a.png", "photos/a.png")
    (packed,) = read_captions(entries[:1], str(tmp_path / "images.tar"), 4).examples
    assert open_captioned(packed).size == (10, 5)
    (tmp_path / "one" / "a.png").unlink()
    with pytest.raises(UserError, match=r"captions\.tsv, line 1.*a\.png"):
        open_captioned(packed._replace(among=tmp_path / "one"))


COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (9, 9, 9))


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five images of one colour each, in a folder and in an archive that holds them in another order."""
    folder = tmp_path_factory.mktemp("squares")
    for number, colour in enumerate(COLOURS):
        Image.new("RGB", (8, 8), colour).save(folder / f"{number}.png")
    with tarfile.open(folder / "images.tar", "w") as archive:
        for number in (3, 0, 4, 1, 2):
            archive.add(folder / f"{number}.png", f"photos/{number}.png")
    return folder


def test_an_image_named_on_several_lines_keeps_its_pixels(squares: Path) -> None:
    lines = [{"image": f"{n // 2}.png", "caption": f"{'box' if n % 2 else 'square'} {n // 2}"} for n in range(8)]
    (squares / "mix.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for limit, images in ((None, 4), (3, 3)):
        data = read_captions([str(squares / "mix.jsonl")], str(squares), 8, limit)
        assert len(data) == images
        for number, (example, image_YXC) in enumerate(zip(data.examples, data.images_NYXC)):
            assert example.captions == (f"square {number}", f"box {number}")
            assert (image_YXC == COLOURS[number]).all()


LINE = st.tuples(st.integers(0, 4), st.lists(st.integers(1, 6), min_size=1, max_size=3))
FILE = st.tuples(st.sampled_from(["jsonl", "tsv", "csv"]), st.lists(LINE, min_size=1, max_size=8))


@given(st.lists(FILE, min_size=1, max_size=3), st.booleans(), st.none() | st.integers(1, 6), st.none() | st.integers(2, 4))
@settings(deadline=None)
def test_captions_and_images_are_matched_by_name(
    squares: Path, files: list[tuple[str, list]], packed: bool, limit: int | None, maximum: int | None
) -> None:
    """Whatever lines name an image, in whatever files, layout, folder or archive, and however many are left out."""
    expected, entries = dict[str, list[str]](), []
    for number, (suffix, lines) in enumerate(files):
        told = [(f"{image}.png", [f"{'w ' * length}{image}" for length in lengths]) for image, lengths in lines]
        for name, captions in told:
            expected.setdefault(name, []).extend(captions)
        by = "," if suffix == "csv" else "\t"
        rows = [f"{name}{by}{caption}" for name, captions in told for caption in captions]
        objects = [json.dumps({"image": name, "captions": captions}) for name, captions in told]
        (squares / f"{number}.{suffix}").write_text("\n".join(objects if suffix == "jsonl" else rows) + "\n")
        entries.append(str(squares / f"{number}.{suffix}"))
    data = read_captions(entries, str(squares / "images.tar") if packed else "", 8, limit)
    assert {example.name: list(example.captions) for example in data.examples} == dict(list(expected.items())[:limit])
    numbers = [[int(word) if word.isdigit() else 5 for word in text.split()] for e in data.examples for text in e.captions]
    encoded = encode_captions(data, lambda _: numbers, maximum)
    for row in range(len(encoded)):
        batch = make_batch(encoded, np.array([row]))
        image = int(batch.target_out_BL[0, -2])
        assert (batch.image_BYXC[0].numpy() == COLOURS[image]).all()


def test_images_of_one_name_in_an_archive(squares: Path, tmp_path: Path) -> None:
    """The whole path says which; the last part of it alone is refused where two have it."""
    (tmp_path / "captions.tsv").write_text("1.png\ta square\n")
    (tmp_path / "whole.tsv").write_text("b/1.png\ta square\na/1.png\ta square\n")
    for names, chosen in ((("a/1.png", "1.png"), 1), (("1.png", "a/1.png"), 0)):
        with tarfile.open(tmp_path / "images.tar", "w") as archive:
            for number, name in enumerate(names):
                archive.add(squares / f"{number}.png", name)
        (image,) = (data := read_captions([f"{tmp_path}/captions.tsv"], f"{tmp_path}/images.tar", 8)).images_NYXC
        assert (image == COLOURS[chosen]).all()
        assert open_captioned(data.examples[0]).getpixel((0, 0)) == COLOURS[chosen]
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        for number, name in enumerate(("a/1.png", "b/1.png")):
            archive.add(squares / f"{number}.png", name)
    data = read_captions([f"{tmp_path}/whole.tsv"], f"{tmp_path}/images.tar", 8)
    assert [tuple(image[0, 0]) for image in data.images_NYXC] == [COLOURS[1], COLOURS[0]]
    with pytest.raises(UserError, match=r"a/1\.png and b/1\.png are both called '1\.png'"):
        read_captions([f"{tmp_path}/captions.tsv"], f"{tmp_path}/images.tar", 8)


def test_built_in_scenes_by_split_count_and_number() -> None:
    data = read_captions(["builtin:scenes@count=3/test"], "", 32)
    assert len(data) == 3
    assert data.images_NYXC.shape == (3, 32, 32, 3)
    assert all(example.scene is not None and example.captions == (example.scene.caption,) for example in data.examples)
    assert open_image(data.examples[2].name).size == (512, 512)
    for entry in (
        "builtin:scenes",
        "builtin:scenes/tset",
        "builtin:scene/test",
        "builtin:scenes@count=0/test",
        "builtin:scenes/test/1",
    ):
        with pytest.raises(UserError, match="builtin:scene"):
            read_captions([entry], "", 32)
    for name in ("builtin:scenes/test", "builtin:scenes/test/500", "builtin:scenes/nowhere/1", "builtin:x"):
        with pytest.raises(UserError, match="builtin:"):
            open_image(name)


def encoded(texts: list[str]) -> list[list[int]]:
    return [[4 + len(word) for word in text.split()] for text in texts]


def test_every_caption_comes_with_its_image(folder: Path) -> None:
    data = encode_captions(read_captions([str(folder / "captions.jsonl")], "", 4), encoded)
    source = CaptionBatches(data, 100, seed=1)
    rows = np.array([2, 0])
    batch = source.batch(rows, 0)
    assert batch.target_in_BL.tolist() == [[SOS, 5, 7], [SOS, 5, 7]]
    assert batch.target_out_BL.tolist() == [[5, 7, EOS], [5, 7, EOS]]
    assert batch.image_BYXC[:, 0, 0, 0].tolist() == [1, 0]
    assert batch.tokens == source.count(rows) == 6
    longer = make_batch(data, np.array([1, 0]))
    assert longer.target_out_BL[1].tolist() == [5, 7, EOS, PAD]
    assert torch.equal(longer.twice().image_BYXC, torch.cat([longer.image_BYXC] * 2))
    assert sorted(n for rows in source.plan(0) for n in rows) == [0, 1, 2]
    assert sum(each.tokens for each in in_order(data, 7)) == source.count(np.arange(3))
    short = encode_captions(read_captions([str(folder / "captions.jsonl")], "", 4), encoded, maximum=3)
    assert (len(short), short.dropped, short.owner.tolist()) == (2, 1, [0, 1])
    assert short.digest != data.digest

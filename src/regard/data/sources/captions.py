"""Images with captions, from whatever people have.

    "captions.jsonl"                {"image": "1.jpg", "captions": ["a dog runs", "a dog on grass"]}; or "caption", one text
    "captions.tsv"                  image, tab, caption
    "captions.csv"                  image,caption; a first row whose image has no ending, such as image,caption, is a header
    "Flickr8k.token.txt"            name.jpg#0, tab, caption, as Flickr8k and Flickr30k come
    "builtin:scenes/train"          drawn scenes whose captions are right or wrong (builtin/scenes.py)

Every file may be gzipped, and an image may be named on several lines: what they say are its captions. Images are in the file's
own folder, or where `images` says: a folder or a .tar archive. One file may hold all splits: `captions.jsonl@split=train` takes
the lines whose "split" is "train", and `Flickr8k.token.txt@names=dev.txt` takes the images that are listed in that file, one on
each line. `builtin:scenes@count=100/test` takes the first hundred.

Dims: N images, Y X rows and columns, C colours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from PIL import Image

from regard.core.errors import UserError
from regard.data.builtin.scenes import SIZES, Scene, draw, draw_all, scenes
from regard.data.sources.files import JSON_LINES, numbered_lines, suffix_of
from regard.data.sources.images import read_image, read_images, read_named
from regard.data.sources.records import Record, is_csv, json_records, separator_hint, table_rows, text_of

SCENES = re.compile(r"builtin:scenes(@count=(?P<count>\d{1,6}))?(/(?P<split>[^/]+))?(/(?P<number>\d{1,6}))?")
EXAMPLE = '{"image": "1.jpg", "captions": ["a dog runs", "a dog on grass"]}'
SHOWN = 512  # pixels of a scene that is shown


class Pictured(Protocol):
    """An example with an image."""

    @property
    def name(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def scene(self) -> Scene | None: ...
    @property
    def among(self) -> Path | None: ...


class Captioned(NamedTuple):
    name: str  # of the image
    captions: tuple[str, ...]
    place: str  # where it was read, for complaints
    scene: Scene | None = None
    among: Path | None = None  # the folder or archive that has the image


@dataclass(frozen=True)
class CaptionedImages:
    images_NYXC: np.ndarray  # one of each example
    examples: list[Captioned]

    def __post_init__(self) -> None:
        if len(self.images_NYXC) != len(self.examples):
            raise ValueError(f"{len(self.images_NYXC)} images, but {len(self.examples)} examples")

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, rows: np.ndarray) -> CaptionedImages:
        """Return these examples, in this order."""
        return CaptionedImages(self.images_NYXC[rows], [self.examples[row] for row in rows])


def read_captions(where: Sequence[str], images: str, side: int, limit: int | None = None) -> CaptionedImages:
    """Read the images and captions of all files, or the first `limit` images, resized to `side` pixels."""
    examples = _one_of_each_image(example for entry in where for example in _read(entry, images))[:limit]
    return CaptionedImages(pixels_of(examples, side), examples)


def open_image(name: str) -> Image.Image:
    """Open an image file, or a built-in scene by its number: builtin:scenes/test/7."""
    if not name.startswith("builtin:"):
        return read_image(Path(name).expanduser())
    found = _scene_entry(name)
    size, number = SIZES.get(found["split"], 0), int(found["number"] or -1)
    if size and not 0 <= number < size:
        raise UserError(f"{name} names no scene; they are numbered from builtin:scenes/{found['split']}/0 to {size - 1}.")
    return Image.fromarray(draw(scenes(found["split"], number + 1)[number], SHOWN))


def open_captioned(example: Captioned) -> Image.Image:
    """Open the image of an example in its original size."""
    return open_image(example.name) if example.among is None else read_named(example.among, example.name, example.place)


def _one_of_each_image(found: Iterable[Captioned]) -> list[Captioned]:
    """Merge the captions of one image, which may be on several lines or in several files, into one example."""
    images = dict[tuple[Path | None, str], list[Captioned]]()
    for example in found:
        images.setdefault((example.among, example.name), []).append(example)
    return [lines[0]._replace(captions=tuple(text for line in lines for text in line.captions)) for lines in images.values()]


def pixels_of(examples: Sequence[Pictured], side: int) -> np.ndarray:
    """Return images_NYXC, one for each example: found by name in its folder or archive, or drawn."""
    images_NYXC = np.empty((len(examples), side, side, 3), np.uint8)
    for among in {example.among: None for example in examples}:
        of_these = {n: example for n, example in enumerate(examples) if example.among == among}
        if among is None:
            images_NYXC[list(of_these)] = draw_all([example.scene for example in of_these.values() if example.scene], side)
            continue
        needed = {example.name: example.place for example in of_these.values()}
        row = {name: n for n, name in enumerate(needed)}
        found_NYXC = read_images(among, needed, side)
        images_NYXC[list(of_these)] = found_NYXC[[row[example.name] for example in of_these.values()]]
    return images_NYXC


def _read(entry: str, images: str) -> list[Captioned]:
    if entry.startswith("builtin:"):
        found = _scene_entry(entry)
        size = None if found["count"] is None else int(found["count"])
        if size == 0 or found["number"]:
            raise UserError(f"{entry} is not a split of scenes; write builtin:scenes/train, or builtin:scenes@count=100/train.")
        drawn = scenes(found["split"], size)
        return [Captioned(f"builtin:scenes/{found['split']}/{n}", (s.caption,), entry, s) for n, s in enumerate(drawn)]
    file, *choices = entry.split("@")
    path = Path(file).expanduser()
    among = Path(images).expanduser() if images else path.parent
    examples = [example._replace(among=among) for example in _chosen(path, entry, choices)]
    if not examples:
        raise UserError(f"{entry}: no image with captions is left; check the file, and what stands behind the @.")
    return examples


def _scene_entry(entry: str) -> re.Match[str]:
    found = SCENES.fullmatch(entry)
    if found is None:
        raise UserError(f"{entry} is not known; built-in images with captions are builtin:scenes/train, /valid and /test.")
    if not found["split"]:
        raise UserError(f"{entry} lacks a split. Type builtin:scenes/train, or /valid, or /test.")
    return found


def _chosen(path: Path, entry: str, choices: Sequence[str]) -> Iterator[Captioned]:
    """Return the examples of a file, less those that `@KEY=VALUE` leaves out."""
    wanted = dict(choice.partition("=")[::2] for choice in choices)
    if not all(wanted.values()):
        raise UserError(f"{entry}: behind an @ stands KEY=VALUE, such as @split=train or @names=train.txt.")
    names = wanted.pop("names", None)
    listed = None if names is None else {line.strip() for _, line in numbered_lines(Path(names).expanduser())}
    lines = suffix_of(path) in JSON_LINES
    if wanted and not lines:
        raise UserError(
            f"{entry}: @{next(iter(wanted))} chooses by a key of JSON lines, and {path} is a table; give @names=FILE."
        )
    for example in _from_json(path, wanted) if lines else _from_table(path):
        if listed is None or example.name in listed:
            yield example


def _from_json(path: Path, wanted: dict[str, str]) -> Iterator[Captioned]:
    for record in json_records(path, (), EXAMPLE):
        if all(str(record[1].get(key)) == value for key, value in wanted.items()):
            name = text_of(record, "image", f"the key image, as in {EXAMPLE}")
            yield Captioned(name, _texts(record), record[0])


def _texts(record: Record) -> tuple[str, ...]:
    place, values = record
    if "captions" not in values:
        return (_caption(text_of(record, "caption", f"the key captions, as in {EXAMPLE}"), place),)
    found = values["captions"]
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise UserError(f"{place}: captions must be a list of one or more texts, as in {EXAMPLE}.")
    return tuple(_caption(text, place) for text in found)


def _from_table(path: Path) -> Iterator[Captioned]:
    """Read a table of captions; a number after #, as in Flickr8k, numbers the captions of one image."""
    for place, name, caption in _from_csv(path) if is_csv(path) else _from_lines(path):
        yield Captioned(re.sub(r"#\d+$", "", name.strip()), (_caption(caption, place),), place)


def _from_lines(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in numbered_lines(path):
        place, (name, tab, caption) = f"{path}, line {number}", line.partition("\t")
        if not tab or not name.strip():
            raise UserError(f"{place}: image, tab and caption are expected, and {line[:40]!r} was found; correct that line.")
        yield place, name, caption


def _from_csv(path: Path) -> Iterator[tuple[str, str, str]]:
    for row, (number, values) in enumerate(table_rows(path)):
        place = f"{path}, line {number}"
        if len(values) != 2 or not values[0].strip():
            raise UserError(
                f"{place}: columns found: {len(values)}, expected: 2, image and caption; put a caption that has commas in "
                f"quotes.{separator_hint(path)}"
            )
        if row or "." in values[0]:
            yield place, values[0], values[1]


def _caption(text: str, place: str) -> str:
    if not (words := " ".join(text.split())):
        raise UserError(f"{place}: the caption is empty; write one, or take the image out.")
    return words

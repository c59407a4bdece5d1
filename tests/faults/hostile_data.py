"""Data of every kind that is no data: bombs, pipes, encodings, nesting, damage; word vectors and images too."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
from PIL import Image

from tests.faults.hostile_bases import (
    CPU,
    NO_FILES,
    Cases,
    Make,
    caption_run,
    gpt_run,
    label_run,
)
from tests.faults.mutations import ESCAPE, mutated_bytes, mutated_json
from tests.faults.sandbox import Command
from tests.tasks import tiny_labels, tiny_questions, tiny_tags, tiny_text

PAIRS = "".join(f"the cat {n} sees\tle chat {n} voit\n" for n in range(12))
ROWS = "".join("\t".join(row) + "\n" for row in tiny_labels.ROWS[:30])
TAGS = "\n".join("".join(f"{w} {t}\n" for w, t in zip(*both)) for both in tiny_tags.ROWS[:12])
QUESTIONS = "".join(json.dumps(row) + "\n" for row in tiny_questions.ROWS[:20])
SQUAD = json.dumps(
    {
        "version": "1",
        "data": [
            {
                "title": "t",
                "paragraphs": [
                    {
                        "context": "the old cat sleeps",
                        "qas": [{"id": "1", "question": "who?", "answers": [{"text": "cat", "answer_start": 8}]}],
                    }
                ]
                * 12,
            }
        ],
    }
)
STORIES = "".join(json.dumps({"text": text}) + "\n" for text in tiny_text.stories(30))
TALKS = "".join(json.dumps({"turns": ["hi", "hello", "how are you"]}) + "\n" for _ in range(12))
STEP = ["train.steps=1", "train.warmup=0", "train.validate_every=1", "train.checkpoint_every=1", "data.test="]
OWN: dict[str, tuple[str, list[str]]] = {  # by kind: a recipe, and the settings that make it small
    "pairs": (
        "translate",
        ["model.width=8", "model.heads=2", "model.layers=1", "model.feedforward=8", "text.tokenizer=word", "text.size=50"],
    ),
    "labels": ("bert-classify", tiny_labels.TINY),
    "tags": ("bert-tag", tiny_tags.TINY),
    "questions": ("bert-answer", tiny_questions.TINY),
    "texts": ("gpt", tiny_text.TINY),
    "talks": ("chat-single", ["model.width=8"]),
}
GOOD: dict[str, list[tuple[str, str]]] = {
    "pairs": [
        ("a.tsv", PAIRS),
        ("a.csv", PAIRS.replace("\t", ",")),
        ("a.jsonl", '{"source": "the cat", "target": "le chat"}\n' * 12),
    ],
    "labels": [
        ("a.tsv", ROWS),
        ("a.csv", "text,label\n" + ROWS.replace("\t", ",")),
        ("a.jsonl", '{"text": "a b", "label": "c"}\n{"text": "b", "label": "d"}\n' * 9),
    ],
    "tags": [("a.conll", TAGS), ("a.jsonl", '{"words": ["Ann", "ran"], "tags": ["B-PER", "O"]}\n' * 12)],
    "questions": [("a.jsonl", QUESTIONS), ("a.json", SQUAD)],
    "texts": [("a.jsonl", STORIES), ("a.txt", "\n".join(tiny_text.stories(30)))],
    "talks": [("a.jsonl", TALKS), ("a.txt", "hi __eou__ hello __eou__\n" * 12)],
}
ODD_LINES = (
    ("\0" * 3000, "NUL"),
    (ESCAPE + "\t" + ESCAPE + "\n", "escapes"),
    ("\ufeff", "BOM"),
    ("\r" * 2000, "CR"),
    ("\u2028" * 500, "line separators"),
    ("\t" * 5000 + "\n", "tabs"),
    ('"' * 4001, "quotes"),
    ("a" * 3_000_000, "one long line"),
    ("a" + "\u0301" * 100_000, "combining marks"),
    ("\n" * 300_000, "newlines"),
    ("{" * 5000, "braces"),
    ('{"text": ' * 5000, "depth"),
    ("{}\n" * 20, "empty objects"),
    ("[]\n" * 20, "lists"),
    ('{"text": 1e999, "label": NaN}\n' * 20, "no numbers"),
    ('{"text": "\\ud800", "label": "a", "source": "\\ud800", "target": "b", "turns": ["\\ud800", "b"]}\n' * 20, "halves"),
    (f'{{"text": {"9" * 6000}}}\n', "digits"),
    ("=1+1\t@a\n" * 20, "formulas"),
    ("a\tb\tc\td\te\n" * 20, "columns"),
)


def data_cases(draw: Random) -> Cases:
    def case(kind: str, name: str, content: bytes | str | Callable[[Path], object], step: bool = False) -> Make:
        def make(place: Path) -> Sequence[Command]:
            path = place / name
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
            recipe, small = OWN[kind]
            data = [f"data.train={path}", *([] if kind == "texts" else [f"data.valid={path}"])]
            train = ["train", recipe, *data, *small, *STEP, "--out", place / "run", *CPU]
            more = {"labels": ["predict", label_run(), "--input", path], "texts": ["score", gpt_run(), path]}
            found: list[Command] = [train if step else [*train, "--dry-run"]]
            if kind not in more or not path.is_file() or path.suffix == ".gz":  # whoever types a pipe means it
                return found
            return [*found, [*more[kind], *CPU]]

        return make

    for kind, files in GOOD.items():
        name, text = files[0]
        yield f"{kind}: good", case(kind, name, text, step=True)
        for what in ("a pipe", "a folder", "/dev/zero", "a hole", "a link to itself"):
            yield f"{kind}: {what}", case(kind, name, NO_FILES[what])
    for kind, unit in (("pairs", b"\n"), ("texts", b"\n"), ("talks", b"\n"), ("tags", b"\0"), ("labels", b"a b\tc\n")):
        yield f"{kind}: a bomb of {unit!r}", case(kind, f"{GOOD[kind][0][0]}.gz", partial(_write_bomb, b"", unit))
    for kind, files in GOOD.items():
        for (content, what), (name, _) in zip(draw.sample(ODD_LINES, 8), files * 8):
            yield f"{kind}: {name} of {what}", case(kind, name, content)
    yield "labels: good gz", case("labels", "a.tsv.gz", gzip.compress(ROWS.encode()))
    for content in (
        gzip.compress(ROWS.encode())[:-9],
        b"\x1f\x8b\x08",
        b"PK\x03\x04",
        gzip.compress(gzip.compress(ROWS.encode())),
    ):
        yield f"labels: gz {content[:3]!r}", case("labels", "a.tsv.gz", content)
    for encoding in ("utf-16", "utf-32", "latin-1", "cp037"):
        yield f"labels: {encoding}", case("labels", "a.tsv", ROWS.replace("nice", "naïf").encode(encoding))
    while True:
        kind = draw.choice(list(GOOD))
        name, text = draw.choice(GOOD[kind])
        yield f"seeded bytes {kind} {name}", case(kind, name, mutated_bytes(draw, text.encode()), step=draw.random() < 0.2)
        if name.endswith("jsonl"):
            lines = "".join(mutated_json(draw, json.loads(line), 1) + "\n" for line in text.splitlines())
            yield f"seeded lines {kind} {name}", case(kind, name, lines)
        elif name.endswith("json"):
            yield f"seeded json {kind} {name}", case(kind, name, mutated_json(draw, json.loads(text), 3))


@cache
def _bomb(begin: bytes, unit: bytes) -> bytes:
    return gzip.compress(begin + unit * (100_000_000 // len(unit)), 1)


def _write_bomb(begin: bytes, unit: bytes, path: Path) -> None:
    """A hundred million bytes of one unit, packed."""
    path.write_bytes(_bomb(begin, unit))


VECTORS = "3 4\nking 1 2 3 4\nqueen 1 2 3 5\nman 2 1 1 1\n"
BINARY = b"2 4\nking " + np.arange(4, dtype="<f4").tobytes() + b"\nqueen " + np.ones(4, "<f4").tobytes() + b"\n"


def vectors_cases(draw: Random) -> Cases:
    def case(name: str, content: bytes | str | Callable[[Path], object]) -> Make:
        def make(place: Path) -> Sequence[Command]:
            if callable(content):
                content(place / name)
            else:
                (place / name).write_bytes(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
            export = ["export", place / name, place / "out", "--to", "glove"]
            return [["predict", place / name, "king"], *([] if name.endswith(".gz") else [export])]

        return make

    for header in (
        "2 1000000000",
        "2 4000000000000000000",
        "9" * 5000 + " 4",
        "1000000000 4",
        "2 -4",
        "-2 4",
        "0 0",
        "2 0",
        "nan 4",
        "2 4 4",
    ):
        yield f"text {header[:12]}", case("a.vec", VECTORS.replace("3 4", header, 1))
        yield f"binary {header[:12]}", case("a.bin", BINARY.replace(b"2 4", header.encode(), 1))
    for word in (ESCAPE, "a\tb", "\u202e", "\0", "x" * 100_000):
        yield f"a word {word[:5]!r}", case("a.vec", VECTORS.replace("queen", word))
        yield f"a binary word {word[:5]!r}", case("a.bin", BINARY.replace(b"queen", word.encode()))
    for what in ("a pipe", "/dev/zero", "a huge hole", "a hole", "a folder"):
        yield what, case("a.vec", NO_FILES[what])
    for content in (
        "",
        "\n" * 100_000,
        "king",
        "king nan nan\nqueen inf 1\n",
        "king 1e999 1\n",
        "king" + " 1" * 3_000_000,
        "a" * 20_000_000,
        "king 1\nking 2\n",
    ):
        yield f"text {content[:9]!r}", case("a.txt", content)
    yield "a bomb", case("a.vec.gz", partial(_write_bomb, b"", b"king 1 2 3 4\n"))
    yield "a bomb of zeros", case("a.bin.gz", partial(_write_bomb, b"9 9\n", b"\0"))
    while True:
        name, content = draw.choice([("a.vec", VECTORS.encode()), ("a.bin", BINARY), ("a.txt", VECTORS.encode()[4:])])
        yield f"seeded {name}", case(name, mutated_bytes(draw, content))


@cache
def pictures() -> dict[str, bytes]:
    found = {}
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8))
    for kind in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "ico", "ppm", "tga"):
        stream = io.BytesIO()
        image.save(stream, kind)
        found[kind] = stream.getvalue()
    return found


def images_cases(draw: Random) -> Cases:
    def case(name: str, content: bytes | Callable[[Path], object]) -> Make:
        def make(place: Path) -> Sequence[Command]:
            content(place / name) if callable(content) else (place / name).write_bytes(content)
            (place / "names.jsonl").write_text(json.dumps({"image": name, "caption": "a cat"}) + "\n")
            train = [
                "train",
                "caption-scenes",
                f"data.train={place / 'names.jsonl'}",
                "data.valid=builtin:scenes@count=4/valid",
                "data.test=",
                "model.width=8",
            ]
            return [["predict", caption_run(), place / name, *CPU], [*train, "--dry-run", *CPU]]

        return make

    png = pictures()["png"]
    for width, height in ((50_000, 50_000), (2**31 - 1, 2**31 - 1), (0, 0), (1, 2**20), (100_000, 1)):
        header = b"IHDR" + struct.pack(">II", width, height) + png[24:29]
        yield f"a picture of {width} x {height}", case("a.png", png[:12] + header + struct.pack(">I", crc32(header)) + png[33:])
    for content in (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n",
        b"<svg onload='x'/>",
        b"",
        bytes(2000),
        b"GIF89a",
        b"%PDF-1.4",
        b"P6 99999999 99999999 255\n",
        b"P6 " + b"9" * 9999,
    ):
        yield f"{content[:9]!r}", case("a.png", content)
    for what in ("a pipe", "/dev/zero", "/etc/passwd", "a huge hole", "a folder", "a link to itself"):
        yield what, case("a.png", NO_FILES[what])
    for line in (
        {"image": "../../../etc/passwd", "caption": "a"},
        {"image": "/dev/zero", "caption": "a"},
        {"image": "", "caption": ""},
        {"image": ESCAPE, "caption": ESCAPE},
        {"image": 5, "caption": 5},
        {"image": "\0", "caption": "a"},
        {"image": "x" * 9999, "caption": "a"},
        {"image": "a.png"},
        [],
    ):
        yield f"captions {str(line)[:30]!r}", _captions(json.dumps(line) + "\n")
    while True:
        kind = draw.choice(list(pictures()))
        yield f"seeded {kind}", case(f"a.{kind}", mutated_bytes(draw, pictures()[kind]))


def _captions(text: str) -> Make:
    def make(place: Path) -> Sequence[Command]:
        (place / "a.jsonl").write_text(text)
        return [
            [
                "train",
                "caption-scenes",
                f"data.train={place / 'a.jsonl'}",
                "data.valid=builtin:scenes@count=4/valid",
                "data.test=",
                "--dry-run",
                *CPU,
            ]
        ]

    return make

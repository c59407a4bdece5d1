"""Good public folders and runs to begin with, and what can be put in the place of their files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers

from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.interop.huggingface import write_public
from tests.command import regard
from tests.families.public_folder import export, shaken, small_gpt
from tests.faults.sandbox import Command, Make
from tests.tasks import tiny_labels, tiny_text

CPU = ("--device", "cpu")
TEXT = "the animal did not cross"
MIB = 1 << 20


Spoil = Callable[[Path], object]
"""Changes the files in a folder."""

Cases = Iterator[tuple[str, Make]]


_kept = tempfile.TemporaryDirectory(prefix="regard-tests-")


def kept() -> Path:
    return Path(_kept.name)


@cache
def gpt_folder() -> Path:
    return export(kept() / "gpt", small_gpt())


@cache
def classifier_folder() -> Path:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [
        *specials,
        *["the", "a", "cat", "dog", "not", "nice", "is", "animal", "did", "cross", "##s"],
        *map(chr, range(97, 123)),
    ]
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: n for n, word in enumerate(dict.fromkeys(words))}, unk_token="[UNK]")
    )
    raw.normalizer = tokenizers.normalizers.BertNormalizer()
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    raw.decoder = tokenizers.decoders.WordPiece()
    raw.add_special_tokens(specials)
    config = BERTConfig(
        width=16, heads=2, layers=1, feedforward=32, maximum_length=32, dropout=0.0, position="learned", segments=2
    )
    model = shaken(BERT(config, len(raw.get_vocab()), heads=Heads(words=False, pooler=True, classes=2)))
    roles = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    weights, vocabulary = model.state_dict(), len(raw.get_vocab())
    folder = kept() / "bert"
    write_public(folder, config, vocabulary, weights, tokenizer_json=raw.to_str(), roles=roles, labels=("bad", "good"))
    return folder


@cache
def gpt_run() -> Path:
    return tiny_text.trained()


@cache
def label_run() -> Path:
    return tiny_labels.trained("bert")


@cache
def caption_run() -> Path:
    run = kept() / "captions"
    small = ["model.width=16", "model.image_size=16", "model.patch=4", "train.steps=2", "train.warmup=1"]
    data = [f"data.{split}=builtin:scenes@count={n}/{split}" for split, n in (("train", 12), ("valid", 4), ("test", 4))]
    assert regard("train", "caption-scenes", *small, *data, "train.tokens_per_batch=100", "--out", run).code == 0
    return run


def opened(folder: Path, run: Path, writes: bool) -> list[Sequence[object]]:
    """What a public folder is for: to become a run, and to be asked something."""
    short = ("decode.maximum_length=3",) if writes else ()
    return [["import", folder, run], ["predict", folder, TEXT, *CPU, *short]]


def public(base: Callable[[], Path], spoil: Spoil, *more: Sequence[object]) -> Make:
    """A copy of a public folder that `spoil` has had its hands on."""

    def make(place: Path) -> Sequence[Command]:
        folder = Path(shutil.copytree(base(), place / "model"))
        spoil(folder)
        return [
            *opened(folder, place / "run", base is gpt_folder),
            *([one if one != "MODEL" else folder for one in command] for command in more),
        ]

    return make


def write(name: str, content: bytes | str | Callable[[bytes], bytes | str]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        found = content(path.read_bytes() if path.exists() else b"") if callable(content) else content
        path.unlink(missing_ok=True)
        path.write_bytes(found.encode(errors="surrogatepass") if isinstance(found, str) else found)

    return spoil


def change(name: str, **keys: Any) -> Spoil:
    return write(name, lambda content: json.dumps(json.loads(content) | keys))


def replace(name: str, what: Callable[[Path], object]) -> Spoil:
    """Something else than a file under its name."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        what(folder / name)

    return spoil


def listening(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have 107 bytes
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(here)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": listening,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "/etc/passwd": lambda path: path.symlink_to("/etc/passwd"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link out": lambda path: path.symlink_to("../../../../../../etc/hostname"),
    "a huge hole": lambda path: path.touch() or os.truncate(path, 1 << 40),
    "a hole": lambda path: path.touch() or os.truncate(path, 15 * MIB),
    "one that nobody may read": lambda path: path.touch(mode=0),
}

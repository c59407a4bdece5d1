"""Tiny SentencePiece files written by hand, field by field: what tests of reading them share."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

from regard.interop.sentencepiece import CONTROL, NORMAL, UNIGRAM, UNKNOWN

Row = tuple[str, float, int]
SPECIALS: list[Row] = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
WORDS: list[Row] = [
    (text, score, NORMAL)
    for text, score in [
        *[("▁the", -2.0), ("▁cat", -3.0), ("▁dog", -3.1), ("s", -3.5), ("▁", -4.0), ("at", -5.0), ("th", -5.5), ("e", -6.0)],
        *[("c", -7.0), ("a", -7.1), ("t", -7.2), ("h", -7.3), ("d", -7.4), ("o", -7.5), ("g", -7.6), (".", -4.5)],
    ]
]


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text: str, score: float, kind: int) -> bytes:
    real = varint(2 << 3 | 5) + struct.pack("<f", score)
    return message(1, message(1, text.encode()) + real + (integer(3, kind) if kind != NORMAL else b""))


def model(
    rows: Sequence[Row] = (*SPECIALS, *WORDS), kind: int = UNIGRAM, *, spaces: bool = True, prefix: bool = True, more: bytes = b""
) -> bytes:
    """Return the bytes of a model; `more` is put behind."""
    normalizer = integer(3, int(prefix)) + integer(4, int(spaces))
    return b"".join(piece(*row) for row in rows) + message(2, integer(3, kind)) + message(3, normalizer) + more


def t5_folder(folder: Path, **settings: object) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN), *WORDS]
    (folder / "spiece.model").write_bytes(model(rows))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", **settings}))
    return folder


def marian_folder(folder: Path) -> Path:
    """Two models with some pieces of their own, and one vocabulary in another order."""
    folder.mkdir(exist_ok=True)
    (folder / "source.spm").write_bytes(model())
    target = [("▁le", -2.0, NORMAL), ("▁chat", -3.0, NORMAL), ("▁", -4.0, NORMAL), *[(c, -7.0, NORMAL) for c in "lechat"[:4]]]
    rows = list({row[0]: row for row in target}.values())
    (folder / "target.spm").write_bytes(model([*SPECIALS, *rows]))
    pieces = sorted({row[0] for row in (*WORDS, *rows)})
    vocab = {text: n for n, text in enumerate(["</s>", "<unk>", *pieces, ">>fra<<", "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), "utf-8")
    return folder

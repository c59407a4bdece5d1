"""Write SentencePiece models and Marian's tokenizer files: what `sentencepiece.py` reads, from the tokenizers it makes.

`source.spm` and `target.spm` have the pieces of each language with their scores, `vocab.json` has the ids, and
`target_vocab.json` those of the target where it has its own. Pieces of the other language have an id and no score here, and
are in no model there.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.errors import UserError
from regard.interop.sentencepiece import CONTROL, NEVER, NORMAL, PAIR, UNIGRAM, UNKNOWN, Piece
from regard.text.tokenizer import Tokenizer

TARGET_IDS = "target_vocab.json"
ENDS, UNKNOWNS, PADS = "</s>", "<unk>", "<pad>"


def marian_files(source: Tokenizer, target: Tokenizer, longest: int) -> dict[str, str | bytes]:
    """Return the files of Marian's tokenizers by their names; `longest` is the most tokens of a text."""
    models = [_as_model(tokenizer, name) for tokenizer, name in ((source, PAIR[0]), (target, PAIR[1]))]
    ids = [tokenizer.raw.get_vocab() for tokenizer in (source, target)]
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": longest,
        "separate_vocabs": ids[0] != ids[1],
        "eos_token": ENDS,
        "unk_token": UNKNOWNS,
        "pad_token": PADS,
    }
    files: dict[str, str | bytes] = dict(zip(PAIR, models)) | {PAIR[2]: _in_order(ids[0])}
    if ids[0] != ids[1]:
        files[TARGET_IDS] = _in_order(ids[1])
    return files | {"tokenizer_config.json": json.dumps(settings, indent=2) + "\n"}


def _in_order(ids: Mapping[str, int]) -> str:
    return json.dumps(dict(sorted(ids.items(), key=lambda pair: pair[1])), ensure_ascii=False, indent=2) + "\n"


def _as_model(tokenizer: Tokenizer, name: str) -> bytes:
    """Return a tokenizer as a unigram model; refused if it is none that Marian's files can hold."""
    settings = json.loads(tokenizer.raw.to_str())
    model, parts = settings["model"], settings["pre_tokenizer"] or {}
    spaces, *more = parts.get("pretokenizers", [parts])  # what is split besides are names of specials in a text
    known = tokenizer.raw.get_vocab()
    missing = [piece for piece in (ENDS, UNKNOWNS, PADS) if piece not in known]
    other = model["type"] != "Unigram" or model.get("byte_fallback") or spaces.get("type") != "Metaspace"
    if missing or other or any(part["type"] != "Split" for part in more):
        kind = f"without {missing[0]}" if missing else "of another kind"
        raise UserError(
            f"{name} holds a unigram model with {ENDS}, {UNKNOWNS} and {PADS}, as Marian's tokenizers have, and this run's "
            f"tokenizer is {kind}; export a run that began with a Marian folder."
        )
    charsmap, removes_spaces = _normalizer(settings["normalizer"], name)
    pieces = [Piece(UNKNOWNS, 0.0, UNKNOWN), Piece("<s>", 0.0, CONTROL), Piece(ENDS, 0.0, CONTROL)]
    special = {piece.text for piece in pieces}
    pieces += [
        Piece(text, score, NORMAL) for text, score in model["vocab"] if text not in special and score > NEVER and text != PADS
    ]
    return encoded(pieces, charsmap, begins_with_space=spaces["prepend_scheme"] == "first", removes_spaces=removes_spaces)


def _normalizer(settings: Any, name: str) -> tuple[bytes, bool]:
    """Return the table of replacements, and whether spaces are joined and removed at the ends."""
    parts = settings["normalizers"] if settings else []
    charsmap = next((base64.b64decode(part["precompiled_charsmap"]) for part in parts if part["type"] == "Precompiled"), b"")
    kinds = [part["type"] for part in parts if part["type"] != "Precompiled"]
    if kinds not in ([], ["Prepend"], ["Strip", "Replace"]):
        raise UserError(
            f"{name} cannot hold this run's tokenizer, which changes text by {', '.join(kinds)}; export a run that began with a "
            "Marian folder."
        )
    return charsmap, kinds == ["Strip", "Replace"]


def encoded(pieces: Sequence[Piece], charsmap: bytes, *, begins_with_space: bool, removes_spaces: bool) -> bytes:
    """Return the bytes of a unigram model."""
    normalizer = _message(2, charsmap) if charsmap else b""
    normalizer += _integer(3, int(begins_with_space)) + _integer(4, int(removes_spaces)) + _integer(5, 1)
    return b"".join(map(_piece, pieces)) + _message(2, _integer(3, UNIGRAM)) + _message(3, normalizer)


def _piece(piece: Piece) -> bytes:
    score = _varint(2 << 3 | 5) + struct.pack("<f", piece.score)
    return _message(1, _message(1, piece.text.encode()) + score + _integer(3, piece.kind))


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Return an integer as seven bits a byte, the last byte below 128."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])

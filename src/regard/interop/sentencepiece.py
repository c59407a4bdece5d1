"""Read SentencePiece models (Kudo and Richardson 2018) without their library: `.model` and `.spm` files become tokenizers.

    pieces          with a score and a kind each: normal, unknown, control, user-defined, unused, byte
    unigram         the segmentation with the highest sum of scores (Kudo 2018)
    BPE             merges in the order of scores; a merge is two pieces that make a third
    normalizer      a table of replacements (`precompiled_charsmap`), and what happens to spaces

The file is a Protocol Buffer: fields with a number, a wire type and a value, of which those that are needed are read and the rest
is skipped. It is untrusted: every length is checked, and what is made of it goes through the same checks as a tokenizer.json.

Marian has two such models, one for each language, and one vocab.json, in which both have their ids (Junczys-Dowmunt et al. 2018).
A piece of a model that has no id is unknown to transformers; here its text is cut into pieces that have one.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from regard.core.errors import UserError
from regard.core.files import read_bounded, read_json
from regard.core.terminal import quoted
from regard.text.kinds import SPACE
from regard.text.pretrained import finished, read_pretrained
from regard.text.specials import SENTINEL
from regard.text.tokenizer import Tokenizer, catch_panics
from regard.text.tokenizer_check import (
    LARGEST,
    LONGEST_PIECE,
    MOST_PIECES,
    check_pieces,
    check_tokenizer,
    read_large_json,
)

FILES = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model")
OTHERS = ("tokenizer.json", "merges.txt", "vocab.txt")  # which say more, where they are there too
PAIR = ("source.spm", "target.spm", "vocab.json")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
KINDS = {UNIGRAM: "unigram", BPE: "BPE", 3: "word", 4: "character"}
NEVER = -100_000.0  # a score for each letter: names of specials, and pieces of the other language, are the last choice in a text
SHIFTED = ("MBart", "XLMRoberta", "XLNet", "Camembert", "Barthez", "NllbTokenizer", "M2M100")  # whose ids are not the file's
MOST_SENTINELS = 1000
CURE = "Copy it again from where it was made."


class Piece(NamedTuple):
    text: str
    score: float
    kind: int


@dataclass
class SentencePieceModel:
    """The contents of a file."""

    pieces: list[Piece] = field(default_factory=list)
    kind: int = UNIGRAM
    byte_fallback: bool = False
    charsmap: bytes = b""
    begins_with_space: bool = True
    removes_spaces: bool = True

    def of_kind(self, kind: int) -> list[int]:
        return [n for n, piece in enumerate(self.pieces) if piece.kind == kind]


class Damaged(Exception):
    """Bytes that are no Protocol Buffer."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field: an integer, or the bytes of a text or an inner message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, -1), at)
        if size < 0 or at + size > len(data):
            raise Damaged(f"field {key >> 3} at byte {at:,} is longer than what is left, or of an unknown type")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of seven bits a byte."""
    value = 0
    for n, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * n
        if byte < 128:
            return value, at + n + 1
    raise Damaged(f"the number at byte {at:,} does not end")


def read_model(path: Path, within: Path | None = None) -> SentencePieceModel:
    """Read a SentencePiece file; refused if it is damaged, too large, or no model that can be read."""
    data = read_bounded(path, LARGEST, within=within)
    model = SentencePieceModel()
    try:
        for number, value in fields(data):
            if number == 1 and isinstance(value, bytes):
                model.pieces.append(_piece(value))
            elif number == 2 and isinstance(value, bytes):
                _trainer(value, model)
            elif number == 3 and isinstance(value, bytes):
                _normalizer(value, model)
            if len(model.pieces) > MOST_PIECES:
                raise UserError(f"{path} has more than {MOST_PIECES:,} pieces, the most that are read.")
    except (Damaged, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no SentencePiece model that can be read ({quoted(str(error), 120)}). {CURE}") from None
    _check(model, path)
    return model


def _piece(data: bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            text = value.decode("utf-8")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif number == 3 and isinstance(value, int):
            kind = value
    return Piece(text, score, kind)


def _trainer(data: bytes, model: SentencePieceModel) -> None:
    for number, value in fields(data):
        if number == 3 and isinstance(value, int):
            model.kind = value
        elif number == 24 and value == 1:
            raise Damaged("it puts spaces behind words, which is not supported")
        elif number == 35:
            model.byte_fallback = value == 1


def _normalizer(data: bytes, model: SentencePieceModel) -> None:
    for number, value in fields(data):
        if number == 2 and isinstance(value, bytes):
            model.charsmap = value
        elif number == 3:
            model.begins_with_space = value == 1
        elif number == 4:
            model.removes_spaces = value == 1
        elif number == 5 and value != 1:
            raise Damaged("it keeps spaces as they are, which is not supported")


def _check(model: SentencePieceModel, path: Path) -> None:
    if not model.pieces:
        raise UserError(f"{path} is no SentencePiece model: there are no pieces in it. {CURE}")
    if model.kind not in (UNIGRAM, BPE):
        kind = KINDS.get(model.kind, f"unknown ({model.kind})")
        raise UserError(f"{path} is a SentencePiece model of the kind {kind}; unigram and BPE are read.")
    if len(model.of_kind(UNKNOWN)) != 1:
        raise UserError(f"{path} has {len(model.of_kind(UNKNOWN)):,} pieces for unknown text, and exactly one is needed. {CURE}")
    seen = set[str]()
    for n, piece in enumerate(model.pieces):
        if not isfinite(piece.score):
            raise UserError(f"{path}: the score of piece {n:,} is {piece.score}, which is no number. {CURE}")
        if not piece.text or len(piece.text) > LONGEST_PIECE:
            raise UserError(f"{path}: piece {n:,} has {len(piece.text):,} characters; 1 to {LONGEST_PIECE:,} are read. {CURE}")
        if piece.text in seen:
            raise UserError(f"{path} has the piece {quoted(piece.text, 40)!r} twice. {CURE}")
        seen.add(piece.text)


def to_tokenizer(model: SentencePieceModel, where: str, sentinels: int = 0) -> tokenizers.Tokenizer:
    """Build a tokenizer with the ids of the file; `sentinels` of T5 come behind them, the last id being <extra_id_0>."""
    pieces = list(model.pieces)
    pieces += [Piece(SENTINEL.format(n), 0.0, CONTROL) for n in reversed(range(sentinels))]
    unknown = model.of_kind(UNKNOWN)[0]
    whole = (_unigram if model.kind == UNIGRAM else _bpe)(pieces, unknown, model.byte_fallback)
    kinds = (UNKNOWN, CONTROL) if model.kind == UNIGRAM else (UNKNOWN, CONTROL, USER_DEFINED)  # found before there are merges
    return _built(model, whole, [(n, p.text, p.kind != USER_DEFINED) for n, p in enumerate(pieces) if p.kind in kinds], where)


def _unigram(pieces: list[Piece], unknown: int, byte_fallback: bool) -> dict[str, Any]:
    best = max((piece.score for piece in pieces if piece.kind == NORMAL), default=0.0)
    scores = {
        NORMAL: lambda piece: piece.score,
        USER_DEFINED: lambda piece: len(piece.text) * best - 0.1,
    }  # as the library has it
    vocab = [[piece.text, scores[piece.kind](piece) if piece.kind in scores else NEVER] for piece in pieces]
    return {"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": byte_fallback}


def _bpe(pieces: list[Piece], unknown: int, byte_fallback: bool) -> dict[str, Any]:
    """Find the merges: every way to make a piece of two others, by the score of what is made."""
    ids = {piece.text: n for n, piece in enumerate(pieces)}
    usable = {piece.text for piece in pieces if piece.kind in (NORMAL, USER_DEFINED)}
    merges = list[tuple[float, int, int, str, str]]()
    for piece in pieces:
        for cut in range(1, len(piece.text) if piece.kind == NORMAL else 0):
            left, right = piece.text[:cut], piece.text[cut:]
            if left in usable and right in usable:
                merges.append((-piece.score, ids[left], ids[right], left, right))
    model = {
        "type": "BPE",
        "dropout": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "ignore_merges": False,
    }
    found = [[left, right] for *_, left, right in sorted(merges)]
    return model | {
        "unk_token": pieces[unknown].text,
        "fuse_unk": True,
        "byte_fallback": byte_fallback,
        "vocab": ids,
        "merges": found,
    }


def _built(
    model: SentencePieceModel, whole: dict[str, Any], added: list[tuple[int, str, bool]], where: str
) -> tokenizers.Tokenizer:
    """Put a model between its normalizer and its decoder, check all of it as a tokenizer.json, and load it."""
    normalizers = list[dict[str, Any]]()
    if model.charsmap:
        charsmap = base64.b64encode(model.charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if model.removes_spaces:  # of a space that is left before the first word, the pre-tokenizer makes its mark
        inside = not all(special for *_, special in added)  # text ends before such a token, which a space may stand before
        normalizers.append({"type": "Strip", "strip_left": not model.begins_with_space, "strip_right": not inside})
        normalizers.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    elif model.begins_with_space:  # however many there are already
        normalizers.append({"type": "Prepend", "prepend": " "})
    split = not any(SPACE in piece.text[1:] for piece in model.pieces)  # pieces over several words need the whole text
    scheme = "first" if model.begins_with_space else "never"
    spaces = {"replacement": SPACE, "prepend_scheme": scheme, "split": split}
    decoder: dict[str, Any] = {"type": "Metaspace", **spaces}
    if model.byte_fallback or not split:
        first = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if model.begins_with_space else []
        parts = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
        decoder = {"type": "Sequence", "decoders": [*parts, *first]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    settings = {
        "version": "1.0",
        "added_tokens": [{"id": n, "content": text, "special": special, **flags} for n, text, special in added],
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": {"type": "Metaspace", **spaces},
        "decoder": decoder,
        "model": whole,
    }
    checked = check_tokenizer(settings, where)
    with catch_panics(f"{where} is no SentencePiece model that can be read", CURE):
        return tokenizers.Tokenizer.from_str(json.dumps(checked))


def _read_single(folder: Path, name: str) -> tokenizers.Tokenizer:
    """Open the SentencePiece file of a Hugging Face folder; T5's sentinels are added as its settings say."""
    config = _settings(folder)
    owner = config.get("tokenizer_class")
    if isinstance(owner, str) and owner.startswith(SHIFTED):
        raise UserError(
            f"{folder / name} belongs to a {quoted(owner, 40)}, whose ids differ from the file's; use its tokenizer.json, which "
            "transformers' save_pretrained writes."
        )
    count = config.get("extra_ids", 100 if owner in ("T5Tokenizer", "T5TokenizerFast") else 0)
    if type(count) is not int or not 0 <= count <= MOST_SENTINELS:
        said = quoted(repr(count), 40)
        raise UserError(f"{folder / 'tokenizer_config.json'}: extra_ids is {said}, but must be 0 to {MOST_SENTINELS:,}.")
    return to_tokenizer(read_model(folder / name, folder), str(folder / name), count)


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    found = read_json(path, within=folder) if path.exists() else {}
    if not isinstance(found, dict):
        raise UserError(f"{path} must hold a JSON object, but holds {found!r:.40}. {CURE}")
    return found


class TokenizerPair(NamedTuple):
    """The tokenizers of two languages, with ids of one vocabulary or of two."""

    source: Tokenizer
    target: Tokenizer


def read_public_tokenizer(folder: Path) -> Tokenizer:
    """Open the tokenizer of a Hugging Face folder: a SentencePiece file, where there is no file of another kind."""
    if not any((folder / name).exists() for name in OTHERS):
        if found := next((name for name in FILES if (folder / name).exists()), ""):
            return finished(folder, _read_single(folder, found))
        if holds_pair(folder):
            raise UserError(f"{folder} holds two tokenizers, {PAIR[0]} and {PAIR[1]}, as Marian has; one is asked for here.")
    return read_pretrained(folder)


def holds_pair(folder: Path) -> bool:
    """Return whether a folder has two tokenizers, as Marian's have, or one of the two, and no file of another kind."""
    one = any((folder / name).exists() for name in (*OTHERS, *FILES))
    return not one and any((folder / name).exists() for name in PAIR[:2])


def read_pair(folder: Path) -> TokenizerPair:
    """Open Marian's tokenizers: two SentencePiece files, and vocab.json with the ids of both, or a target_vocab.json too."""
    for name in PAIR:
        if not (folder / name).exists():
            raise UserError(f"{folder} has no {name}; Marian's tokenizer is {', '.join(PAIR[:2])} and {PAIR[2]}. Copy them all.")
    target_ids = folder / "target_vocab.json"
    ids = [folder / PAIR[2], target_ids if target_ids.exists() else folder / PAIR[2]]
    return TokenizerPair(*(finished(folder, _with_ids(folder / name, path, folder)) for name, path in zip(PAIR, ids)))


def _with_ids(path: Path, ids: Path, folder: Path) -> tokenizers.Tokenizer:
    """Give the pieces of a unigram model the ids of a vocab.json; pieces of the other language are never chosen in a text."""
    model, numbers = read_model(path, folder), read_large_json(ids, folder)
    pieces = check_pieces(numbers if isinstance(numbers, dict) else None, str(ids))
    if model.kind != UNIGRAM:
        raise UserError(f"{path} is a SentencePiece model of the kind BPE; Marian's are unigram. Copy the right file.")
    if sorted(pieces) != list(range(len(pieces))):
        raise UserError(f"{ids} has {len(pieces):,} pieces, but their ids are not 0 to {len(pieces) - 1:,}. {CURE}")
    for name in ("</s>", "<unk>", "<pad>"):
        if name not in numbers:
            raise UserError(f"{ids} has no piece {name}, which Marian's vocabularies have. {CURE}")
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind in (NORMAL, USER_DEFINED)}
    missing = [text for text in scores if text not in numbers]
    if 2 * len(missing) > len(scores):
        raise UserError(
            f"{ids} lacks {len(missing):,} of the {len(scores):,} pieces of {path.name}, such as {quoted(missing[0], 40)!r}; "
            "they do not belong together. Copy all files of one model."
        )
    vocab = [[pieces[n], scores.get(pieces[n], NEVER * len(pieces[n]))] for n in range(len(pieces))]
    whole = {"type": "Unigram", "unk_id": numbers["<unk>"], "vocab": vocab, "byte_fallback": False}
    special = [(numbers[name], name, True) for name in ("</s>", "<unk>", "<pad>")]
    codes = [(n, text, False) for n, text in pieces.items() if text.startswith(">>") and text.endswith("<<")]
    return _built(model, whole, special + codes, str(path))

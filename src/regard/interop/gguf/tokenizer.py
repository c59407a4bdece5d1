"""The vocabulary of a GGUF file as a tokenizer.

    tokenizer.ggml.model    pieces, and                         how a text is cut
    llama                   scores, kinds                       SentencePiece's BPE, bytes where no piece fits
    gpt2                    merges, a name of how words part    BPE of bytes, after the words of `pre`

Names of special pieces are those with the kind "control"; which of them begin and end a text, the file says by their ids.
"""

from __future__ import annotations

import json
from typing import Any

import tokenizers

from regard.core.errors import UserError
from regard.core.terminal import quoted
from regard.interop.gguf.container import GGUF
from regard.interop.sentencepiece import BPE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Piece, SentencePieceModel, to_tokenizer
from regard.text.tokenizer import Tokenizer, catch_panics
from regard.text.tokenizer_check import MOST_PIECES, check_tokenizer

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"gpt-2": "", "default": "", "llama-bpe": WORDS % "{1,3}", "qwen2": WORDS % ""}  # of `tokenizer.ggml.pre`


def read_tokenizer(file: GGUF) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the tokenizer of a file, and the settings of [decode] that name its special pieces."""
    kind, pieces = file.values.get("tokenizer.ggml.model"), file.values.get("tokenizer.ggml.tokens")
    if not isinstance(pieces, list) or not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise UserError(f"{file.path} has no tokenizer.ggml.tokens, so its tokens cannot be read; convert it with its tokenizer.")
    if len(pieces) > MOST_PIECES:
        raise UserError(f"{file.path} has {len(pieces):,} tokens; at most {MOST_PIECES:,} are read.")
    match kind:
        case "llama":
            raw = _sentencepiece(file, pieces)
        case "gpt2":
            raw = _bytes(file, pieces)
        case _:
            raise UserError(f"{file.path} has a tokenizer of the kind {quoted(str(kind), 40)!r}; llama and gpt2 are read.")
    ends = [pieces[i] for i in (_id(file, "eos", pieces),) if i is not None]
    start = _id(file, "bos", pieces)
    begins = start is not None and file.values.get("tokenizer.ggml.add_bos_token", kind == "llama")
    settings: dict[str, Any] = {"end": ends} if ends else {}
    return Tokenizer(raw), settings | ({"start": pieces[start]} if begins and start is not None else {})


def _id(file: GGUF, role: str, pieces: list[str]) -> int | None:
    found = file.values.get(f"tokenizer.ggml.{role}_token_id")
    if found is not None and (type(found) is not int or not 0 <= found < len(pieces)):
        raise UserError(f"{file.path} names {found} as its {role} token, and has {len(pieces):,} tokens; it is damaged.")
    return found


def _list(file: GGUF, name: str, length: int, kind: type | tuple[type, ...]) -> list[Any]:
    found = file.values.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, list) or len(found) != length or not all(isinstance(one, kind) for one in found):
        raise UserError(f"{file.path} has no tokenizer.ggml.{name} for each of its {length:,} tokens; convert it again.")
    return found


def _sentencepiece(file: GGUF, pieces: list[str]) -> tokenizers.Tokenizer:
    scores, kinds = _list(file, "scores", len(pieces), (float, int)), _list(file, "token_type", len(pieces), int)
    made = [Piece(*one) for one in zip(pieces, map(float, scores), kinds)]
    if sum(piece.kind == UNKNOWN for piece in made) != 1:
        raise UserError(f"{file.path} must have one token for unknown text, of the type {UNKNOWN}; convert it again.")
    if len({*pieces}) < len(pieces):
        raise UserError(f"{file.path} has two tokens of the same name; convert it again.")
    spaced = bool(file.values.get("tokenizer.ggml.add_space_prefix", True))
    model = SentencePieceModel(made, BPE, byte_fallback=True, begins_with_space=spaced, removes_spaces=False)
    return to_tokenizer(model, str(file.path))


def _bytes(file: GGUF, pieces: list[str]) -> tokenizers.Tokenizer:
    words, merges = file.values.get("tokenizer.ggml.pre", "default"), file.values.get("tokenizer.ggml.merges")
    if words not in PATTERNS:
        known = ", ".join(PATTERNS)
        raise UserError(f"{file.path} parts words as {quoted(str(words), 40)!r} does; {known} are read.")
    if not isinstance(merges, list) or not all(isinstance(one, str) and " " in one for one in merges):
        raise UserError(f"{file.path} has no tokenizer.ggml.merges, without which its tokens cannot be found; convert it again.")
    kinds = file.values.get("tokenizer.ggml.token_type")
    kinds = [NORMAL] * len(pieces) if kinds is None else _list(file, "token_type", len(pieces), int)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [n for n, kind in enumerate(kinds) if kind in (CONTROL, UNKNOWN, USER_DEFINED)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not PATTERNS[words]}
    split = {"type": "Split", "pattern": {"Regex": PATTERNS[words]}, "behavior": "Isolated", "invert": False}
    settings = {
        "version": "1.0",
        "added_tokens": [{"id": n, "content": pieces[n], "special": kinds[n] != USER_DEFINED, **flags} for n in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]} if PATTERNS[words] else level,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": words == "llama-bpe",
            "vocab": {piece: n for n, piece in enumerate(pieces)},
            "merges": [one.split(" ", 1) for one in merges],
        },
    }
    checked = check_tokenizer(settings, str(file.path))
    with catch_panics(f"{file.path} has no tokenizer that can be read"):
        return tokenizers.Tokenizer.from_str(json.dumps(checked))

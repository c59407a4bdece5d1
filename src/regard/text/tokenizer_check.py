"""Check of an untrusted tokenizer.json before the tokenizers library loads it.

The library does what such a file says: it fills up every text to a billion pieces, or writes ten letters for one, nine times
over; and where it did not expect what it finds, it panics, which no `except Exception` sees, or ends the process. So a file is
read as JSON first. Only steps that are listed here are accepted, what they do to the length of a text is multiplied out, what
pads and cuts is taken away (our batches do that), and the library is given what was checked and not the file.
See docs/decisions/0036-untrusted-tokenizers.md.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.core.files import MIB, parse_json, read_text
from regard.core.terminal import quoted
from regard.text.regex_check import Refused, check_regex

LARGEST = 64 * MIB  # of a file; a vocabulary of 250,000 pieces has some 17 MB
MOST_PIECES = 1_000_000
MOST_VALUES = 4 * MOST_PIECES  # commas of the JSON: pieces with their scores, and merges of two pieces
LONGEST_PIECE = 65_536  # characters
MOST_ADDED = 250_000  # characters of all added pieces, and one for each: they are searched for in every text
LONGEST_WORD = 1000  # characters of a word that WordPiece looks for pieces in, which takes the square of them
MOST_STEPS, DEEPEST = 64, 8
MOST_GROWTH = 64  # times that steps may make a text longer
USUAL = 36  # bytes that one character may become by the normal forms of Unicode, of which charsmaps are made

KEYS = ("version", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model")
NESTED = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
STEPS = {
    "normalizer": "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace Strip StripAccents",
    "pre_tokenizer": (
        "BertPreTokenizer ByteLevel CharDelimiterSplit Digits Metaspace Punctuation Split UnicodeScripts Whitespace "
        "WhitespaceSplit"
    ),
    "post_processor": "BertProcessing ByteLevel RobertaProcessing TemplateProcessing",
    "decoder": "BPEDecoder ByteFallback ByteLevel CTC Fuse Metaspace Replace Strip WordPiece",
}
MODELS = ("BPE", "Unigram", "WordLevel", "WordPiece")

Step = Mapping[str, Any]


def read_checked(path: Path, within: Path) -> str:
    """Read and check a tokenizer.json."""
    return json.dumps(check_tokenizer(read_large_json(path, within), str(path)))


def read_large_json(path: Path, within: Path) -> Any:
    """Read JSON with a vocabulary in it, refused before parsing if it holds more than any vocabulary does."""
    text = read_text(path, LARGEST, within=within)
    if text.count(",") > MOST_VALUES or text.count("[") + text.count("{") > MOST_VALUES // 2:
        raise UserError(
            f"{path} lists more than {MOST_VALUES:,} values or half as many lists, as no vocabulary does. Is it the right file?"
        )
    return parse_json(text, path)


def check_tokenizer(found: Any, where: str) -> dict[str, Any]:
    """Return the settings without padding and truncation; refused if a part of them is unknown or could do harm."""
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        raise _damaged(where, "has no model")
    ids = _check_model(found["model"], where)
    _check_added(found.get("added_tokens") or [], ids, where)
    growth = {section: _growth(found.get(section), section, where) for section in NESTED}
    reading = growth["normalizer"] * growth["pre_tokenizer"] * growth["post_processor"]
    for times, doing in ((reading, "read"), (growth["decoder"], "written")):
        if times > MOST_GROWTH:
            raise _damaged(where, f"can make a text more than {MOST_GROWTH} times longer while it is {doing}")
    return {key: found[key] for key in KEYS if key in found} | {"padding": None, "truncation": None}


def _check_model(model: Step, where: str) -> dict[int, str]:
    """Check the vocabulary and return its tokens by id."""
    kind = model.get("type", MODELS[0])  # until 2021 files did not say it
    if kind not in MODELS:
        raise _damaged(where, f"has a model of the kind {quoted(str(kind))!r}, which is none of {', '.join(MODELS)}")
    longest = model.get("max_input_chars_per_word", 100)
    if not isinstance(longest, int) or longest > LONGEST_WORD:
        raise _damaged(where, f"has max_input_chars_per_word={quoted(str(longest), 40)}; a number up to {LONGEST_WORD} is read")
    prefix, merges = model.get("continuing_subword_prefix") or "", model.get("merges") or []
    if prefix and isinstance(merges, list) and not all(_second(merge).startswith(str(prefix)) for merge in merges):
        raise _damaged(where, f"has merges whose second piece does not begin with {quoted(str(prefix), 40)!r}")
    return check_pieces(model.get("vocab"), where)


def _second(merge: Any) -> str:
    """Return the second piece of a BPE merge, which is a list of two pieces or both in one text with a space between."""
    pair = merge.split(" ") if isinstance(merge, str) else merge
    return str(pair[1]) if isinstance(pair, list) and len(pair) == 2 else ""


def check_pieces(vocabulary: Any, where: str) -> dict[int, str]:
    """Return tokens by id, from a dictionary of ids or a list of (token, score)."""
    if isinstance(vocabulary, list):
        named = [(pair[0], n) for n, pair in enumerate(vocabulary) if isinstance(pair, list) and len(pair) == 2]
        whole = len(named) == len(vocabulary)
    else:
        named, whole = list(vocabulary.items()) if isinstance(vocabulary, dict) else [], True
    if not named or not whole:
        raise _damaged(where, "has no vocabulary, or an empty one")
    if len(named) > MOST_PIECES:
        raise UserError(f"{where} has {len(named):,} pieces; a vocabulary of up to {MOST_PIECES:,} is read.")
    ids: dict[int, str] = {}
    for piece, number in named:
        if not isinstance(piece, str) or type(number) is not int or not 0 <= number < MOST_VALUES:
            raise _damaged(where, f"gives the piece {quoted(str(piece), 40)!r} the id {quoted(str(number), 40)}")
        if len(piece) > LONGEST_PIECE:
            raise _damaged(where, f"has a piece of {len(piece):,} characters, {quoted(piece, 40)!r}")
        if number in ids:
            raise _damaged(where, f"has the id {number} twice, for {quoted(ids[number], 40)!r} and {quoted(piece, 40)!r}")
        ids[number] = piece
    return ids


def _check_added(added: Any, ids: dict[int, str], where: str) -> None:
    """Check added tokens, which are searched for in every text."""
    if not isinstance(added, list) or not all(isinstance(piece, dict) for piece in added):
        raise _damaged(where, "has added_tokens that are no list of pieces")
    characters, own = 0, dict[int, str]()
    for piece in added:
        content, number = piece.get("content"), piece.get("id")
        if not isinstance(content, str) or type(number) is not int or not 0 <= number < MOST_VALUES:
            raise _damaged(where, f"adds the piece {quoted(str(content), 40)!r} with the id {quoted(str(number), 40)}")
        characters += 1 + len(content)
        if characters > MOST_ADDED:
            raise UserError(f"{where} adds pieces of more than {MOST_ADDED:,} characters to its vocabulary; fewer are read.")
        if (other := own.get(number, ids.get(number, content))) != content:
            raise _damaged(where, f"has the id {number} twice, for {quoted(other, 40)!r} and {quoted(content, 40)!r}")
        own[number] = content


def _growth(node: Any, section: str, where: str) -> float:
    """Return how many times longer all steps of a section together can make a text."""
    growth = 1.0
    for number, step in enumerate(_steps(node, section, where, 0)):
        if number == MOST_STEPS:
            raise _damaged(where, f"has a {section} of more than {MOST_STEPS} steps")
        growth *= _factor(step, section, where)
        if growth > MOST_GROWTH:
            return growth
    return growth


def _steps(node: Any, section: str, where: str, depth: int) -> Iterator[Step]:
    """Yield the steps of a sequence one by one, also of nested sequences."""
    if node is None:
        return
    kind = node.get("type") if isinstance(node, dict) else None
    if kind == "Sequence" and isinstance(inner := node.get(NESTED[section]), list) and depth < DEEPEST:
        for each in inner:
            yield from _steps(each, section, where, depth + 1)
        return
    if not isinstance(kind, str) or kind not in STEPS[section].split():
        what = f"has a {section} of the kind {quoted(str(kind), 40)!r}"
        raise _damaged(where, f"{what}, which this version of Regard does not know")
    yield node


def _factor(step: Step, section: str, where: str) -> float:
    """Return how many times longer one step can make a text, in characters; a few at its ends do not count."""
    match step["type"]:
        case "Replace":
            return _replaced(step, where)
        case "Split":
            _width(step.get("pattern"), where)
        case "Prepend" if len(str(step.get("prepend"))) > MOST_GROWTH:
            raise _damaged(where, f"puts {quoted(str(step['prepend']), 40)!r} before every text")
        case "ByteLevel" if section in ("normalizer", "pre_tokenizer"):
            return 2  # a letter for each byte
        case "Precompiled":
            if (longest := longest_replacement(step.get("precompiled_charsmap"))) is None:
                raise _damaged(where, "has a precompiled_charsmap that is none")
            return max(1.0, longest / USUAL)
        case "BPEDecoder" if not step.get("suffix"):
            return 2  # a space between all characters
        case "CTC" if not step.get("word_delimiter_token"):
            return 2
        case "TemplateProcessing":
            return _repeated(step)
    return 1


def _replaced(step: Step, where: str) -> float:
    """Return the growth by a replacement; a pattern that can match nothing is refused, since the library panics."""
    pattern, content = step.get("pattern"), step.get("content")
    if not isinstance(content, str):
        raise _damaged(where, "replaces something by what is no text")
    width = _width(pattern, where)
    if not width:
        raise _damaged(where, f"replaces nothing by {quoted(content, 40)!r}: its pattern {quoted(str(pattern), 40)} may be empty")
    return max(1.0, len(content) / width)


def _width(pattern: Any, where: str) -> int:
    """Return the least number of characters that a pattern matches; a pattern that could take too long is refused."""
    given = list(pattern.items()) if isinstance(pattern, dict) else []
    if len(given) != 1 or given[0][0] not in ("String", "Regex") or not isinstance(given[0][1], str):
        raise _damaged(where, f"has the pattern {quoted(str(pattern), 40)}, which is neither a String nor a Regex")
    ((kind, sign),) = given
    try:
        return check_regex(sign) if kind == "Regex" else len(sign)
    except Refused as why:
        raise UserError(f"{where} has the regular expression {quoted(sign, 60)}, which is not run: {why}.") from None


def _repeated(step: Step) -> float:
    """Return how often a template has the text."""
    pieces = [piece for part in ("single", "pair") if isinstance(step.get(part), list) for piece in step[part]]
    return max(1, sum(isinstance(piece, dict) and "Sequence" in piece for piece in pieces) - 2)


def _damaged(where: str, what: str) -> UserError:
    return UserError(f"{where} {what}. Copy it again from where it was made.")


BLOCK = 256  # units; a whole number of them, so that no byte leads out of the array from within
LONGEST_KEY = 256  # bytes that are replaced together; those of Unicode's normal forms have some twenty
LEAF, HAS_LEAF, LABEL = 1 << 31, 1 << 8, 0xFF


def longest_replacement(charsmap: Any) -> int | None:
    """Return the length in bytes of the longest replacement in a `precompiled_charsmap`, or None if the table is damaged.

    SentencePiece's table holds the size of a trie in bytes, the trie, and the replacement texts, each ended by NUL. The trie is a
    double array of 32-bit units (Darts): the index of the next unit is an XOR with a byte of the text, and the library does not
    check that index, so no lookup of any text may lead outside of the table.
    """
    try:
        content = base64.b64decode(charsmap, validate=True)
        size = int.from_bytes(content[:4], "little")
        texts = content[4 + size :]
        texts.decode("utf-8")
    except (TypeError, ValueError):
        return None
    if size % (4 * BLOCK) or not 0 < size <= len(content) - 4:
        return None
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
    return max(map(len, texts.split(b"\0"))) if _stays_inside(units, np.frombuffer(texts, np.uint8)) else None


def _stays_inside(units: np.ndarray, texts: np.ndarray) -> bool:
    """Check that every index reached from the root lies in the trie, and that every leaf points to the start of a character."""
    numbers, label = np.arange(len(units)), units & LABEL
    base = numbers ^ ((units >> 10) << ((units & (1 << 9)) >> 6))  # from where the next byte leads on
    waiting = ((units & LEAF) == 0) & (label > 0)  # may be reached by their label
    known = np.zeros(len(units), bool)
    reached = base[:1]
    for _ in range(LONGEST_KEY):
        if (reached >= len(units)).any():
            return False
        known[reached] = True
        found = waiting & known[numbers ^ label]
        waiting &= ~found
        reached = base[found]
        ends = base[found & ((units & HAS_LEAF) > 0)]
        if (ends >= len(units)).any():
            return False
        places = units[ends] & (LEAF - 1)
        if (places >= len(texts)).any() or ((texts[places] & 0xC0) == 0x80).any():
            return False
        if not found.any():
            return True
    return False

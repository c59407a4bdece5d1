"""Files called tokenizer.json that take all memory, take for ever, panic, or lie about their vocabulary."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.families.public_folder import TOKENIZER
from tests.faults.hostile_bases import (
    Cases,
    change,
    classifier_folder,
    gpt_folder,
    public,
    write,
)
from tests.faults.mutations import ESCAPE, mutated_bytes, mutated_json

REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}


def _parts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Parts of a tokenizer.json that were seen to do harm, or could."""

    def several(kind: str, step: dict[str, Any], times: int) -> dict[str, Any]:
        return {"type": "Sequence", kind: [step] * times}

    padding = {
        "strategy": {"Fixed": 10**9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "a",
    }
    yield "padding", {"padding": padding}
    yield "multiples", {"padding": padding | {"strategy": "BatchLongest", "pad_to_multiple_of": 10**9}}
    yield "truncation", {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}}
    yield "stride", {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 10**9}}
    for times in (2, 6, 30):
        yield f"normalizer x{times}", {"normalizer": several("normalizers", REPLACE, times)}
        yield f"decoder x{times}", {"decoder": several("decoders", REPLACE, times)}
        yield (
            f"ByteLevel x{times}",
            {
                "pre_tokenizer": several(
                    "pretokenizers",
                    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False},
                    times,
                )
            },
        )
        yield (
            f"CTC x{times}",
            {
                "decoder": several(
                    "decoders", {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}, times
                )
            },
        )
        yield f"BPEDecoder x{times}", {"decoder": several("decoders", {"type": "BPEDecoder", "suffix": ""}, times)}
    for map_ in (
        b"",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\4\0\0\0" + bytes(4),
        b"\4\0\0\0\xff\xff\xff\x7fabc",
        b"\0\4\0\0" + b"\x11" * 1024 + b"a\0",
        bytes(5000),
    ):
        yield (
            f"charsmap {map_[:6]!r}",
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(map_).decode()}},
        )
    yield "charsmap of no base64", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "%%%"}}
    for pattern in (
        "(a+)+$",
        "(a|aa)+$",
        "(.*)*x",
        r"\s*\s*\s*\s*x",
        "(",
        "[",
        r"\1",
        "a{1000000}",
        "(?<a>.)\\k<a>",
        r"\g<0>",
        "",
        "x*",
        r"(?=a)*",
        "a" * 200_000,
    ):
        for kind in ("pre_tokenizer", "normalizer"):
            step = (
                {"type": "Split", "behavior": "Isolated", "invert": False}
                if kind == "pre_tokenizer"
                else {"type": "Replace", "content": "b"}
            )
            yield f"{kind} {pattern[:14]}", {kind: step | {"pattern": {"Regex": pattern}}}
    yield "an empty pattern", {"normalizer": REPLACE | {"pattern": {"String": ""}}}
    yield "a long prefix", {"normalizer": {"type": "Prepend", "prepend": "a" * 10_000_000}}
    yield "deep", {"normalizer": _deep(200)}
    yield "an unknown step", {"normalizer": {"type": ESCAPE}}
    yield "a chunk of nothing", {"pre_tokenizer": {"type": "FixedLength", "length": 0}}
    yield (
        "a template",
        {
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 10**4,
                "pair": [],
                "special_tokens": {},
            }
        },
    )


def _deep(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "NFC"}
    for _ in range(depth):
        found = {"type": "Sequence", "normalizers": [found]}
    return found


def _models() -> Iterator[tuple[str, dict[str, Any]]]:
    pieces = json.loads(TOKENIZER)["model"]["vocab"]
    yield "no pieces", {"vocab": {}, "merges": []}
    yield "one id", {"vocab": dict.fromkeys(pieces, 0), "merges": []}
    yield "large ids", {"vocab": {piece: 4_000_000_000 + n for n, piece in enumerate(pieces)}, "merges": []}
    yield "no merges", {"merges": []}
    yield "merges of nothing", {"merges": [["", ""]]}
    yield "merges of others", {"merges": [["x", "y"]] * 1000}
    yield "merges of escapes", {"merges": [f"{ESCAPE} a"]}
    yield "a prefix", {"continuing_subword_prefix": "漢" * 10}
    yield "a suffix", {"end_of_word_suffix": ESCAPE}
    yield "chance", {"dropout": 1e308}
    yield "an unknown piece", {"unk_token": ESCAPE, "fuse_unk": True}
    yield "bytes", {"byte_fallback": True, "ignore_merges": True}
    yield "a long piece", {"vocab": {"a" * 10_000_000: 0}, "merges": []}
    yield "pieces with escapes", {"vocab": {ESCAPE * (n + 1): n for n in range(300)}, "merges": []}
    yield "very many pieces", {"vocab": {str(n): n for n in range(1_200_000)}, "merges": []}
    yield "another kind", {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 10**18}
    yield "Unigram of nothing", {"type": "Unigram", "vocab": [], "unk_id": 0}
    yield "Unigram of no unknown", {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 7}
    yield "Unigram of wild scores", {"type": "Unigram", "vocab": [["a", -1e308], ["aa", 1e308], ["", 0.0]], "unk_id": 0}
    yield "no kind", {"type": "None"}


def tokenizer_cases(draw: Random) -> Cases:
    for name, parts in _parts():
        yield name, public(gpt_folder, change("tokenizer.json", **parts))
    for name, parts in _models():
        yield name, public(gpt_folder, write("tokenizer.json", _with_model(parts)))
    added = {"content": ESCAPE, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    for name, pieces in (
        ("a piece with escapes", [added | {"id": 299}]),
        ("a piece of nothing", [added | {"id": 300, "content": ""}]),
        ("an id that is taken", [added | {"id": 5}]),
        ("very many", [added | {"id": 300 + n, "content": f"<{n}>"} for n in range(40_000)]),
        ("a long one", [added | {"id": 300, "content": "x" * 2_000_000}]),
        ("spaces", [added | {"id": 300, "content": "\n \t", "lstrip": True, "rstrip": True, "normalized": True}]),
        ("a far id", [added | {"id": 2**32 - 1}]),
    ):
        yield f"added: {name}", public(gpt_folder, change("tokenizer.json", added_tokens=pieces))
    for text in ("[" * 100_000, "", "null", "[]", "{}", '{"model": {}}', "[" + "[]," * 3_000_000 + "[]]", "\0" * 5000):
        yield f"tokenizer.json is {text[:12]!r}", public(gpt_folder, write("tokenizer.json", text))
    while True:
        base = draw.choice([gpt_folder, classifier_folder])
        content = (base() / "tokenizer.json").read_bytes()
        yield "seeded", public(base, write("tokenizer.json", mutated_json(draw, json.loads(content), draw.randint(1, 3))))
        yield "seeded bytes", public(base, write("tokenizer.json", mutated_bytes(draw, content)))


def _with_model(parts: dict[str, Any]) -> Callable[[bytes], str]:
    def changed(content: bytes) -> str:
        found = json.loads(content)
        return json.dumps(found | {"model": found["model"] | parts})

    return changed

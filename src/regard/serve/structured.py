"""JSON that follows a schema: llguidance says after every token which tokens may come next.

The library needs the bytes of every token. It reads them from a byte-level vocabulary by itself; those of other vocabularies are
found here, by what a token adds to a text behind another token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.errors import UserError
from regard.decode.config import DecodeConfig
from regard.serve.errors import Refused
from regard.serve.work import TokenMask
from regard.tasks.output_marks import OutputMarks
from regard.text.kinds import BYTE_LETTERS
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import llguidance

MOST_MATCHERS = 64  # texts of one request whose state is kept
LARGEST = 100_000  # characters of a schema
STUCK = "no token of this vocabulary can go on with JSON of this schema; give another schema or model"
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
GRAMMAR = 'start: SPACE? json\nSPACE: " "\njson: %json {}\n'  # many vocabularies begin a word with a space
ANY_OBJECT: dict[str, Any] = {"type": "object"}
COMPACT = {"x-guidance": {"whitespace_flexible": False}}  # or a small model would write line ends until it is cut


@dataclass(eq=False)
class JsonGuide:
    """A vocabulary as grammars need it."""

    tokenizer: Tokenizer
    ends: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, config: DecodeConfig) -> JsonGuide:
        return cls(tokenizer, OutputMarks.of(config, tokenizer).ends)

    @cached_property
    def _vocabulary(self) -> llguidance.LLTokenizer:
        try:
            from llguidance import LLTokenizer, TokenizerWrapper
        except ModuleNotFoundError:
            raise Refused(
                "JSON by a schema needs llguidance, which this server lacks; type: pip install 'regard[structured]'",
                status=501,
            ) from None
        if not self.ends:
            raise UserError("this vocabulary has no token that ends a text, which JSON needs; leave response_format out.")
        return LLTokenizer(
            TokenizerWrapper(_Bytes(self.tokenizer, self.ends[0])), n_vocab=len(self.tokenizer), eos_token=[*self.ends]
        )

    def mask(self, schema: dict[str, Any] | None) -> TokenMask:
        """Return what may come next in JSON that follows a schema; None: in any object."""
        from llguidance import LLMatcher

        if len(text := json.dumps((ANY_OBJECT if schema is None else schema) | COMPACT)) > LARGEST:
            raise UserError(f"the schema has {len(text):,} characters, and {LARGEST:,} are read; give a smaller one.")
        vocabulary = self._vocabulary
        grammar = LLMatcher.grammar_from_lark(GRAMMAR.format(text))
        matcher = LLMatcher(vocabulary, grammar, log_level=0)
        if matcher.is_error():
            reason = matcher.get_error().partition("\n")[0]
            raise Refused(f"this JSON schema cannot be followed ({reason}).", param="response_format")
        return _Mask(matcher, len(self.tokenizer), self.ends)


class _Mask:
    """A `TokenMask` that keeps the state of each text by its tokens, so that a step costs one token."""

    def __init__(self, begun: llguidance.LLMatcher, vocabulary: int, ends: Sequence[int]) -> None:
        self.begun, self.vocabulary, self.ends = begun, vocabulary, ends
        self._states: dict[tuple[int, ...], llguidance.LLMatcher] = {}

    def __call__(self, tokens: Sequence[int]) -> Sequence[int]:
        text = tuple(tokens)
        matcher = self._states.pop(text[:-1], None) if text else None
        if matcher is None:
            matcher, added = self.begun.deep_copy(), list(text)
        else:
            added = [text[-1]]
        if added and not matcher.consume_tokens(added):
            raise UserError(f"{STUCK} ({matcher.get_error().partition(chr(10))[0]}).")
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
        if len(self._states) >= MOST_MATCHERS:
            self._states.pop(next(iter(self._states)))
        self._states[text] = matcher
        allowed: list[int] = np.flatnonzero(bits[: self.vocabulary]).tolist()
        if {*allowed} <= {*self.ends} and not matcher.is_accepting():
            raise UserError(f"{STUCK}.")
        return allowed


class _Bytes:
    """The interface of a tokenizer that llguidance's `TokenizerWrapper` calls."""

    def __init__(self, tokenizer: Tokenizer, end: int) -> None:
        self.eos_token_id, self.bos_token_id = end, None
        self.special_token_ids = sorted({*tokenizer.specials, end})
        self.tokens = token_bytes(tokenizer)

        self._numbers = {piece: i for i, piece in enumerate(self.tokens) if piece}
        self._longest = max(map(len, self._numbers), default=0)

    def __call__(self, text: bytes | str) -> list[int]:
        """Return the longest token that fits, again and again: what a grammar forces is spelled so."""
        content, found, at = text if isinstance(text, bytes) else text.encode(), list[int](), 0
        while at < len(content):
            sizes = range(min(self._longest, len(content) - at), 0, -1)
            size = next((size for size in sizes if content[at : at + size] in self._numbers), 0)
            if not size:
                break
            found.append(self._numbers[content[at : at + size]])
            at += size
        return found


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes that each token adds to a text; none for special tokens, which are no text."""
    raw, byte_level = tokenizer.raw, tokenizer.decodes("ByteLevel")
    plain = [i for i in range(len(tokenizer)) if i not in tokenizer.specials and raw.id_to_token(i) is not None]
    found = [b""] * len(tokenizer)
    first = next((i for i in plain if str(raw.id_to_token(i)).isalnum()), plain[0] if plain else 0)
    begun = tokenizer.decode([first])
    for i in plain:
        piece = str(raw.id_to_token(i))
        if byte_level:
            found[i] = bytes(BYTE_LETTERS[letter] for letter in piece) if BYTE_LETTERS.keys() >= set(piece) else piece.encode()
        elif (byte := BYTE.fullmatch(piece)) is not None:
            found[i] = bytes([int(byte[1], 16)])
        else:
            found[i] = tokenizer.decode([first, i]).removeprefix(begun).encode()
    return found

"""A tokenizer turns text into ids and ids into text; it is learned once from the training text and stored with the run.

The work is done by Hugging Face `tokenizers`, and `tokenizer.json` is its format, so that other programs can read it.
Ids 0 to 3 are always <pad>, <sos>, <eos> and <unk>; a public checkpoint's tokenizer (see `pretrained`) has its own, and `roles`
says which. Encoding adds none of them: the batch does, where it is needed.

`continuing` finds the tokens that continue a word:

    WordPiece              "##ing" goes on, "play" begins
    BPE, unigram           "▁play" begins; what has no "▁" goes on
    byte-level BPE         "Ġplay" begins; what has no "Ġ" goes on

In the last two, punctuation by itself begins a new word, and letters that follow it without a space belong to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import AddedToken, models

from regard.core.errors import UserError, nearest
from regard.core.files import write_whole
from regard.core.terminal import quoted
from regard.text.config import KINDS, Kind, check_size
from regard.text.kinds import BYTE_LETTERS, LEARNERS, SPACE, cut, cut_long, visible, visible_bytes
from regard.text.offsets import Placed, place_tokens
from regard.text.specials import NAMES, SPECIALS, TURN_END, Roles
from regard.text.tokenizer_check import read_checked

# Data loaders fork, and threads do not survive that. For threads, set the variable before starting.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

NOTED = 10_000  # unknown words
TYPED = re.compile("|".join(map(re.escape, NAMES["mask"])))


CURE = "The tokenizer is damaged, or its parts do not belong together: copy it again from where it was made."


@contextmanager
def catch_panics(what: str, cure: str = CURE) -> Iterator[None]:
    """Turn a panic or a general error of the tokenizers library into the sentence `what`."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":  # of pyo3, which has no name to import
            raise
        raise UserError(f"{what} ({quoted(str(error), 200)}). {cure}") from None


class Tokenizer:
    def __init__(self, raw: tokenizers.Tokenizer) -> None:
        self.raw = raw
        self.raw.encode_special_tokens = True  # "<eos>" written by a person is text; `tokenizer.json` does not keep this
        self.raw.no_truncation()  # published files often carry the settings of their last use, which cut text short unasked
        self.raw.no_padding()
        special = {piece.content: i for i, piece in raw.get_added_tokens_decoder().items() if piece.special}
        self.specials = frozenset(special.values())
        # A word that merely looks like one of their names plays no role.
        first = {role: next((special[name] for name in names if name in special), None) for role, names in NAMES.items()}
        self.roles = Roles(**first)
        self._length = 1 + max(raw.get_vocab(with_added_tokens=True).values(), default=-1)  # public ones may have gaps
        self._unknown: dict[str, None] | None = None  # unknown words, while they are being collected
        self._visible = visible_bytes if self.decodes("ByteLevel") else visible

    def __len__(self) -> int:
        """Return the highest id + 1: the number of rows of an embedding table."""
        return self._length

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        found = [encoding.ids for encoding in _encode(self.raw.encode_batch_fast, texts)]
        if self._unknown is not None:
            self.encode_placed([text for text, ids in zip(texts, found) if self.roles.unk in ids])
        return found

    def encode_placed(self, texts: Sequence[str]) -> list[Placed]:
        """Encode texts and return the character offsets of the tokens too."""
        found = _encode(self.raw.encode_batch, texts)
        rows = [place_tokens(text, encoding.ids, encoding.offsets) for text, encoding in zip(texts, found)]
        if (noted := self._unknown) is not None:
            for text, (ids, starts, ends) in zip(texts, rows):
                for i, start, end in zip(ids, starts, ends):
                    if i == self.roles.unk and start < end and len(noted) < NOTED:
                        noted[text[start:end]] = None
        return rows

    @contextmanager
    def noting_unknown(self) -> Iterator[dict[str, None]]:
        """Yield a list that collects the unknown words encoded meanwhile, at most `NOTED`."""
        self._unknown = found = dict[str, None]()
        try:
            yield found
        finally:
            self._unknown = None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids without special tokens."""
        with catch_panics("The pieces cannot be joined to a text"):
            return str(self.raw.decode(list(ids), skip_special_tokens=True))

    def decode_batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        with catch_panics("The pieces cannot be joined to a text"):
            return list(self.raw.decode_batch([list(row) for row in ids], skip_special_tokens=True))

    def decodes(self, step: str) -> bool:
        """Return True if the decoder has a step of this name, as in `tokenizer.json`."""
        return self.raw.decoder is not None and f'"{step}"'.encode() in self.raw.decoder.__getstate__()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return each token as printable text: spaces as ▁, bytes that are not text by themselves as <0xC3>."""
        return [self._token(i) for i in ids]

    def _token(self, i: int) -> str:
        piece = self.raw.id_to_token(i) if 0 <= i < len(self) else None
        if piece is None:
            raise UserError(f"Id {i} is not in this vocabulary, whose ids go from 0 to {len(self) - 1}.")
        return str(piece) if i in self.specials else self._visible(piece)

    def continuing(self) -> np.ndarray:
        """Return, for every id, True if the token continues a word; refused if tokens do not say so."""
        pieces = self.raw.get_vocab(with_added_tokens=True)
        goes_on, found = _rule(self.raw, pieces), np.zeros(len(self), bool)
        for piece, number in pieces.items():
            found[number] = goes_on(piece)
        found[list(self.raw.get_added_tokens_decoder())] = False
        return found

    def with_mask(self) -> Tokenizer:
        """Return a copy with one more token, <mask>, which hides a word (with the space before it, if words begin with one)."""
        raw = tokenizers.Tokenizer.from_str(self.raw.to_str())
        longer = any(len(piece) > 1 and i not in self.specials for piece, i in raw.get_vocab(with_added_tokens=False).items())
        raw.add_special_tokens([AddedToken(NAMES["mask"][0], lstrip=longer and self.decodes("ByteLevel"), normalized=False)])
        return Tokenizer(raw)

    def with_turns(self) -> Tokenizer:
        """Return a copy with one more token, __eou__, which ends a turn; the turns around it are encoded as if alone.

        It is no special piece, since it is text: dialogues are written with it.
        """
        raw = tokenizers.Tokenizer.from_str(self.raw.to_str())
        raw.add_tokens([AddedToken(TURN_END, lstrip=True, rstrip=True, normalized=False)])
        return Tokenizer(raw)

    def save(self, path: str | Path) -> None:
        write_whole(Path(path), self.raw.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | Path, *, foreign: bool = False) -> Tokenizer:
        """Load what `save` wrote; a pretrained tokenizer only where a run uses `roles` instead of PAD, SOS, EOS and UNK."""
        path = Path(path)
        if not path.is_file():
            raise UserError(
                f"There is no tokenizer at {path}. Copy it back, or make it again by the same 'regard train' command."
            )
        raw = read_tokenizer(path, "or delete it and train again: the same command makes the same tokenizer.")
        found = [raw.token_to_id(special) for special in SPECIALS]
        if found != list(range(len(SPECIALS))) and not foreign:
            raise UserError(
                f"{path} is a tokenizer, but not one of ours: {', '.join(SPECIALS)} must have the ids 0 to 3 and have "
                f"{', '.join(map(str, found))}. Use a tokenizer.json written by regard train."
            )
        return cls(raw)

    def fingerprint(self) -> str:
        """Return the sha256 of the JSON: equal for tokenizers that do the same."""
        return hashlib.sha256(self.raw.to_str().encode()).hexdigest()


def read_tokenizer(path: Path, otherwise: str) -> tokenizers.Tokenizer:
    """Read a tokenizer; `otherwise` ends the error sentence for a damaged file."""
    try:
        content = read_checked(path, path.parent)
    except UserError as error:
        raise UserError(f"{str(error).removesuffix('.')}, {otherwise}") from None
    with catch_panics(f"{path} is not a tokenizer.json that can be read", f"Copy it again from where it was made, {otherwise}"):
        return tokenizers.Tokenizer.from_str(content)


def train_tokenizer(kind: Kind, texts: Iterable[str], size: int, *, lowercase: bool = False, minimum_count: int = 1) -> Tokenizer:
    """Learn at most `size` pieces, specials included, from the texts. The same texts always give the same tokenizer.

    `minimum_count` leaves out words, characters and merges seen less often. A byte tokenizer needs no size: give 0.
    """
    if kind not in KINDS:
        raise UserError(f"text.tokenizer={kind!r} is not a kind of tokenizer{nearest(kind, KINDS)}")
    check_size(kind, size, minimum_count)
    texts, how = [part for text in texts for part in cut_long(text)], cut(kind, lowercase)
    _refuse_half_characters(texts)
    texts = [text for text in texts if how.normalizer.normalize_str(text).strip()]
    if not texts and kind != "byte":
        raise UserError(f"There is no text to learn a {kind} tokenizer from: every line is empty. Check data.train.")
    raw = tokenizers.Tokenizer(LEARNERS[kind](how, texts, size, minimum_count))
    raw.normalizer, raw.pre_tokenizer, raw.decoder = how
    raw.add_special_tokens(list(SPECIALS))
    return Tokenizer(raw)


def _encode(encode: Callable[..., list[tokenizers.Encoding]], texts: Sequence[str]) -> list[tokenizers.Encoding]:
    try:
        with catch_panics("The text cannot be cut into pieces"):
            return encode(list(texts), add_special_tokens=False)
    except TypeError:
        _refuse_half_characters(texts)
        raise


def _refuse_half_characters(texts: Iterable[str]) -> None:
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"Text {number} holds half a character (a lone surrogate), which is not Unicode text: {text[:40]!r}. "
                "Read it as UTF-8 or take the character out."
            ) from error


SPACES = {letter for letter, byte in BYTE_LETTERS.items() if bytes([byte]).isspace()}


def _rule(raw: tokenizers.Tokenizer, pieces: dict[str, int]) -> Callable[[str], bool]:
    added = {piece.content for piece in raw.get_added_tokens_decoder().values()}
    steps = b"".join(step.__getstate__() for step in (raw.pre_tokenizer, raw.decoder) if step is not None)
    match raw.model:
        case models.WordPiece(continuing_subword_prefix=prefix):
            return lambda piece: piece.startswith(prefix)
        case models.BPE() | models.Unigram() if max((len(piece) for piece in pieces if piece not in added), default=0) < 2:
            raise _no_words("characters or bytes, which do not show where a word ends")
        case models.BPE() if b'"ByteLevel"' in steps:
            return lambda piece: piece[0] not in SPACES and not all(map(_punctuation, piece))
        case models.BPE() | models.Unigram() if b'"Metaspace"' in steps:
            return lambda piece: not piece.startswith(SPACE) and not all(map(_punctuation, piece))
        case models.WordLevel():
            raise _no_words("whole words or single characters already")
    raise _no_words("of a kind that does not show where a word ends")


def _punctuation(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "PS"


def _no_words(what: str) -> UserError:
    return UserError(f"objective.whole_words=true joins pieces of words, but this vocabulary's are {what}; set it to false.")


LINE_END = "\n"


def whole_words(tokenizer: Tokenizer) -> list[str | None]:
    """Return the word of each id, with or without a space before it; None for special tokens and the line end."""
    if not isinstance(tokenizer.raw.model, models.WordLevel):
        raise UserError(
            "word vectors are of whole words, and this vocabulary has pieces of words; set text.tokenizer=word or "
            "text.tokenizer=spaced."
        )
    spaced = tokenizer.decodes("Metaspace")
    pieces = {i: piece for piece, i in tokenizer.raw.get_vocab(with_added_tokens=True).items() if i not in tokenizer.specials}
    found = [pieces.get(i) for i in range(len(tokenizer))]
    words = [piece if piece is None or not spaced else piece.removeprefix(SPACE) for piece in found]
    return [word if word and word.strip() else None for word in words]


class Blanks:
    """Encoder of texts with blanks, typed as [MASK] or <mask>, each of which becomes the one token that hides a word.

    Everywhere else the name of a special token is text when a person wrote it. Here a copy of the tokenizer does not hold the
    mask token for special, so that it is found, with the spaces around it treated as its vocabulary says. A tokenizer that
    begins every stretch of text with a space (bpe, unigram, word) does so after a blank too; `_closed` removes it before
    punctuation, where no training text has one.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.roles.mask is None:
            raise UserError(
                "this vocabulary has no piece that hides a word, such as [MASK]; use a model that was trained to fill in words."
            )
        self.tokenizer, self.mask = tokenizer, tokenizer.roles.mask
        self.name = str(tokenizer.raw.id_to_token(self.mask))
        settings = json.loads(tokenizer.raw.to_str())
        for piece in settings["added_tokens"]:
            if piece["id"] == self.mask:
                piece |= {"special": False, "normalized": False}
        self.finds = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(settings)))
        space = tokenizer.raw.token_to_id(SPACE)
        self.space = (tokenizer.roles.unk if space is None else space) if tokenizer.decodes("Metaspace") else None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        found = self.finds.encode_batch([TYPED.sub(lambda _: self.name, text) for text in texts])
        return found if self.space is None else [self._closed(text, ids) for text, ids in zip(texts, found)]

    def _closed(self, text: str, ids: list[int]) -> list[int]:
        """Remove the space between a blank and punctuation."""
        before = (bool(re.match(r"[^\w\s]", text[blank.end() :])) for blank in TYPED.finditer(text))
        after_blank = (n + 1 for n, i in enumerate(ids) if i == self.mask)
        gone = {n for n, closed in zip(after_blank, before) if closed and ids[n : n + 1] == [self.space]}
        return [i for n, i in enumerate(ids) if n not in gone]


KEPT = 3  # ids: a character has at most four bytes, so that many may wait for the one that completes it
UNFINISHED = "\ufffd"  # the decoder's sign for bytes that are no character, or none yet
BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")


class Stream:
    """Text while it is being written: from ids as they come, whatever of their text can no longer change.

    The text of an id depends on its neighbours: a character may take several bytes, each an id of its own; the first piece
    loses its leading space; "##s" joins the word before it. So the last few ids are decoded again with what comes, and what is
    new in their text is given out. Everything together is what `decode` makes of all the ids, and since only the last few are
    decoded, the thousandth costs as much as the first.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._falls_back_to_bytes = tokenizer.decodes("ByteFallback")
        self._tail: list[int] = []
        self._given = 0  # characters of the tail's text

    def add(self, ids: Sequence[int]) -> str:
        """Add ids and return the text that has become final, which may be empty."""
        # Special and unknown ids, which have no text, must not push others out of the tail.
        known = [i for i in ids if self._tokenizer.raw.id_to_token(i) is not None]
        spoken = [i for i in known if i not in self._tokenizer.specials]
        self._tail += spoken
        if not spoken or self._in_a_run_of_bytes():
            return ""
        text = self._tokenizer.decode(self._tail)
        unsure = 1 if text.endswith(UNFINISHED) else 0  # an unfinished character is one sign, however many bytes it has
        new = text[self._given : len(text) - unsure]
        self._tail = self._tail[-KEPT:]
        self._given = len(self._tokenizer.decode(self._tail)) - unsure
        return new

    def end(self) -> str:
        """Return the rest of the text; the next `add` begins a new text."""
        rest = self._tokenizer.decode(self._tail)[self._given :]
        self._tail, self._given = [], 0
        return rest

    def _in_a_run_of_bytes(self) -> bool:
        """Return True within a run of byte tokens like <0xC3>, which become characters only when the run has ended."""
        if not self._falls_back_to_bytes or not self._tail:
            return False
        return BYTE_PIECE.fullmatch(str(self._tokenizer.raw.id_to_token(self._tail[-1]))) is not None

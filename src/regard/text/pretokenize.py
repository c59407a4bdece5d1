"""How each kind of tokenizer cuts text into words before it looks for pieces, and how it joins pieces to text again.

    kind        cuts "parce qu'il dort." into            decode(encode(text)) is
    bpe         ▁parce ▁qu ' il ▁dort .  then merges     the text
    unigram     the same words, then likely pieces       the text
    word        the same words                           the text
    wordpiece   parce qu ' il dort .  then ## pieces     readable text; spaces around punctuation are guessed
    character   every character, the space too           the text, every space kept
    byte        every UTF-8 byte                         the text, every space kept
    byte-bpe    parce Ġqu ' il Ġdort .  then merges      the very same text, every space kept, nothing composed
    spaced      parce qu'il dort.                        the text; a line end is a word of its own

"The text" means its Unicode NFC form, lowercased if asked. The cut of byte-bpe is GPT-2's, and Ġ is how it writes the byte
of the space: every byte has a visible letter. Where "▁" stands for the space (bpe, unigram, word), a run of
white space counts as one space, none is kept at either end, and a "▁" that was in the text is read as a space.

Every cut falls between "<" and a letter that follows it. A line in which somebody wrote "<eos>" can therefore never match the
special piece of that name: it is ordinary text. Only "spaced", for text whose words are prepared, takes "<unk>" at its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

from regard.text.config import Kind

SPACE = "▁"
WHITE_SPACE = re.compile(r"\s")
LONGEST = 2**18  # characters of a part; the tokens of one part take about 50 MB while they are counted


class Cut(NamedTuple):
    """The steps around the model that owns the pieces."""

    normalizer: normalizers.Normalizer
    pre_tokenizer: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder

    def words(self, text: str) -> list[str]:
        return [word for word, _ in self.pre_tokenizer.pre_tokenize_str(self.normalizer.normalize_str(text))]


def cut(kind: Kind, lowercase: bool) -> Cut:
    # Lowercasing first: it can leave letter and accent apart, and NFC joins them.
    letters = [*([normalizers.Lowercase()] if lowercase else []), normalizers.NFC()]
    match kind:
        case "bpe" | "unigram" | "word":
            one_space = [normalizers.Replace(Regex(rf"[\s{SPACE}]+"), " "), normalizers.Strip()]
            words = [pre_tokenizers.Metaspace(replacement=SPACE), pre_tokenizers.Punctuation("isolated")]
            return Cut(
                normalizers.Sequence([*letters, *one_space]),
                pre_tokenizers.Sequence(words),
                decoders.Metaspace(replacement=SPACE),
            )
        case "wordpiece":
            clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False)
            return Cut(
                normalizers.Sequence([*letters, clean]),
                pre_tokenizers.BertPreTokenizer(),
                decoders.WordPiece(prefix="##", cleanup=True),
            )
        case "character":
            characters = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
            return Cut(normalizers.Sequence(letters), characters, decoders.Fuse())
        case "byte":
            utf8 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            return Cut(normalizers.Sequence(letters), utf8, decoders.ByteLevel())
        case "spaced":
            lines = pre_tokenizers.Split(Regex(r"\n"), "isolated")
            specials = pre_tokenizers.Split(Regex(r"<(?=(pad|sos|eos)>)"), "isolated")
            words = [lines, pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"), specials]
            joined = decoders.WordPiece(prefix="\0", cleanup=False)  # a space between all, since no word has this prefix
            return Cut(normalizers.Sequence(letters), pre_tokenizers.Sequence(words), joined)
        case "byte-bpe":
            untouched = normalizers.Sequence([normalizers.Lowercase()] if lowercase else [])
            return Cut(untouched, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), decoders.ByteLevel())


def _byte_letters() -> dict[str, int]:
    """One visible letter for each byte, as GPT-2 chose them: printable Latin-1 stands for itself, the rest moves up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    letter_of = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(moved)}
    return {letter_of[byte]: byte for byte in range(256)}


BYTE_LETTERS = _byte_letters()


def visible(piece: str) -> str:
    """A piece for people to read: the space as ▁, a line break as \\n."""
    return "".join(SPACE if c == " " else c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece)


def visible_bytes(piece: str) -> str:
    """A byte-level piece for people to read: as text where its bytes are text by themselves, else as <0xC3>.

    A piece that has other letters was added to the vocabulary as text, and the decoder takes it as that.
    """
    if not BYTE_LETTERS.keys() >= set(piece):
        return visible(piece)
    content = bytes(BYTE_LETTERS[letter] for letter in piece).decode(errors="surrogateescape")
    return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else visible(c) for c in content)


def cut_long(text: str, longest: int = LONGEST) -> Iterator[str]:
    """Yield the text in parts of at most `longest` characters, cut only where every tokenizer cuts too.

    The tokens of the parts, one after the other, are the tokens of the whole: between "l" and " d" of "well done" every tokenizer
    here and every public one we know starts a new token, whatever it does with other white space and with punctuation.
    """
    begin = 0
    while len(text) - begin > longest:
        end = _between_words(text, begin, begin + longest) or _before_space(text, begin, begin + longest) or begin + longest
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _between_words(text: str, begin: int, end: int) -> int | None:
    """Return the last index of a single space between two letters, or None."""
    place = text.rfind(" ", begin + 1, end)
    while place > begin:
        if text[place - 1].isalpha() and text[place + 1].isalpha():
            return place
        place = text.rfind(" ", begin + 1, place)
    return None


def _before_space(text: str, begin: int, end: int) -> int | None:
    """Return the last index of white space that follows a character, or None."""
    spaces = (place for place in range(end, begin, -1) if text[place] in " \n" and not text[place - 1].isspace())
    return next(spaces, None)


def has_long_words(text: str, longest: int) -> bool:
    """Return True if the text may have `longest` characters in a row without white space, or of white space only."""
    half = longest // 2  # `longest` characters in a row cover a whole block of half as many, wherever they begin
    blocks = (text[begin : begin + half] for begin in range(0, len(text) - half + 1, half))
    return any(block.isspace() or not WHITE_SPACE.search(block) for block in blocks)

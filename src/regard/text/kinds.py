"""The kinds of tokenizer: how each splits text into words, learns its pieces, and joins tokens to text again.

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

Every cut falls between "<" and a letter that follows it. A line that contains "<eos>" can therefore never match the
special piece of that name: it is ordinary text. Only "spaced", for text whose words are prepared, takes "<unk>" at its word.

Pieces are learned by the trainers of `tokenizers`, made deterministic. BPE (Sennrich et al. 2016) merges the most frequent
neighbours, characters to begin with, or bytes (byte-bpe, Radford et al. 2019); WordPiece (Schuster & Nakajima 2012, as used by
BERT) does so with pieces that know whether they begin a word; unigram (Kudo 2018) starts from many pieces and drops those the
likelihood of the text misses least; word and character keep the most frequent; byte has nothing to learn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import UserError
from regard.text.config import Kind
from regard.text.specials import SPECIALS, UNK

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


PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
SHIFTED = sorted({*range(256)} - {*PRINTABLE})
LETTERS = [*map(chr, PRINTABLE), *map(chr, range(256, 256 + len(SHIFTED)))]
BYTE_LETTERS = dict(sorted(zip(LETTERS, [*PRINTABLE, *SHIFTED]), key=itemgetter(1)))
"""One visible letter for each byte, as in GPT-2: printable Latin-1 stands for itself, the rest is shifted."""


def visible(piece: str) -> str:
    """Return a token as printable text: the space as ▁, a line break as \\n."""
    return "".join(SPACE if c == " " else c if c.isprintable() else c.encode("unicode_escape").decode() for c in piece)


def visible_bytes(piece: str) -> str:
    """Return a byte-level token as printable text: as text where its bytes are valid UTF-8, else as <0xC3>.

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


UNKNOWN = SPECIALS[UNK]
LONGEST_WORD = 4096  # characters; the time that the trainers of merges take grows with the square of it
BYTE_SIZE = len(SPECIALS) + len(BYTE_LETTERS)
Learner = Callable[[Cut, list[str], int, int], models.Model]


def learn_bpe(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    _need_room("bpe", size, {"characters": len(_letters(how, texts))})
    return _train(models.BPE(unk_token=UNKNOWN), trainers.BpeTrainer, how, texts, size, min_frequency=minimum_count).model


def learn_byte_bpe(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    """Learn byte-level BPE: all 256 bytes are tokens, so that every text can be encoded."""
    settings = {"min_frequency": minimum_count, "initial_alphabet": list(BYTE_LETTERS)}
    return _train(models.BPE(), trainers.BpeTrainer, how, texts, size, **settings).model


def learn_wordpiece(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    words = {word for text in texts for word in how.words(text)}
    # The trainer would number these in the order of a hash table, which differs from run to run and breaks its ties.
    continuations = sorted({"##" + letter for word in words for letter in word[1:]})
    _need_room("wordpiece", size, {"characters": len(set().union(*words)), "continuations": len(continuations)})
    settings = {"min_frequency": minimum_count, "special_tokens": [*SPECIALS, *continuations], "continuing_subword_prefix": "##"}
    return _train(models.WordPiece(unk_token=UNKNOWN), trainers.WordPieceTrainer, how, texts, size, **settings).model


def learn_unigram(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    _refuse_minimum_count("unigram", minimum_count)
    letters = _letters(how, texts)
    _need_room("unigram", size, {"characters": len(letters)})  # with less room than this the trainer would never return
    found = _train(models.Unigram(), trainers.UnigramTrainer, how, texts, size, unk_token=UNKNOWN)
    trained = json.loads(found.to_str())["model"]["vocab"]
    scores = _settled(dict(trained[len(SPECIALS) :]), letters)
    room = size - len(SPECIALS) - len(letters)  # the trainer overshoots when there is room for nothing but letters
    ranked = sorted(scores, key=lambda piece: (-scores[piece], piece))
    kept = letters | set([piece for piece in ranked if piece not in letters][:room])
    pieces = [(special, 0.0) for special in SPECIALS] + [(piece, scores[piece]) for piece in ranked if piece in kept]
    return models.Unigram(pieces, unk_id=UNK)


def learn_frequent(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    """Learn the `size` most frequent words, or characters."""
    model = models.WordLevel(unk_token=UNKNOWN)
    trained = _train(model, trainers.WordLevelTrainer, how, texts, size, min_frequency=minimum_count)
    if trained.get_vocab_size() == len(SPECIALS):
        raise UserError(f"Nothing in this text is seen text.minimum_count={minimum_count} times. Set it lower.")
    vocabulary = trained.get_vocab()
    words = [word for word in sorted(vocabulary, key=vocabulary.__getitem__) if word not in SPECIALS]
    # In prepared text "<unk>" is a word, which the trainer would number a second time.
    return models.WordLevel({word: number for number, word in enumerate([*SPECIALS, *words])}, unk_token=UNKNOWN)


def learn_bytes(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    _refuse_minimum_count("byte", minimum_count)
    if size not in (0, BYTE_SIZE):
        raise UserError(
            f"A byte tokenizer has exactly {BYTE_SIZE} pieces, but text.size is {size}. Set text.size=0 to let it choose."
        )
    return models.BPE({piece: i for i, piece in enumerate([*SPECIALS, *BYTE_LETTERS])}, [])


LEARNERS: dict[Kind, Learner] = {
    "bpe": learn_bpe,
    "wordpiece": learn_wordpiece,
    "unigram": learn_unigram,
    "word": learn_frequent,
    "character": learn_frequent,
    "spaced": learn_frequent,
    "byte": learn_bytes,
    "byte-bpe": learn_byte_bpe,
}


def _train(
    model: models.Model, trainer: Callable[..., trainers.Trainer], how: Cut, texts: list[str], size: int, **settings: Any
) -> Tokenizer:
    """Train a model for at most `size` pieces, the specials first; `settings` are those of its trainer."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = how.normalizer
    tokenizer.pre_tokenizer = how.pre_tokenizer
    if any(has_long_words(text, LONGEST_WORD) for text in texts):
        pieces = pre_tokenizers.Split(Regex(rf"[\s\S]{{{LONGEST_WORD}}}"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([how.pre_tokenizer, pieces])
    settings = {"special_tokens": list(SPECIALS), "show_progress": False} | settings
    tokenizer.train_from_iterator(texts, trainer(vocab_size=size, **settings), length=len(texts))
    return tokenizer


def _settled(scores: dict[str, float], letters: set[str]) -> dict[str, float]:
    """Return unigram scores without the noise that differs from run to run because the trainer walks through hash tables.

    Its sums carry noise near 1e-15: rounded off. And the letters it dropped but must bring back it puts at the lowest
    score, plus 0, 1, 2, ... ten-thousandths in the order of such a table: they all get the lowest score.
    """
    lowest = min(scores.values())

    def brought_back(piece: str) -> bool:
        steps = (scores[piece] - lowest) * 1e4
        return piece in letters and steps < len(letters) and abs(steps - round(steps)) < 1e-6

    return {piece: round(lowest if brought_back(piece) else score, 6) for piece, score in scores.items()}


def _letters(how: Cut, texts: list[str]) -> set[str]:
    return {letter for text in texts for word in how.words(text) for letter in word}


def _need_room(kind: Kind, size: int, parts: dict[str, int]) -> None:
    least = len(SPECIALS) + sum(parts.values())
    if size < least:
        counted = " + ".join(f"{count} {name}" for name, count in parts.items())
        raise UserError(
            f"text.size={size} is too small for {kind}: this text needs {len(SPECIALS)} specials + {counted} = {least}. "
            f"Set text.size={least} or more, or clean rare characters out of the text."
        )


def _refuse_minimum_count(kind: Kind, minimum_count: int) -> None:
    if minimum_count != 1:
        raise UserError(
            f"text.minimum_count={minimum_count} means nothing to a {kind} tokenizer, which does not choose its pieces "
            "by count. Leave it at 1, or use text.tokenizer=bpe."
        )

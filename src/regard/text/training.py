"""How each kind of tokenizer learns its pieces from text: the trainers of `tokenizers`, made to give the same answer twice.

BPE (Sennrich et al. 2016) merges the most frequent neighbours, characters to begin with, or bytes (byte-bpe, Radford et
al. 2019); WordPiece (Schuster & Nakajima 2012, as used by BERT) does so with pieces that know whether they begin a word;
unigram (Kudo 2018) starts from many pieces and drops those the likelihood of the text misses least; word and character
keep the most frequent; byte has nothing to learn.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from regard.core.errors import UserError
from regard.text.config import Kind
from regard.text.pretokenize import BYTE_LETTERS, Cut, has_long_words
from regard.text.specials import SPECIALS, UNK

UNKNOWN = SPECIALS[UNK]
LONGEST_WORD = 4096  # characters; the time that the trainers of merges take grows with the square of it
BYTE_SIZE = len(SPECIALS) + len(BYTE_LETTERS)
Learner = Callable[[Cut, list[str], int, int], models.Model]


def learn_bpe(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    _need_room("bpe", size, {"characters": len(_letters(how, texts))})
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=minimum_count, special_tokens=list(SPECIALS), show_progress=False
    )
    return _train(models.BPE(unk_token=UNKNOWN), trainer, how, texts).model


def learn_byte_bpe(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    """All 256 bytes are pieces, whether this text has them or not: there is nothing such a vocabulary cannot spell."""
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=minimum_count,
        special_tokens=list(SPECIALS),
        initial_alphabet=list(BYTE_LETTERS),
        show_progress=False,
    )
    return _train(models.BPE(), trainer, how, texts).model


def learn_wordpiece(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    words = {word for text in texts for word in how.words(text)}
    # The trainer would number these in the order of a hash table, which differs from run to run and breaks its ties.
    continuations = sorted({"##" + letter for word in words for letter in word[1:]})
    _need_room("wordpiece", size, {"characters": len(set().union(*words)), "continuations": len(continuations)})
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=minimum_count,
        special_tokens=[*SPECIALS, *continuations],
        continuing_subword_prefix="##",
        show_progress=False,
    )
    return _train(models.WordPiece(unk_token=UNKNOWN), trainer, how, texts).model


def learn_unigram(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    _refuse_minimum_count("unigram", minimum_count)
    letters = _letters(how, texts)
    _need_room("unigram", size, {"characters": len(letters)})  # with less room than this the trainer would never return
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=list(SPECIALS), unk_token=UNKNOWN, show_progress=False)
    trained = json.loads(_train(models.Unigram(), trainer, how, texts).to_str())["model"]["vocab"]
    scores = _settled(dict(trained[len(SPECIALS) :]), letters)
    room = size - len(SPECIALS) - len(letters)  # the trainer overshoots when there is room for nothing but letters
    ranked = sorted(scores, key=lambda piece: (-scores[piece], piece))
    kept = letters | set([piece for piece in ranked if piece not in letters][:room])
    pieces = [(special, 0.0) for special in SPECIALS] + [(piece, scores[piece]) for piece in ranked if piece in kept]
    return models.Unigram(pieces, unk_id=UNK)


def learn_frequent(how: Cut, texts: list[str], size: int, minimum_count: int) -> models.Model:
    """The `size` most frequent words, or characters, as the cut makes them."""
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=minimum_count, special_tokens=list(SPECIALS), show_progress=False
    )
    trained = _train(models.WordLevel(unk_token=UNKNOWN), trainer, how, texts)
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


def _train(model: models.Model, trainer: trainers.Trainer, how: Cut, texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = how.normalizer
    tokenizer.pre_tokenizer = how.pre_tokenizer
    if any(has_long_words(text, LONGEST_WORD) for text in texts):
        pieces = pre_tokenizers.Split(Regex(rf"[\s\S]{{{LONGEST_WORD}}}"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([how.pre_tokenizer, pieces])
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    return tokenizer


def _settled(scores: dict[str, float], letters: set[str]) -> dict[str, float]:
    """Unigram scores without what differs from run to run because the trainer walks through hash tables.

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

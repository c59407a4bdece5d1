"""Every way a vocabulary can spell a word: banned in one way only, it would come out in other pieces, " c" and "at" for " cat".

A word may also come without the space that the vocabulary puts before it, as a full stop does. One of n letters may be cut in
2^(n-1) ways, so of very long ones only those of the fewest pieces are given, as models write.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from regard.text.kinds import SPACE
from regard.text.tokenizer import Tokenizer

MOST = 500

Ids = tuple[int, ...]


def spellings(tokenizer: Tokenizer, word: str) -> list[Ids]:
    """Each as ids whose text is that of the word; none of a word that the vocabulary cannot spell."""
    letters, text = _letters(tokenizer, word)
    numbers = {piece: i for piece, i in tokenizer.raw.get_vocab().items() if piece in letters and i not in tokenizer.specials}
    forms = dict.fromkeys((letters, letters.removeprefix(SPACE)))
    found = (ids for form in forms for ids in islice(_cuts(form, numbers), MOST))
    return [ids for ids in found if tokenizer.decode(ids) == text]  # not so where pieces are glued otherwise, such as "##at"


def _letters(tokenizer: Tokenizer, word: str) -> tuple[str, str]:
    """The word as its pieces spell it, and as they are read; where there is no piece for some of it, as it is cut."""
    raw, own = tokenizer.raw, tokenizer.encode(word)
    if not tokenizer.specials & set(own):
        return "".join(str(raw.id_to_token(i)) for i in own), tokenizer.decode(own)
    plain = raw.normalizer.normalize_str(word) if raw.normalizer else word
    parts = [part for part, _ in raw.pre_tokenizer.pre_tokenize_str(plain)] if raw.pre_tokenizer else [plain]
    return "".join(parts), plain.strip()


def _cuts(letters: str, numbers: dict[str, int]) -> Iterator[Ids]:
    """All cuts of the letters into pieces that have numbers, those of the fewest pieces first."""
    size, longest = len(letters), max(map(len, numbers), default=0)
    ends = [[end for end in range(begin + 1, size + 1)[:longest] if letters[begin:end] in numbers] for begin in range(size)]
    fewest = [0] * (size + 1)  # pieces from here to the end; more than there are letters: it cannot be reached
    for begin in reversed(range(size)):
        fewest[begin] = min((fewest[end] + 1 for end in ends[begin]), default=size + 1)
    for count in range(max(1, fewest[0]), size + 1):
        begun: list[tuple[int, Ids]] = [(0, ())]
        while begun:
            begin, ids = begun.pop()
            if begin == size:
                yield ids
                continue
            left = count - len(ids)
            possible = (end for end in reversed(ends[begin]) if fewest[end] < left <= size - end + 1)
            begun += [(end, (*ids, numbers[letters[begin:end]])) for end in possible]

"""Sentences that ask what *it* refers to, as numbers: where the words are that matter, and which pronoun is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.commands.demo import pronoun_of
from regard.data.sources import Pair
from regard.tasks.translation.predict import Translator
from regard.text.specials import EOS, SOS
from tools.corpora.lexicon import lexicon


@dataclass(frozen=True)
class Question:
    """A pair whose nouns differ in gender, as numbers: where the words are that matter."""

    source: list[int]
    target: list[int]  # as it is read: <sos> first
    it: int
    referent: int  # the noun that `it` is
    other: int
    at: int  # where the pronoun is about to be written
    right: int  # its token
    wrong: int


def questions(translator: Translator, pairs: Sequence[Pair]) -> list[Question]:
    return [found for pair in pairs if pronoun_of(pair) and (found := _question(translator, pair)) is not None]


def _question(translator: Translator, pair: Pair) -> Question | None:
    genders = {form: noun.gender for noun in lexicon().nouns.values() for form in noun.en}
    words = pair.source.split()
    nouns = [n for n, word in enumerate(words[: words.index("because")]) if word in genders]
    pronoun = pronoun_of(pair)
    source, target = translator.tokenizers.source.encode(pair.source), translator.tokenizers.target.encode(pair.target)
    pieces = translator.tokenizers.target.tokens(target)
    if len(source) != len(words) or len(nouns) != 2 or genders[words[nouns[0]]] == genders[words[nouns[1]]]:
        return None
    at = next(n for n in range(3, len(pieces)) if [p.strip("▁") for p in pieces[n - 3 : n]] == ["parce", "qu", "'"])
    by_name = {piece.strip("▁"): i for piece, i in zip(pieces, target)}
    right = by_name[str(pronoun)]
    wrong = _token(translator, "elle" if pronoun == "il" else "il", pieces[at].replace(str(pronoun), ""))
    gender = "m" if pronoun == "il" else "f"
    referent, other = sorted(nouns, key=lambda n: genders[words[n]] != gender)
    it = words.index("it", words.index("because"))
    return Question([*source, EOS], [SOS, *target], it, referent, other, at, right, wrong)


def _token(translator: Translator, word: str, before: str) -> int:
    return next(
        i for i in range(len(translator.tokenizers.target)) if translator.tokenizers.target.tokens([i])[0] == before + word
    )

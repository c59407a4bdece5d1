"""Cut English words down to their stems: Porter 1980, An algorithm for suffix stripping.

Published ROUGE scores of English are of stems, made by NLTK's edition of the algorithm. It differs from the paper in five places:
words of one or two letters stay, a dozen irregular words have stems of their own, `y` becomes `i` behind a consonant that is not
the first letter, `ties` and `died` keep an `e` in words of four letters, and step 2 has `bli`, `fulli` and `logi`.

A word is C?(VC){m}V?: groups of consonants C and of vowels V. A rule fires if what stands before its ending has a large enough m.
"""

from __future__ import annotations

import re
from functools import lru_cache

_STAY = ("sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed")
_CHANGE = "skies:sky dying:die lying:lie tying:tie innings:inning outings:outing cannings:canning"
IRREGULAR = {word: word for word in _STAY} | dict(pair.split(":") for pair in _CHANGE.split())
STEP_2 = """
    ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize ation:ate ator:ate
    alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble fulli:ful
"""
STEP_3 = "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:"
STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_plurals, _past, _final_y, _step_2, _step_3, _step_4, _final_e):
        word = step(word)
    return word


def _sounds(word: str) -> str:
    """Return a c for each consonant and a v for each vowel; y is a vowel behind a consonant."""
    found = ""
    for n, letter in enumerate(word):
        vowel = letter in "aeiou" or (letter == "y" and n > 0 and found[-1] == "c")
        found += "v" if vowel else "c"
    return found


def _measure(word: str) -> int:
    """Return m, how often a consonant follows a vowel."""
    return _sounds(word).count("vc")


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _sounds(word)[-1] == "c"


def _short(word: str) -> bool:
    """Return True if it ends consonant, vowel, consonant (not w, x, y), or is a vowel and a consonant."""
    sounds = _sounds(word)
    return (sounds.endswith("cvc") and word[-1] not in "wxy") or sounds == "vc"


def _plurals(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    for ending, other in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending):
            return word.removesuffix(ending) + other
    return word


def _past(word: str) -> str:
    """Remove ed and ing, and repair what is left: hopping, hop; hoping, hope."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    left = next((word.removesuffix(ending) for ending in ("ed", "ing") if word.endswith(ending)), word)
    if left == word or "v" not in _sounds(left):
        return word
    if re.search("(at|bl|iz)$", left):
        return left + "e"
    if _doubled(left):
        return left if left[-1] in "lsz" else left[:-1]
    return left + "e" if _measure(left) == 1 and _short(left) else left


def _final_y(word: str) -> str:
    left = word[:-1]
    return left + "i" if word.endswith("y") and len(left) > 1 and _sounds(left)[-1] == "c" else word


def _step_2(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _step_2(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replace(word, STEP_2)


def _step_3(word: str) -> str:
    return _replace(word, STEP_3)


def _replace(word: str, rules: str) -> str:
    """Apply the first rule whose ending the word has, if something with m > 0 stands before it."""
    for ending, _, other in (rule.partition(":") for rule in rules.split()):
        if word.endswith(ending):
            left = word.removesuffix(ending)
            return left + other if _measure(left) > 0 else word
    return word


def _step_4(word: str) -> str:
    for ending in STEP_4.split():
        if word.endswith(ending):
            left = word.removesuffix(ending)
            return left if _measure(left) > 1 and (ending != "ion" or left[-1:] in ("s", "t")) else word
    return word


def _final_e(word: str) -> str:
    left = word[:-1]
    if word.endswith("e") and (_measure(left) > 1 or (_measure(left) == 1 and not _short(left))):
        word = left
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word

"""A meaning said in French: agreement, the place of adjectives, *ne ... pas*, and then one pass for elisions.

Words are first laid out as if French never ran them together (*parce que il ne a pas*), and `_join` does the rest
(*parce qu'il n'a pas*), so that every elision and contraction is in one place.
"""

from __future__ import annotations

import unicodedata
from functools import cache

from tools.corpora.lexicon import lexicon
from tools.corpora.meaning import Clause, Degree, Phrase, Sentence, State, Subject, Tense

AVOIR = ("ai", "a", "avons", "ont")
ETRE: dict[Tense, tuple[str, str, str, str]] = {
    "present": ("suis", "est", "sommes", "sont"),
    "past": ("étais", "était", "étions", "étaient"),  # a past state lasts: the imperfect
    "future": ("serai", "sera", "serons", "seront"),
}
DEGREES: dict[Degree, str] = {"too": "trop", "very": "très"}
ELIDED = frozenset({"le", "la", "je", "ne", "de", "que"})
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


def say_french(sentence: Sentence) -> str:
    words = _clause(sentence.clause)
    if sentence.report:
        subject, report = sentence.report
        words = [*_subject(subject), report.present[subject.person], "que", *words]
    if reason := sentence.because():
        words += ["parce", "que", *_clause(reason)]
    return _join(words)


def _clause(clause: Clause) -> list[str]:
    subject, predicate = clause.subject, clause.predicate
    words = _subject(subject) + _verb(clause)
    if isinstance(predicate, State):
        degree = [DEGREES[predicate.degree]] if predicate.degree else []
        return [*words, *degree, predicate.adjective.agree(subject.gender, subject.plural)]
    if predicate.object:
        words += _phrase(predicate.object, denied=clause.negated)
    if predicate.recipient:
        words += ["à", *_phrase(predicate.recipient)]
    if predicate.place:
        preposition, phrase = predicate.place
        words += [*preposition.fr, *_phrase(phrase)]
    return words


def _verb(clause: Clause) -> list[str]:
    """The verb, wrapped in *ne ... pas* if denied; a participle after *avoir* agrees with no object that follows it."""
    person, predicate, tense = clause.subject.person, clause.predicate, clause.tense
    participle: list[str] = []
    if isinstance(predicate, State):
        finite = ETRE[tense][person]
    elif tense == "past":
        finite, participle = AVOIR[person], [predicate.verb.participle]
    else:
        finite = (predicate.verb.present if tense == "present" else predicate.verb.future)[person]
    return ["ne", finite, "pas", *participle] if clause.negated else [finite, *participle]


def _subject(subject: Subject) -> list[str]:
    return _phrase(subject) if isinstance(subject, Phrase) else [subject.fr]


def _phrase(phrase: Phrase, denied: bool = False) -> list[str]:
    words = [phrase.noun.fr[phrase.plural]]
    if adjective := phrase.adjective:
        form = adjective.agree(phrase.gender, phrase.plural)
        if adjective.before and phrase.gender == "m" and not phrase.plural and _starts_with_vowel(words[0]):
            form = adjective.vowel
        words.insert(0 if adjective.before else 1, form)
    owner = ["de", *_phrase(phrase.owner)] if phrase.owner else []
    return [_article(phrase, denied), *words, *owner]


def _article(phrase: Phrase, denied: bool) -> str:
    feminine = phrase.gender == "f"
    if phrase.definite or phrase.owner:
        return "les" if phrase.plural else ("la" if feminine else "le")
    adjective_first = phrase.adjective is not None and phrase.adjective.before
    if denied or (phrase.plural and adjective_first):  # pas de pomme; de belles pommes
        return "de"
    return "des" if phrase.plural else ("une" if feminine else "un")


def _join(words: list[str]) -> str:
    """Right to left, as a word leans on the next: de + le + arbre is de l'arbre, de + le + roi is du roi."""
    text, following = "", ""
    for word in reversed(words):
        if word in ELIDED and _starts_with_vowel(following):
            word = word[:-1] + "'"
            text = word + text
        elif (word, following) in CONTRACTED:
            word = CONTRACTED[word, following]
            text = word + text.removeprefix(following)
        else:
            text = f"{word} {text}" if text else word
        following = word
    return text


@cache
def _starts_with_vowel(word: str) -> bool:
    if not word or word in _aspirated():
        return False
    return unicodedata.normalize("NFD", word)[0] in "aeiouœh"


@cache
def _aspirated() -> frozenset[str]:
    return frozenset(form for noun in lexicon().nouns.values() if noun.aspirated for form in noun.fr)

"""A meaning said in English: do-support, contractions, *a* and *an*, the possessive *'s*."""

from __future__ import annotations

from tools.corpora.meaning import Clause, Person, Phrase, Sentence, State, Subject, Tense

BE: dict[Tense, tuple[str, str, str, str]] = {
    "present": ("am", "is", "are", "are"),
    "past": ("was", "was", "were", "were"),
}


def say_english(sentence: Sentence) -> str:
    words = _clause(sentence.clause)
    if sentence.report:
        subject, report = sentence.report
        words = [*_subject(subject), report.en[subject.person == 1], "that", *words]
    if reason := sentence.because():
        words += ["because", *_clause(reason)]
    return " ".join(words)


def _clause(clause: Clause) -> list[str]:
    words = _subject(clause.subject) + _verb(clause)
    predicate = clause.predicate
    if isinstance(predicate, State):
        return [*words, *([predicate.degree] if predicate.degree else []), predicate.adjective.en]
    if predicate.object:
        words += _phrase(predicate.object)
    if predicate.recipient:
        words += ["to", *_phrase(predicate.recipient)]
    if predicate.place:
        preposition, phrase = predicate.place
        words += [preposition.en, *_phrase(phrase)]
    return words


def _verb(clause: Clause) -> list[str]:
    """The finite verb with its helpers: English needs "do" to deny anything but "be" and "will"."""
    person, tense = clause.subject.person, clause.tense
    base, third, past = ("be", "", "") if isinstance(clause.predicate, State) else clause.predicate.verb.en
    if tense == "future":
        return [*_auxiliary("will", clause), base]
    if base == "be":
        return _auxiliary(BE[tense][person], clause)
    if clause.negated:
        return [*_auxiliary(_do(tense, person), clause), base]
    if tense == "past":
        return [past]
    return [third if person == 1 else base]


def _do(tense: Tense, person: Person) -> str:
    if tense == "past":
        return "did"
    return "does" if person == 1 else "do"


def _auxiliary(word: str, clause: Clause) -> list[str]:
    if not clause.negated:
        return [word]
    if clause.contracted and word != "am":  # "amn't" is no word of the written language
        return ["won't" if word == "will" else f"{word}n't"]
    return [word, "not"]


def _subject(subject: Subject) -> list[str]:
    return _phrase(subject) if isinstance(subject, Phrase) else [subject.en]


def _phrase(phrase: Phrase) -> list[str]:
    words = [phrase.noun.en[phrase.plural]]
    if phrase.adjective:
        words.insert(0, phrase.adjective.en)
    if phrase.owner:
        *before, owner = _phrase(phrase.owner)
        regular_plural = phrase.owner.plural and owner.endswith("s")
        return [*before, owner + ("'" if regular_plural else "'s"), *words]
    if phrase.definite:
        return ["the", *words]
    if phrase.plural:
        return words
    return ["an" if words[0][0] in "aeiou" else "a", *words]

"""The built-in corpus: splits that do not leak, and pronouns that only reading the whole sentence can tell."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import count, pairwise

import pytest

from regard.commands.demo import pronoun_of
from regard.data.sources import Pair
from tools.corpora import english_french as corpus
from tools.corpora.english_french import english_french, held_out, unseen
from tools.corpora.lexicon import Noun, lexicon

FINGERPRINT = "1412de6c9baefeaf61cdf050da50cb0471f14035df518e62cc06d6ac2168dcb3"
SIZES = {"train": 20_000, "valid": 500, "test": 1_000}
PAIRS = [pair for split in SIZES for pair in english_french(split)]
NOUNS, ADJECTIVES, FRAMES = lexicon().nouns, lexicon().adjectives, lexicon().frames


def test_the_corpus_is_the_one_recorded() -> None:
    lines = [f"{pair.source}\t{pair.target}\n" for pair in PAIRS]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == FINGERPRINT


def test_it_depends_on_no_hash_seed_and_no_global_random_state() -> None:
    program = (
        "import random, hashlib; random.seed(5); from tools.corpora.english_french import english_french as corpus\n"
        "lines = [f'{p.source}\\t{p.target}\\n' for s in ('train', 'valid', 'test') for p in corpus(s)]\n"
        "print(hashlib.sha256(''.join(lines).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == FINGERPRINT


def test_few_sentences_are_made_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, stream = count(), corpus._stream()
    monkeypatch.setattr(corpus, "_stream", lambda: (made for made, _ in zip(stream, numbers)))
    corpus._corpus.__wrapped__()
    assert sum(SIZES.values()) <= next(numbers) < 2 * sum(SIZES.values())


def test_sizes_and_the_share_of_pronoun_sentences() -> None:
    assert {split: len(english_french(split)) for split in SIZES} == SIZES
    share = {split: sum(pronoun_of(p) is not None for p in english_french(split)) / SIZES[split] for split in SIZES}
    assert share["train"] >= 0.2
    assert 0.25 <= share["test"] <= 0.4


def test_no_sentence_is_in_two_splits_or_twice_in_one() -> None:
    assert len({pair.source for pair in PAIRS}) == len(PAIRS)
    for side in (0, 1):
        train, valid, test = ({pair[side] for pair in english_french(split)} for split in SIZES)
        assert len(train | valid | test) == len(train) + len(valid) + len(test)


LECTURE = "the animal {} cross the street because it was too {}", "l'animal n'a pas traversé la rue parce qu'{}"


@pytest.mark.parametrize("negation", ["did not", "didn't"])
@pytest.mark.parametrize(("too", "reason"), [("tired", "il était trop fatigué"), ("wide", "elle était trop large")])
def test_the_lectures_sentences_are_asked_and_never_trained_on(negation: str, too: str, reason: str) -> None:
    pair = Pair(LECTURE[0].format(negation, too), LECTURE[1].format(reason))
    assert pair in english_french("test")
    assert unseen(pair)
    crossing = re.compile(r"\banimals? .*cross(es|ed)? .*\bstreets?\b")
    assert not [trained for trained in english_french("train") if crossing.search(trained.source)]


@pytest.mark.parametrize("word", [r"\S+", r"\w+'?"], ids=["by space", "by word"])
def test_every_word_of_valid_and_test_is_common_in_train(word: str) -> None:
    for side in (0, 1):
        counts = Counter(found for pair in english_french("train") for found in re.findall(word, pair[side]))
        asked = english_french("valid") + english_french("test")
        assert {w: counts[w] for pair in asked for w in re.findall(word, pair[side]) if counts[w] < 20} == {}


def test_the_vocabulary_is_small_and_sentences_are_short() -> None:
    english, french = (len({w for p in PAIRS for w in re.findall(r"[^\W']+'?", p[side])}) for side in (0, 1))
    assert 150 <= english <= 250
    assert 250 <= french <= 400
    assert {len(pair.source.split()) for pair in PAIRS} == set(range(3, 17))


def described(pair: Pair) -> set[tuple[str, str]]:
    """(adjective, noun) side by side in the English, read off the words alone."""
    nouns = {form: noun.name for noun in NOUNS.values() for form in noun.en}
    words = pair.source.split()
    return {(a, nouns[n]) for a, n in pairwise(words) if a in ADJECTIVES and n in nouns}


def test_held_out_combinations_are_in_test_and_never_in_train() -> None:
    trained = {combination for pair in english_french("train") for combination in described(pair)}
    asked = {combination for pair in english_french("test") for combination in described(pair)}
    assert not any(held_out(noun, adjective) for adjective, noun in trained)
    assert len(asked - trained) >= 40
    assert all(held_out(noun, adjective) for adjective, noun in asked - trained)
    assert all(unseen(pair) for pair in english_french("test") if described(pair) - trained)
    assert sum(map(unseen, english_french("test"))) == SIZES["test"] // 2
    assert not any(map(unseen, english_french("train")))


def read(pair: Pair) -> tuple[Noun, Noun, Noun]:
    """Agent, thing and referent, from the English words and the frames alone."""
    words = pair.source.split()
    agent, thing = (NOUNS[word] for word in words if word in NOUNS)
    [frame] = [frame for frame in FRAMES if any(set(verb.en) & set(words) for verb in frame.verbs)]
    fits_agent = words[-1] in [adjective.en for adjective in frame.agent_stops + frame.agent_helps]
    fits_thing = words[-1] in [adjective.en for adjective in frame.thing_stops + frame.thing_helps]
    assert fits_agent != fits_thing
    return agent, thing, agent if fits_agent else thing


@pytest.mark.parametrize("split", SIZES)
def test_the_pronoun_has_the_gender_of_what_it_refers_to_and_no_short_cut_finds_it(split: str) -> None:
    asked = [(pronoun, *read(pair)) for pair in english_french(split) if (pronoun := pronoun_of(pair))]
    assert all((pronoun == "elle") == (referent.gender == "f") for pronoun, _, _, referent in asked)
    total = len(asked)
    assert 0.44 <= sum(pronoun == "elle" for pronoun, *_ in asked) / total <= 0.56
    assert sum(agent.gender != thing.gender for _, agent, thing, _ in asked) / total >= 0.6
    always_the_agent = sum(agent.gender == referent.gender for _, agent, _, referent in asked) / total
    always_the_thing = sum(thing.gender == referent.gender for _, _, thing, referent in asked) / total
    assert max(always_the_agent, always_the_thing) <= 0.75


def test_frames_are_many_and_an_adjective_fits_one_side_only() -> None:
    assert len(FRAMES) >= 4
    for frame in FRAMES:
        things = {noun.gender for noun in lexicon().nouns_of(frame.verbs[0].objects)}
        assert things == {"m", "f"}
        assert not set(frame.agent_stops + frame.agent_helps) & set(frame.thing_stops + frame.thing_helps)

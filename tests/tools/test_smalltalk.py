"""The built-in small talk is decided: a reader with a memory, written here without its grammar, gives every reply."""

from __future__ import annotations

import re

import pytest

from tools.corpora.smalltalk import CHAT, SIZES, held_out, smalltalk

TOWN = {"quiet": "then i would like to see", "loud": "then i would rather not see", "large": "i would get lost in"}


def replied(said: str, known: dict[str, str]) -> str:
    """What is right to reply, by patterns; what is told is written down."""
    if found := re.fullmatch(r"(?:hi , i am|my name is) (\w+) \.|hello , (\w+) is my name \.", said):
        known["name"] = found[1] or found[2]
        return f"hello {known['name']} , nice to meet you ."
    if found := re.fullmatch(r"(?:i live in|my home is|i come from) (\w+) \.", said):
        known["town"] = found[1]
        return f"what is {found[1]} like ?"
    if found := re.fullmatch(r"it is (?:rather|very) (\w+) \.", said):
        return f"{TOWN[found[1]]} {known['town']} ."
    if found := re.fullmatch(r"i (?:have|keep) (\d) (\w+)(?: at home)? \.", said):
        known[found[2]] = found[1]
        return f"{found[1]} {found[2]} , {'that is a lot' if found[1] > '5' else 'how lovely'} ."
    if found := re.fullmatch(r"how many (\w+) do i have \?", said):
        count = known.get(found[1])
        return f"you have {count} {found[1]} ." if count else f"you have not told me of any {found[1]} ."
    if said in ("who am i ?", "do you remember my name ?", "what is my name ?"):
        return f"you are {known['name']} ." if "name" in known else "you have not told me your name ."
    if said in ("where do i live ?", "do you know my home ?"):
        return f"you live in {known['town']} ." if "town" in known else "you have not told me where you live ."
    if said in ("i have to go .", "goodbye ."):
        return f"goodbye {known['name']} !" if "name" in known else "goodbye , whoever you are !"
    return CHAT[said]


@pytest.mark.parametrize("split", SIZES)
def test_there_is_one_right_reply_to_every_turn(split: str) -> None:
    found = smalltalk(split)
    assert len(found) == SIZES[split]
    for turns in found:
        known: dict[str, str] = {}
        assert [replied(said, known) for said in turns[::2]] == list(turns[1::2])


def test_no_dialogue_is_in_two_splits() -> None:
    splits = [set(smalltalk(split)) for split in SIZES]
    assert sum(map(len, splits)) == len(set().union(*splits))


def test_training_never_tells_what_is_held_out_and_the_test_does() -> None:
    def told(turns: tuple[str, ...]) -> bool:
        known: dict[str, str] = {}
        for said in turns[::2]:
            replied(said, known)
        name, town = known.pop("name", ""), known.pop("town", "")
        return bool(name and town and held_out(name, town)) or any(held_out(n, animals) for animals, n in known.items())

    assert not any(map(told, smalltalk("train")))
    assert sum(map(told, smalltalk("test"))) == SIZES["test"] // 2


def test_the_last_turn_alone_does_not_decide() -> None:
    """The best that anybody can do who sees one turn: the most frequent reply to it."""
    heard: dict[str, dict[str, int]] = {}
    for turns in smalltalk("test"):
        for said, reply in zip(turns[::2], turns[1::2]):
            heard.setdefault(said, {}).setdefault(reply, 0)
            heard[said][reply] += 1
    total = sum(sum(replies.values()) for replies in heard.values())
    assert sum(max(replies.values()) for replies in heard.values()) / total < 0.7

"""Built-in small talk: one person tells of themselves and asks, the other replies. There is one right reply to every turn.

What was told must be remembered, over up to ten turns; what was not told must not be made up:

    hi , i am nora .                           hello nora , nice to meet you .
    i have 3 cats .                            3 cats , how lovely .
    where do i live ?                          you have not told me where you live .
    i live in oslo .                           what is oslo like ?
    it is rather quiet .                       then i would like to see oslo .
    i have to go .                             goodbye nora !

Who sees the last turn alone can know 62% of the test's replies; who sees all, each. The second speaker's replies alone are
decided (`data.replies = "second"`). One in ten of all (name, town) and (number, animal) is kept out of training: half of the
validation and test dialogues have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2015
SIZES = {"train": 3_000, "valid": 200, "test": 400}
STREAM = 6_000  # dialogues to draw, enough for these sizes
ONE_HELD_OUT_IN = 10
FEWEST, MOST = 3, 6  # replies in a dialogue

NAMES = [
    "ada",
    "ben",
    "carla",
    "david",
    "emma",
    "felix",
    "greta",
    "hugo",
    "ida",
    "jonas",
    "karin",
    "leo",
    "mona",
    "nora",
    "oscar",
    "paula",
    "rosa",
    "simon",
    "tara",
    "victor",
]
TOWNS = [
    "oslo",
    "paris",
    "rome",
    "lisbon",
    "vienna",
    "prague",
    "dublin",
    "athens",
    "berlin",
    "cairo",
    "lima",
    "quito",
    "seoul",
    "tokyo",
    "delhi",
    "kyoto",
]
ANIMALS = ["cats", "dogs", "birds", "horses", "goats", "ducks", "rabbits", "turtles"]
NUMBERS = tuple(map(str, range(2, 10)))
MANY = 6  # of animals
KINDS_OF_TOWN = {"quiet": "then i would like to see", "loud": "then i would rather not see", "large": "i would get lost in"}
CHAT = {
    "how are you ?": "i am fine , thank you .",
    "what is your name ?": "my name is robin .",
    "are you a machine ?": "yes , i am .",
    "do you sleep ?": "no , never .",
}
SILENT = 0.8  # of the questions about what was not told: they are not asked
NOT_TOLD = "you have not told me"


@dataclass
class Talk:
    """What has been said, and what of it is to be remembered."""

    draw: Draw
    turns: list[str] = field(default_factory=list)
    name: str = ""
    town: str = ""
    animals: str = ""
    number: str = ""

    def say(self, said: str, reply: str) -> None:
        self.turns += [said, reply]

    @property
    def new(self) -> bool:
        """Whether training never tells these together."""
        together = ((self.name, self.town), (self.number, self.animals))
        return any(one and other and held_out(one, other) for one, other in together)


def smalltalk(split: str) -> list[tuple[str, ...]]:
    """The dialogues of "train", "valid" or "test"; none is in two of them."""
    return _splits()[split]


def held_out(one: str, other: str) -> bool:
    return crc32(f"{one} {other}".encode()) % ONE_HELD_OUT_IN == 0


@cache
def _splits() -> dict[str, list[tuple[str, ...]]]:
    return shared_out(islice(_stream(), STREAM), SIZES)


def _stream() -> Iterator[tuple[tuple[str, ...], bool]]:
    """Without end and without repetition; and whether what a dialogue tells is new to training."""
    draw, told = Draw(SEED), set[tuple[str, ...]]()
    while True:
        talk, replies = Talk(draw), draw.pick(range(FEWEST, MOST + 1))
        while len(talk.turns) < 2 * replies - 2:
            draw.pick(MOVES)(talk)
        draw.pick((_leave, _who, _where, _how_many))(talk)
        turns = tuple(talk.turns[: 2 * MOST])
        if turns not in told:
            told.add(turns)
            yield turns, talk.new


def _introduce(talk: Talk) -> None:
    if not talk.name:
        talk.name = talk.draw.pick(NAMES)
        form = talk.draw.pick(("hi , i am {} .", "my name is {} .", "hello , {} is my name ."))
        talk.say(form.format(talk.name), f"hello {talk.name} , nice to meet you .")


def _live(talk: Talk) -> None:
    """Two turns: what the town is like is said without its name."""
    if not talk.town:
        talk.town, kind = talk.draw.pick(TOWNS), talk.draw.pick(tuple(KINDS_OF_TOWN))
        form = talk.draw.pick(("i live in {} .", "my home is {} .", "i come from {} ."))
        talk.say(form.format(talk.town), f"what is {talk.town} like ?")
        talk.say(talk.draw.pick(("it is rather {} .", "it is very {} .")).format(kind), f"{KINDS_OF_TOWN[kind]} {talk.town} .")


def _keep(talk: Talk) -> None:
    if not talk.animals:
        talk.animals, talk.number = talk.draw.pick(ANIMALS), talk.draw.pick(NUMBERS)
        form = talk.draw.pick(("i have {} {} .", "i keep {} {} at home ."))
        praise = "that is a lot" if int(talk.number) >= MANY else "how lovely"
        talk.say(form.format(talk.number, talk.animals), f"{talk.number} {talk.animals} , {praise} .")


def _who(talk: Talk) -> None:
    if not talk.name and talk.draw.chance(SILENT):
        return
    said = talk.draw.pick(("who am i ?", "do you remember my name ?", "what is my name ?"))
    talk.say(said, f"you are {talk.name} ." if talk.name else f"{NOT_TOLD} your name .")


def _where(talk: Talk) -> None:
    if not talk.town and talk.draw.chance(SILENT):
        return
    said = talk.draw.pick(("where do i live ?", "do you know my home ?"))
    talk.say(said, f"you live in {talk.town} ." if talk.town else f"{NOT_TOLD} where you live .")


def _how_many(talk: Talk) -> None:
    if not talk.animals and talk.draw.chance(SILENT):
        return
    asked = talk.animals if talk.animals and talk.draw.chance(0.8) else talk.draw.pick(ANIMALS)
    known = asked == talk.animals
    talk.say(f"how many {asked} do i have ?", f"you have {talk.number} {asked} ." if known else f"{NOT_TOLD} of any {asked} .")


def _chat(talk: Talk) -> None:
    said = talk.draw.pick(tuple(CHAT))
    talk.say(said, CHAT[said])


def _leave(talk: Talk) -> None:
    said = talk.draw.pick(("i have to go .", "goodbye ."))
    talk.say(said, f"goodbye {talk.name} !" if talk.name else "goodbye , whoever you are !")


MOVES: tuple[Callable[[Talk], None], ...] = (
    *(_introduce, _introduce, _live, _live, _keep, _keep),
    *(_who, _where, _how_many, _how_many, _chat),
)

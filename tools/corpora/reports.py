"""Built-in reports of a day at a place, each with its one-sentence summary: what still does not work there, and why.

A report tells what happened to three or four things. All but one of them work again by its end, which is said in many ways, in
the same sentence or in the next. The summary is decided by rule, but not by its place in the report: each thing that works again
has a fault and a cause of its own, and one report in eight ends well:

    report from the harbour , tuesday . the crane stopped at noon , since a cable had broken ; it was repaired within the hour .
    in the morning the pump leaked : a seal was worn , and nobody could repair it . [...]
    ->  at the harbour the pump still leaks because of a worn seal .

One in ten of all (thing, cause) is kept out of training: half of the validation and test reports are about one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2019
SIZES = {"train": 4_000, "valid": 300, "test": 600}
STREAM = 16_000  # reports to draw, enough for these sizes
ONE_HELD_OUT_IN = 10
ALL_WELL = 0.125  # of the reports

PLACES = ("harbour", "mill", "station", "dairy", "mine", "brewery", "quarry", "farm", "bakery", "foundry", "airfield", "laundry")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
WHEN = ("in the morning", "at noon", "in the afternoon", "at night", "after lunch", "before dawn", "")


class Fault(NamedTuple):
    """What a thing does when it is broken: in the past, and now."""

    past: str
    now: str


class Cause(NamedTuple):
    """Why, as a clause and as a phrase."""

    clause: str
    phrase: str


STOPS, LEAKS, JAMS = Fault("stopped", "does not run"), Fault("leaked", "leaks"), Fault("jammed", "jams")
SHAKES, SMOKES = Fault("shook", "shakes"), Fault("smoked", "smokes")
THINGS: dict[str, tuple[Fault, ...]] = {
    "crane": (STOPS, JAMS, SHAKES),
    "pump": (STOPS, LEAKS, SHAKES),
    "gate": (JAMS, STOPS),
    "oven": (SMOKES, STOPS),
    "boiler": (LEAKS, SMOKES, STOPS),
    "engine": (STOPS, SMOKES, SHAKES, LEAKS),
    "belt": (JAMS, STOPS),
    "lift": (JAMS, STOPS, SHAKES),
    "valve": (LEAKS, JAMS),
    "fan": (STOPS, SHAKES, SMOKES),
    "press": (JAMS, SHAKES),
    "tank": (LEAKS,),
}
CAUSES = (
    Cause("a seal was worn", "a worn seal"),
    Cause("a cable had broken", "a broken cable"),
    Cause("a bolt was loose", "a loose bolt"),
    Cause("a filter was dirty", "a dirty filter"),
    Cause("a bearing was dry", "a dry bearing"),
    Cause("a fuse had blown", "a blown fuse"),
    Cause("a wheel was bent", "a bent wheel"),
    Cause("a pipe was frozen", "a frozen pipe"),
    Cause("a chain had rusted", "a rusty chain"),
    Cause("a switch was wet", "a wet switch"),
)
HAPPENED = (
    "{when} the {thing} {past} because {clause}",
    "the {thing} {past} {when} , since {clause}",
    "{when} the {thing} {past} : {clause}",
    "{clause} , and so the {thing} {past} {when}",
)
REPAIRED = (
    "{said} ; it was repaired within the hour .",
    "{said} , but it runs again .",
    "{said} . the {thing} has been mended since .",
    "{said} . a spare part was found , and the {thing} works .",
    "{said} , which took an hour to put right .",
)
OPEN = (
    "{said} , and nobody could repair it .",
    "{said} . it is still not repaired .",
    "{said} . the {thing} has not been mended so far .",
    "{said} . no spare part was found , so the {thing} waits .",
    "{said} , which could not be put right .",
)
HEADS = ("report from the {place} , {day} .", "{day} , {place} .", "this is the report of {day} from the {place} .")
SUMMARY = "at the {place} the {thing} still {now} because of {phrase} ."
WELL = "at the {place} everything works again ."


class Report(NamedTuple):
    text: str
    summary: str
    rivals: tuple[str, ...]  # summaries of what works again


def reports(split: str) -> list[Report]:
    """Return all rows of train, valid or test, in the order of the corpus."""
    return _splits()[split]


@cache
def _splits() -> dict[str, list[Report]]:
    return shared_out(_stream(), SIZES)


def held_out(thing: str, cause: Cause) -> bool:
    """Is this combination kept out of training?"""
    return crc32(f"{thing} {cause.phrase}".encode()) % ONE_HELD_OUT_IN == 0


def _stream() -> Iterator[tuple[Report, bool]]:
    """Yield different reports, each with whether its summary is about a combination that is held out."""
    draw, seen = Draw(SEED), set[str]()
    for report, new in islice(_reports(draw), STREAM):
        if report.text not in seen:
            seen.add(report.text)
            yield report, new


def _reports(draw: Draw) -> Iterator[tuple[Report, bool]]:
    while True:
        place, things, causes = draw.pick(PLACES), list(THINGS), list(CAUSES)
        count = draw.pick((3, 3, 4))
        events = [(_taken(draw, things), _taken(draw, causes)) for _ in range(count)]
        faults = [draw.pick(THINGS[thing]) for thing, _ in events]
        unresolved = None if draw.chance(ALL_WELL) else int(draw.pick(range(count)))
        others = [event for n, event in enumerate(events) if n != unresolved]
        if any(held_out(*event) for event in others):
            continue  # what is held out is asked for, or not met at all
        said = [_said(draw, *event, fault, n == unresolved) for n, (event, fault) in enumerate(zip(events, faults))]
        head = draw.pick(HEADS).format(place=place, day=draw.pick(DAYS))
        summaries = [
            SUMMARY.format(place=place, thing=thing, now=fault.now, phrase=cause.phrase)
            for (thing, cause), fault in zip(events, faults)
        ]
        right = WELL.format(place=place) if unresolved is None else summaries[unresolved]
        rivals = tuple(summary for summary in summaries if summary != right)
        yield Report(" ".join([head, *said]), right, rivals), unresolved is not None and held_out(*events[unresolved])


def _said(draw: Draw, thing: str, cause: Cause, fault: Fault, unresolved: bool) -> str:
    happened = draw.pick(HAPPENED).format(when=draw.pick(WHEN), thing=thing, past=fault.past, clause=cause.clause)
    said = draw.pick(OPEN if unresolved else REPAIRED).format(said=happened, thing=thing)
    return " ".join(said.split())


def _taken(draw: Draw, items: list[Any]) -> Any:
    """Draw an item and remove it."""
    item = draw.pick(items)
    items.remove(item)
    return item

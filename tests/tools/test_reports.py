"""The built-in reports: a second reader finds every summary by rule, rivals are wrong, and nothing leaks into training."""

from __future__ import annotations

import re

import pytest

from regard.metrics.rouge import corpus_rouge
from tools.corpora.reports import CAUSES, PLACES, SIZES, THINGS, held_out, reports

SPLITS = tuple(SIZES)
BROKEN = re.compile(
    "nobody could repair it|still not repaired|has not been mended so far|no spare part was found|could not be put right"
)


def by_rule(text: str) -> str:
    """Read a report as a person would: the thing before the first words that say it does not work."""
    place = next(word for word in re.findall(r"[a-z]+", text) if word in PLACES)
    found = BROKEN.search(text)
    if found is None:
        return f"at the {place} everything works again ."
    before = text[: found.start()]
    thing = max(THINGS, key=lambda thing: before.rfind(f"the {thing} "))
    now = next(fault.now for fault in THINGS[thing] if f"the {thing} {fault.past}" in before)
    cause = max(CAUSES, key=lambda cause: before.rfind(cause.clause))
    return f"at the {place} the {thing} still {now} because of {cause.phrase} ."


@pytest.mark.parametrize("split", SPLITS)
def test_a_second_reader_agrees_with_every_summary(split: str) -> None:
    found = reports(split)
    assert len(found) == SIZES[split]
    assert [(report.text, report.summary) for report in found] == [(report.text, by_rule(report.text)) for report in found]


@pytest.mark.parametrize("split", SPLITS)
def test_rivals_are_other_sentences(split: str) -> None:
    for report in reports(split):
        assert len(report.rivals) >= 2
        assert report.summary not in report.rivals
        assert len({report.summary, *report.rivals}) == 1 + len(report.rivals)


def test_no_report_is_in_two_splits_and_what_is_held_out_is_new() -> None:
    texts = [report.text for split in SPLITS for report in reports(split)]
    assert len(set(texts)) == len(texts)
    new = [(thing, cause) for thing in THINGS for cause in CAUSES if held_out(thing, cause)]
    assert 5 <= len(new) <= 25

    def about(split: str) -> int:
        return sum(
            any(f"the {thing} still" in report.summary and cause.phrase in report.summary for thing, cause in new)
            for report in reports(split)
        )

    assert about("train") == 0
    assert about("test") == SIZES["test"] // 2


def test_the_first_sentence_and_a_rival_score_far_below() -> None:
    """What the guide says beside the recipe's score."""
    test = reports("test")
    references = [[report.summary] for report in test]
    lead = corpus_rouge([" ".join(report.text.split(" . ")[1:2]) for report in test], references)
    rival = corpus_rouge([report.rivals[0] for report in test], references)
    assert lead.rougeL < 40
    assert rival.rougeL < 70

"""A sparse pattern that leaves nothing out of short texts: said wherever somebody could take it for another model than `full`."""

from __future__ import annotations

from typing import Any

from regard.families.sizes import Bodies, depth
from regard.model.mixers import CONVOLUTION
from regard.model.patterns.parse import parse_visibility
from regard.model.patterns.whole import LONGEST, whole_up_to
from regard.model.visibility import causal, full
from regard.tasks.task import Answers
from regard.tasks.unknown import tokenizer_of

MARKS = 2  # around a text


def seen_whole(config: Any) -> int | None:
    """The most tokens of a text in which this model's pattern leaves out nothing; None where it is no pattern that could."""
    if not isinstance(config, Bodies) or config.mixer == CONVOLUTION:
        return None
    pattern = parse_visibility(config.visibility)
    readers, writers = depth(config)
    if pattern == full or (pattern == causal and not readers):
        return None
    sides = [whole_up_to(pattern)] if readers else []
    return min([*sides, *([whole_up_to(pattern, back=True)] if writers else [])])


def told_whole(config: Any) -> str | None:
    """For people who choose a pattern."""
    if (most := seen_whole(config)) is None or most < 2:
        return None
    least = "at least " if most == LONGEST else ""
    return f"{config.visibility} leaves out nothing of a text of up to {least}{most:,} tokens: there it is the same as full"


def told_of_text(answers: Answers, text: str) -> str | None:
    """For people who look at one text."""
    config = getattr(getattr(answers.model, "body", answers.model), "config", None)
    most, tokenizer = seen_whole(config), tokenizer_of(answers)
    if config is None or most is None or tokenizer is None or len(tokenizer.encode(text)) + MARKS > most:
        return None
    return f"model.visibility={config.visibility} leaves out nothing of this text, so what is shown is that of full attention."

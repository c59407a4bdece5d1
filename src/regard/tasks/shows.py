"""Every way of looking that `regard lens --show` knows, by its name, and how one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.errors import UserError, nearest
from regard.lens.shown import Shown, check_suffix, save
from regard.tasks.causes import CAUSES
from regard.tasks.lengths import LONGEST_TURN, check_length
from regard.tasks.mapping import MAPPED
from regard.tasks.observing import OBSERVED
from regard.tasks.outputs import check_place
from regard.tasks.replier import as_writer
from regard.tasks.run import aside
from regard.tasks.show import Asked, Show
from regard.tasks.table import open_run
from regard.tasks.unknown import telling_unknown
from regard.tasks.whole import told_of_text

SHOWS: dict[str, Show] = {**OBSERVED, **CAUSES, **MAPPED}


def show(name: str, asked: Asked, out: Path | None) -> Iterator[str]:
    """The lines of a view, and its picture in a file."""
    if out is not None:
        check_suffix(out)
        check_place(out, "--out")
    shown = computed(name, asked)
    yield from shown.lines()
    if out is not None:
        save(shown, out)
        yield f"drawn: {out}"


def computed(name: str, asked: Asked) -> Shown:
    """Checks first: nobody should wait for a model to hear of a wrong name."""
    if name not in SHOWS:
        raise UserError(f"--show {name} is not a way of looking{nearest(name, SHOWS)}")
    SHOWS[name].check(name, asked)
    if asked.text is not None and not asked.text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    check_length(asked.text or "", "the text", LONGEST_TURN)
    answers = as_writer(open_run(asked.run, asked.device, asked.settings))
    with telling_unknown(answers):
        found = SHOWS[name].compute(answers, asked)
    if asked.text is not None and (whole := told_of_text(answers, asked.text)):
        aside(whole)
    return found

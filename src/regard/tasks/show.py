"""What `regard lens --show` is made of: a question that was typed, and a way of looking that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from regard.errors import UserError
from regard.lens.shown import Shown
from regard.lens.subject import Subject
from regard.tasks.subject import subject_of
from regard.tasks.task import Answers


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was typed beside the name of the view. None, or False, where nothing was."""

    run: str
    device: str | None = None
    settings: tuple[str, ...] = ()  # of the run, such as decode.beam=8
    text: str | None = None
    target: str | None = None  # what the model is scored on
    hypothesis: int | None = None  # of its own outputs, the best is 0
    data: Path | None = None
    layer: int | None = None
    head: int | None = None
    part: str | None = None  # cross, decoder or encoder
    words: bool = False  # pieces of a word are taken together
    values: bool = False  # weights times the length of what they bring
    specials: str | None = None  # keep, hide or renormalise

    def subject(self, answers: Answers) -> Subject:
        assert self.text is not None
        return subject_of(answers, self.text, self.target, self.hypothesis)


@dataclass(frozen=True, kw_only=True)
class Show:
    """A way of looking: what it needs and what it takes, by the names of `Asked`, and what it makes of them."""

    help: str  # one line
    compute: Callable[[Answers, Asked], Shown]
    needs: tuple[str, ...] = ("text",)
    takes: tuple[str, ...] = ("target", "hypothesis")

    def check(self, name: str, asked: Asked) -> None:
        """Before a model is loaded: is all there that is needed, and nothing else?"""
        for need in self.needs:
            if getattr(asked, need) in (None, False):
                missing = "a text to look into" if need == "text" else f"--{need} {need.upper()}"
                raise UserError(f"--show {name} needs {missing}: {self.help}.")
        for field in fields(asked):
            given = getattr(asked, field.name)
            if field.name in ("run", "device", "settings", *self.needs, *self.takes) or given in (None, False):
                continue
            option = f"the text {given[:40]!r}" if field.name == "text" else f"--{field.name}"
            taken = ", ".join(f"--{taken}" for taken in (*self.needs, *self.takes) if taken != "text")
            alone = "a text alone" if "text" in self.needs else "no text"
            raise UserError(f"{option} is not for --show {name}, which takes {taken or alone}; leave it out.")

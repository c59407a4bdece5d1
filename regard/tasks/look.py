"""`regard lens`: what each word a model wrote attended to, as lines for the terminal and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.errors import UserError, nearest
from regard.lens import picture
from regard.tasks.outputs import check_place
from regard.tasks.table import open_run
from regard.tasks.translator import Translator
from regard.tasks.writer import Writer

PARTS = ("cross", "decoder", "encoder")


def look(run: str, text: str, part: str | None, out: Path | None, device: str | None) -> Iterator[str]:
    """Checks first: nobody should wait for a model to hear that a file's name is wrong."""
    if part is not None and part not in PARTS:
        raise UserError(f"--part {part} is not a part of the model{nearest(part, PARTS)}")
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    if out is not None:
        picture.check_suffix(out)
        check_place(out, "--out")
    answers = open_run(run, device)
    if not isinstance(answers, (Translator, Writer)):
        raise UserError(
            f"{run} does not write, and lens draws what written words attended to; give a translator or a language model."
        )
    written, alignment = answers.attention(text, part) if part else answers.attention(text)
    yield written
    yield picture.text(alignment)
    if out is not None:
        picture.save(alignment, out)
        yield f"drawn: {out}"

"""`regard score`: how likely a language model finds a text, or which of several answers it finds likeliest.

a text, a folder, a pattern, hf:NAME    perplexity and bits per byte, of all or (`--each`) of every document
.jsonl with "options"                   {"context": "...", "options": ["...", "..."], "answer": 0} on each line: the likeliest
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.core.errors import UserError, nearest
from regard.core.terminal import printable
from regard.data.sources.files import numbered_lines
from regard.data.sources.text import documents, files
from regard.metrics.likelihood import SCALES, Scale
from regard.runs.protocols import Scores
from regard.tasks.registry import open_run

SHOWN = 60  # characters of a document


def score(
    run: str, what: str, device: str | None, settings: list[str], *, each: bool, scale: str, as_json: bool
) -> Iterator[str]:
    if scale not in SCALES:
        raise UserError(f"--by {scale} is not a way to compare answers{nearest(scale, SCALES)}")
    files(what)  # refuses what is not there
    writer = open_run(run, device, settings)
    if not isinstance(writer, Scores):
        raise UserError(
            f"{run} is no language model, so it has no likelihood of texts; give a run of task language_model, such as runs/gpt."
        )
    if _questions(what):
        yield from _choices(writer, Path(what), scale, as_json)
    elif each:
        yield from _each(writer, what, as_json)
    else:
        found = writer.score(list(documents((what,))))
        yield from [json.dumps(found.as_dict())] if as_json else found.lines()


def _questions(what: str) -> bool:
    """Does its first line ask for a choice?"""
    if not what.endswith((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")):
        return False
    _, line = next(iter(numbered_lines(Path(what))))
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and "options" in record


def _each(writer: Scores, what: str, as_json: bool) -> Iterator[str]:
    for text in documents((what,)):
        found = writer.score([text])
        if as_json:
            yield json.dumps({"text": text, **found.as_dict()}, ensure_ascii=False)
        else:
            shown = " ".join(text.split())
            shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
            yield f"{found.perplexity:>12,.2f}  {found.bits_per_byte:>8.4f}  {shown}"


def _choices(writer: Scores, path: Path, scale: Scale, as_json: bool) -> Iterator[str]:
    right = answered = 0
    for number, line in numbered_lines(path):
        question = _question(line, f"{path}, line {number}")
        found = writer.choose(question["context"], question["options"])
        best, answer = found.best(scale), question.get("answer")
        answered += answer is not None
        right += best == answer
        if as_json:
            yield json.dumps({"best": best, "option": question["options"][best], "answer": answer, "scores": found.as_dict()})
        else:
            yield f"{best}\t{printable(question['options'][best])}"
    if answered:
        share = right / answered
        yield json.dumps({"accuracy": share, "of": answered}) if as_json else f"{share:.1%} of {answered:,} right"


def _question(line: str, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"{place}: this is not JSON ({error}). Write one whole object on each line.") from None
    options, context = (record.get("options"), record.get("context", "")) if isinstance(record, dict) else (None, "")
    good = isinstance(options, list) and len(options) > 1 and all(isinstance(option, str) and option for option in options)
    if not isinstance(options, list) or not good or not isinstance(context, str):
        raise UserError(f'{place}: write lines like {{"context": "The sky is", "options": ["blue", "a fish"], "answer": 0}}.')
    answer = record.get("answer")
    if answer is not None and not (isinstance(answer, int) and 0 <= answer < len(options)):
        raise UserError(f"{place}: answer is {answer!r}, but the {len(options)} options are numbered from 0.")
    return record

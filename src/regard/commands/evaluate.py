"""`regard evaluate`: a run, a test set and the scores; and `regard score`: how likely a language model finds a text or an answer.

All that can be refused is refused before the model is loaded. What `score` takes:

a text, a folder, a pattern, hf:NAME    perplexity and bits per byte, of all or (`--each`) of every document
.jsonl with "options"                   {"context": "...", "options": ["...", "..."], "answer": 0} on each line: the likeliest
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.atomic import check_place, partial_file
from regard.core.errors import UserError, nearest
from regard.core.files import write_whole
from regard.core.terminal import printable
from regard.data.config import is_vector_file
from regard.data.sources.files import numbered_lines
from regard.data.sources.text import documents, files
from regard.metrics.likelihood import SCALES, Scale
from regard.runs.folder import Run, choose_device
from regard.runs.protocols import DrawnResult, Result, Scores
from regard.runs.task import TASKS
from regard.tasks.predictor import with_plugin_metrics
from regard.tasks.registry import open_run
from regard.tasks.word_vectors.predict import WordVectorModel, file_recipe


@dataclass(frozen=True)
class Scored:
    run: Path
    weights: str  # the name of the checkpoint; empty for a file of word vectors
    result: Result

    def lines(self) -> list[str]:
        return [*self.result.lines(), *([f"weights    {self.weights}"] if self.weights else [])]

    def as_dict(self) -> dict[str, Any]:
        return {"run": str(self.run), **({"weights": self.weights} if self.weights else {}), **self.result.as_dict()}


def score_run(folder: Path, settings: Sequence[str], device: str | None, output: Path | None, weights: str = "") -> Scored:
    """Settings may choose another test set and another search, `weights` another checkpoint than the one that is used otherwise.

    `output` gets what the model said, a line each, or a picture where the task draws its scores.
    """
    of_file = is_vector_file(folder)
    if of_file and weights:
        raise UserError(f"--weights {weights} is for a run, and {folder} is a file of word vectors; leave it out.")
    recipe = file_recipe(folder, settings) if of_file else Run.open(folder).recipe_with(settings)
    where = choose_device(device)
    task = TASKS[recipe.task.name]
    if output is not None:
        check_place(output, "--output")
        if task.draws_scores and output.suffix.lower() != ".png":
            raise UserError(f"--output {output}: scores of task {task.name} are drawn as .png; give such a name.")
        if not task.has_outputs and not task.draws_scores:
            raise UserError(
                f"--output {output}: task {recipe.task.name} is scored without outputs to write; leave the option out."
            )
    if not recipe.data.test and not getattr(recipe.data, "by_time", False):
        raise UserError(f"there is nothing to score: the run has no test set; give data.test=FILE{task.test_hint}.")
    test = task.read_test(recipe)
    used = "" if of_file else Run.open(folder, weights).weights().path.name
    answers = WordVectorModel.of_file(folder, settings) if of_file else task.open(Run.open(folder, used), recipe, where)
    found = answers.evaluate(test)
    result = with_plugin_metrics(found, test, task.name)
    if output is not None and isinstance(found, DrawnResult) and found.draw is not None:
        write_whole(output, found.draw())
    elif output is not None:
        with partial_file(output, "--output") as file:
            file.writelines(f"{text}\n" for text in result.outputs)
    return Scored(folder, used, result)


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

"""`regard evaluate`: a run, a test set and the scores. All that can be refused is refused before the model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.evaluate.bleu import Scores
from regard.tasks.outputs import check_place, growing
from regard.tasks.run import Run, choose_device
from regard.tasks.translate import evaluate, read_test
from regard.tasks.translator import Translator


@dataclass(frozen=True)
class Scored:
    run: Path
    sentences: int
    scores: Scores

    def as_dict(self) -> dict[str, Any]:
        return {"run": str(self.run), "sentences": self.sentences, **self.scores.as_dict()}


def score_run(folder: Path, settings: Sequence[str], device: str | None, output: Path | None) -> Scored:
    """Settings may choose another test set and another search; `output` gets the translations, a line each."""
    run = Run.open(folder)
    recipe, where = run.recipe_with(settings), choose_device(device)
    if output is not None:
        check_place(output, "--output")
    pairs = read_test(recipe)
    scores, outputs = evaluate(Translator.of(run, recipe, where), pairs)
    if output is not None:
        with growing(output, "--output") as file:
            file.writelines(f"{text}\n" for text in outputs)
    return Scored(folder, len(pairs), scores)

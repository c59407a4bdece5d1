"""BLEU and chrF of a corpus by sacrebleu, with the signatures that make them comparable (Post 2018); exact match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from regard.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of a corpus, all from 0 to 100."""

    sentences: int
    bleu: float
    bleu_signature: str
    bleu_lowercase: float
    bleu_lowercase_signature: str
    chrf: float
    chrf_signature: str
    exact: float  # percent of outputs equal to their reference, outer spaces aside

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        return [
            f"BLEU            {self.bleu:6.2f}  {self.bleu_signature}",
            f"BLEU lowercase  {self.bleu_lowercase:6.2f}  {self.bleu_lowercase_signature}",
            f"chrF            {self.chrf:6.2f}  {self.chrf_signature}",
            f"exact match     {self.exact:6.2f}  % of {self.sentences} sentences",
        ]

    def as_dict(self) -> dict[str, float | int | str]:
        """Return the scores as JSON values."""
        return asdict(self)


def corpus_scores(outputs: Sequence[str], references: Sequence[str | Sequence[str]], lowercase: bool = False) -> Scores:
    """Return the scores of outputs; BLEU tokenises by 13a, so both sides must be plain, detokenised text.

    A reference is a text, or several of which any may be met.

    `lowercase` ignores case in all scores; `bleu_lowercase` always does.
    """
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs came with {len(references)} references; give references for every output.")
    if not outputs:
        raise UserError("There are no sentences to score; give at least one output and its reference.")
    from sacrebleu.metrics import CHRF  # imported here and below: prediction does not need it

    several = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    streams = [
        list(stream) for stream in zip_longest(*several)
    ]  # the first reference of each, the second ones, ..., None where none is
    bleu, bleu_signature = _bleu(outputs, streams, lowercase)
    bleu_lowercase, bleu_lowercase_signature = _bleu(outputs, streams, lowercase=True)
    chrf = CHRF(lowercase=lowercase)
    return Scores(
        sentences=len(outputs),
        bleu=bleu,
        bleu_signature=bleu_signature,
        bleu_lowercase=bleu_lowercase,
        bleu_lowercase_signature=bleu_lowercase_signature,
        chrf=chrf.corpus_score(outputs, streams).score,
        chrf_signature=str(chrf.get_signature()),
        exact=_exact(outputs, several, lowercase),
    )


def _bleu(outputs: Sequence[str], streams: list[Any], lowercase: bool) -> tuple[float, str]:
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=lowercase, force=True)  # force: no warning about text that looks tokenised
    score = metric.corpus_score(outputs, streams).score
    return score, str(metric.get_signature())


def _exact(outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool) -> float:
    def plain(text: str) -> str:
        return text.strip().lower() if lowercase else text.strip()

    return 100 * sum(plain(output) in map(plain, texts) for output, texts in zip(outputs, references)) / len(outputs)

"""BLEU and chrF of a corpus by sacrebleu, with the signatures that make them comparable (Post 2018); exact match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

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


def corpus_scores(outputs: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Scores:
    """Return the scores of outputs, each with one reference; BLEU tokenises by 13a, so both must be plain, detokenised text.

    `lowercase` ignores case in all scores; `bleu_lowercase` always does.
    """
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs came with {len(references)} references; give exactly one reference per output.")
    if not outputs:
        raise UserError("There are no sentences to score; give at least one output and its reference.")
    from sacrebleu.metrics import CHRF  # imported here and below: prediction does not need it

    bleu, bleu_signature = _bleu(outputs, references, lowercase)
    bleu_lowercase, bleu_lowercase_signature = _bleu(outputs, references, lowercase=True)
    chrf = CHRF(lowercase=lowercase)
    return Scores(
        sentences=len(outputs),
        bleu=bleu,
        bleu_signature=bleu_signature,
        bleu_lowercase=bleu_lowercase,
        bleu_lowercase_signature=bleu_lowercase_signature,
        chrf=chrf.corpus_score(outputs, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        exact=_exact(outputs, references, lowercase),
    )


def _bleu(outputs: Sequence[str], references: Sequence[str], lowercase: bool) -> tuple[float, str]:
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=lowercase, force=True)  # force: no warning about text that looks tokenised
    score = metric.corpus_score(outputs, [references]).score
    return score, str(metric.get_signature())


def _exact(outputs: Sequence[str], references: Sequence[str], lowercase: bool) -> float:
    pairs = [(a.strip(), b.strip()) for a, b in zip(outputs, references)]
    equal = sum(a.lower() == b.lower() if lowercase else a == b for a, b in pairs)
    return 100 * equal / len(pairs)

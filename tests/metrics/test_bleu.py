"""The figures are those of the sacrebleu command line, to the last digit it prints."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.metrics.bleu import corpus_scores

TEXT = "The animal didn't cross the street , because it's too tired ( or wide ) : 3.5 m of the U.S. Straße — at Café X !"
WORDS = TEXT.split()


def noisy_corpus(sentences: int) -> tuple[list[str], list[str]]:
    dice = random.Random(7)
    references = [" ".join(dice.choices(WORDS, k=dice.randint(1, 18))) for _ in range(sentences)]
    outputs = []
    for reference in references:
        words = [dice.choice(WORDS) if dice.random() < 0.15 else word for word in reference.split()]
        words = [word for word in words if dice.random() > 0.05]
        text = " ".join(words)
        outputs.append(dice.choice([reference, text, text, text.lower(), text.upper()]))
    return outputs, references


def by_command_line(folder: Path, outputs: list[str], references: list[str], *options: str) -> dict[str, dict[str, str]]:
    for name, lines in (("outputs", outputs), ("references", references)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", "outputs", "-m", "bleu", "chrf"]
    command += ["--format", "json", "--width", "6", *options]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {metric["name"]: metric for metric in json.loads(answer.stdout)}


def test_equals_the_command_line(tmp_path: Path) -> None:
    outputs, references = noisy_corpus(200)
    scores = corpus_scores(outputs, references)
    told = by_command_line(tmp_path, outputs, references)
    told_lower = by_command_line(tmp_path, outputs, references, "-lc", "--chrf-lowercase")
    assert 20 < scores.bleu < scores.bleu_lowercase < 95
    assert scores.bleu == pytest.approx(float(told["BLEU"]["score"]), abs=1e-6)
    assert scores.chrf == pytest.approx(float(told["chrF2"]["score"]), abs=1e-6)
    assert scores.bleu_lowercase == pytest.approx(float(told_lower["BLEU"]["score"]), abs=1e-6)
    assert scores.bleu_signature == told["BLEU"]["signature"]
    assert scores.chrf_signature == told["chrF2"]["signature"]
    assert scores.bleu_lowercase_signature == told_lower["BLEU"]["signature"]
    blind = corpus_scores(outputs, references, lowercase=True)
    assert blind.bleu == scores.bleu_lowercase
    assert blind.chrf == pytest.approx(float(told_lower["chrF2"]["score"]), abs=1e-6)


def test_exact_match_is_a_percentage() -> None:
    outputs, references = ["a b", "A b", "c ", ""], ["a b", "a b", "c", "d"]
    assert corpus_scores(outputs, references).exact == 50
    assert corpus_scores(outputs, references, lowercase=True).exact == 75


def test_several_references_equal_the_command_line(tmp_path: Path) -> None:
    outputs, references = noisy_corpus(60)
    others = [" ".join(reversed(text.split())) for text in references]
    scores = corpus_scores(outputs, list(zip(references, others)))
    (tmp_path / "others").write_text("".join(f"{line}\n" for line in others), encoding="utf-8")
    told = by_command_line(tmp_path, outputs, references, "-tok", "13a")
    both = json.loads(
        subprocess.run(
            [
                sys.executable,
                "-m",
                "sacrebleu",
                "references",
                "others",
                "-i",
                "outputs",
                "-m",
                "bleu",
                "chrf",
                "--format",
                "json",
                "-w",
                "6",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert scores.bleu > float(told["BLEU"]["score"])
    assert [scores.bleu, scores.chrf] == pytest.approx([metric["score"] for metric in both], abs=1e-6)
    assert scores.bleu_signature == both[0]["signature"]
    assert scores.exact == corpus_scores(outputs, references).exact


def test_some_outputs_may_have_more_references_than_others() -> None:
    scores = corpus_scores(["a b c d e", "f g h i j"], [["x", "a b c d e"], "f g h i j"])
    assert scores.bleu == pytest.approx(100)
    assert scores.exact == 100


def test_lines_and_dict_carry_every_figure() -> None:
    scores = corpus_scores(["the cat sat on the mat"], ["the cat sat on the mat"])
    text = "\n".join(scores.lines())
    assert text.count("100.00") == 4
    assert "tok:13a" in text
    assert "case:lc" in text
    assert json.loads(json.dumps(scores.as_dict()))["bleu"] == pytest.approx(100)


@pytest.mark.parametrize(("outputs", "references", "told"), [(["a"], ["a", "b"], "1 outputs"), ([], [], "no sentences")])
def test_mistakes_are_told(outputs: list[str], references: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        corpus_scores(outputs, references)

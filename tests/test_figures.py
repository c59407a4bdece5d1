"""Figures in README come from benchmarks/results, and say what is there."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def result(name: str) -> dict:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def test_the_demo():
    demo = result("demo.cpu")
    seconds, bleu, chrf = round(demo["training_seconds"]), round(demo["bleu"], 1), round(demo["chrf"], 1)
    right, total = demo["pronouns_right"], demo["pronouns"]
    assert f"{demo['steps']} steps, {seconds} s on 2 CPU cores | {bleu} BLEU, {chrf} chrF, {right} of {total} pronouns" in README
    assert f"ends with {bleu} BLEU, {chrf} chrF and {right} of {total} pronouns right" in README


def test_multi30k():
    found = result("multi30k.cuda")
    assert f"{found['bleu_lowercase']} BLEU lower-cased, {found['bleu']} cased" in README
    assert f"length penalty {found['length_penalty']}" in README
    assert f"one of {found['trainings_tried']} trainings tried" in README


@pytest.mark.parametrize(
    ("label", "system"),
    [
        ("Regard", "regard"),
        (r"Hugging Face transformers [\d.]+", "hugging face"),
        (r"CTranslate2 [\d.]+", "ctranslate2"),
        ("Regard, int8", "regard int8"),
        ("CTranslate2, int8", "ctranslate2 int8"),
    ],
)
def test_beam_search(label, system):
    found = result("decode_beam.cpu")
    (shown,) = re.findall(rf"^\| {label} \| (\d+) \| (\d+) \|$", README, re.MULTILINE)
    assert shown == tuple(f"{found[f'batch {n}']['tokens_per_second'][system]:.0f}" for n in (1, 16))

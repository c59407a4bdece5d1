"""What does *it* refer to? Which heads of the demo look from *it* to the nouns, and what is lost without them.

    regard bench pronoun                 trains the demo first, about a minute
    REGARD_RUN=runs/demo regard bench pronoun

In *the animal did not cross the street because it was too tired* (or *wide*) French must say il or elle. Heads are chosen on
validation sentences, by how much they look at what *it* refers to: from *it* in the encoder, and from the place where il or elle
is about to be written. Then, on test sentences whose two nouns differ in gender, those heads are switched off, and as many others
instead, drawn many times: from all others, and from others of the same kinds of attention. A pronoun is wrong where the other one
is likelier; when the model writes by itself, where it writes any other word.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import write
from benchmarks.pronoun_questions import Question, questions
from regard.commands.demo import SENTENCES, pronoun_accuracy
from regard.commands.train import train_run
from regard.data.batching.pairs import pad
from regard.data.sources import Pair
from regard.data.sources.parallel import read_pairs
from regard.model.probe import attentions, probe
from regard.runs.folder import choose_device
from regard.runs.recipe import load_recipe
from regard.tasks.translation.predict import Translator
from regard.text.specials import EOS

DRAWS = 200  # sets of other heads
DECODED = 10  # of them, how many also translate
LEAST = 0.4  # of a head's weight that is on what `it` refers to, for it to be chosen
Head = tuple[str, int]


@torch.no_grad()
def passed(translator: Translator, asked: Sequence[Question], gates: dict[str, Tensor] | None = None) -> tuple[Tensor, Any]:
    """logits_BLV of all questions in one pass, and what a probe saw."""
    source_BM, lengths_B = pad([np.array(question.source) for question in asked])
    target_BL, _ = pad([np.array(question.target) for question in asked])
    device = translator.device
    with probe(translator.model, gates=gates) as seen:
        seen.recording = gates is None
        return translator.model(source_BM.to(device), lengths_B.to(device), target_BL.to(device)), seen


def looks(translator: Translator, asked: Sequence[Question]) -> dict[Head, dict[str, float]]:
    """Of every head that could look at the nouns of the source: its mean weight on each, and what an even look would have."""
    _, seen = passed(translator, asked)
    rows = torch.arange(len(asked))
    found: dict[Head, dict[str, float]] = {}
    for name in seen:
        if name.startswith("decoder") and name.endswith(".self"):
            continue  # what is written so far has other nouns
        queries = torch.tensor([question.at if name.endswith(".cross") else question.it for question in asked])
        weights_BHLM = seen[name].weights()
        weights_BHM = weights_BHLM[rows, :, queries].cpu()
        on = {
            noun: weights_BHM[rows, :, torch.tensor([getattr(question, noun) for question in asked])].mean(0)
            for noun in ("referent", "other")
        }
        even = float(np.mean([2 / len(question.source) for question in asked]))
        for head in range(weights_BHM.shape[1]):
            found[name, head] = {noun: float(weight_H[head]) for noun, weight_H in on.items()} | {"even": even}
    return found


def chosen(found: dict[Head, dict[str, float]]) -> list[Head]:
    """Those that look at what `it` refers to, the strongest first."""
    return [head for head in sorted(found, key=lambda head: -found[head]["referent"]) if found[head]["referent"] >= LEAST]


def switched_off(translator: Translator, heads: Sequence[Head]) -> dict[str, Tensor]:
    gates = {name: torch.ones(one.heads, device=translator.device) for name, one in attentions(translator.model).items()}
    for name, head in heads:
        gates[name][head] = 0
    return gates


def wrong_pronouns(translator: Translator, asked: Sequence[Question], heads: Sequence[Head]) -> dict[str, float]:
    """Shares without these heads: of pronouns where the other is likelier, and of all other words that are not the likeliest."""
    logits_BLV, _ = passed(translator, asked, switched_off(translator, heads))
    pronouns, words, missed = 0, 0, 0
    for logits_LV, question in zip(logits_BLV, asked):
        pronouns += bool(logits_LV[question.at, question.wrong] > logits_LV[question.at, question.right])
        following = torch.tensor([*question.target[1:], EOS], device=logits_LV.device)
        differs_L = logits_LV[: len(following)].argmax(-1) != following
        differs_L[question.at] = False
        words, missed = words + len(following) - 1, missed + int(differs_L.sum())
    return {"pronouns": pronouns / len(asked), "other_words": missed / words}


def translated(translator: Translator, pairs: Sequence[Pair], heads: Sequence[Head]) -> float:
    """Share of wrong pronouns when the model writes by itself, by greedy search."""
    with probe(translator.model, gates=switched_off(translator, heads)) as looking:
        looking.recording = False
        outputs = [found[0].text for found in translator.translate([pair.source for pair in pairs])]
    right, total = pronoun_accuracy(pairs, outputs)
    return 1 - right / total


def others(heads: Sequence[Head], model_heads: Sequence[Head], draw: random.Random, *, alike: bool) -> list[Head]:
    """As many heads that were not chosen; `alike`: of the same kinds of attention, encoder.self or decoder.cross."""
    left = [head for head in model_heads if head not in heads]
    if not alike:
        return draw.sample(left, len(heads))
    drawn: list[Head] = []
    for kind in sorted({_kind(head) for head in heads}):
        drawn += draw.sample([head for head in left if _kind(head) == kind], sum(_kind(head) == kind for head in heads))
    return drawn


def _kind(head: Head) -> str:
    stack, _, part = head[0].split(".")
    return f"{stack}.{part}"


def compared(
    translator: Translator, asked: Sequence[Question], pairs: Sequence[Pair], heads: Sequence[Head], draws: int
) -> dict[str, Any]:
    every = [(name, head) for name, one in attentions(translator.model).items() for head in range(one.heads)]
    result: dict[str, Any] = {}
    for name, gone in (("all_heads", []), ("without_them", heads)):
        result[name] = wrong_pronouns(translator, asked, gone) | {"written": translated(translator, pairs, gone)}
    result["each_alone"] = [wrong_pronouns(translator, asked, [head])["pronouns"] for head in heads]
    for name, alike in (("others", False), ("others_alike", True)):
        draw = random.Random(0)
        sets = [others(heads, every, draw, alike=alike) for _ in range(draws)]
        found = [wrong_pronouns(translator, asked, gone) for gone in sets]
        wrong = sorted(one["pronouns"] for one in found)
        result[name] = {
            "draws": draws,
            "pronouns": statistics.mean(wrong),
            "deviation": statistics.pstdev(wrong),
            "most": wrong[-1],
            "as_bad_or_worse": sum(one >= result["without_them"]["pronouns"] for one in wrong) / draws,
            "other_words": statistics.mean(one["other_words"] for one in found),
            "written": statistics.mean(translated(translator, pairs, gone) for gone in sets[:DECODED]),
        }
    return result


def examined(translator: Translator, draws: int = DRAWS) -> dict[str, Any]:
    valid, test = (questions(translator, read_pairs((f"builtin:english-french/{split}",))) for split in ("valid", "test"))
    pairs = [pair for pair in read_pairs(("builtin:english-french/test",)) if questions(translator, [pair])]
    found = looks(translator, valid)
    heads = chosen(found)
    lecture = {text: looks(translator, questions(translator, [_pair(text)])) for text in SENTENCES}
    return {
        "questions": {"validation": len(valid), "test": len(test)},
        "heads": [
            {
                "attention": name,
                "head": head,
                **found[name, head],
                "lecture": {text: {noun: by[name, head][noun] for noun in ("referent", "other")} for text, by in lecture.items()},
            }
            for name, head in heads
        ],
        **compared(translator, test, pairs, heads, draws),
    }


def _pair(text: str) -> Pair:
    return next(pair for pair in read_pairs(("builtin:english-french/test",)) if pair.source == text)


@contextmanager
def demo() -> Iterator[Translator]:
    """The one that is named, or a fresh one."""
    if given := os.environ.get("REGARD_RUN"):
        yield Translator.open(given, "cpu", ["decode.search=greedy"])
        return
    with tempfile.TemporaryDirectory() as folder:
        train_run(load_recipe("translate"), Path(folder) / "run", choose_device("cpu"), lambda line: None)
        yield Translator.open(Path(folder) / "run", "cpu", ["decode.search=greedy"])


def main() -> None:
    with demo() as translator:
        result = examined(translator)
    for head in result["heads"]:
        print(f"{head['attention']} {head['head']}: {head['referent']:.2f} on what it is, {head['other']:.2f} on the other noun")
    for name in ("all_heads", "without_them", "others", "others_alike"):
        wrong, written, rest = (f"{result[name][what]:.1%}" for what in ("pronouns", "written", "other_words"))
        print(f"{name:<14} wrong pronouns {wrong}, when writing {written}, other words {rest}")
    print(f"written to {write('pronoun', result).name}")


if __name__ == "__main__":
    main()

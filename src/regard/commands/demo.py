"""`regard demo`: train, translate, look. The lectures' sentence in one minute, on any laptop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from regard.commands.train import train_run
from regard.data.sources import Pair
from regard.lens.result import save
from regard.runs.folder import Say, choose_device
from regard.runs.recipe import load_recipe
from regard.tasks.translation.predict import Translator

SENTENCES = (
    "the animal did not cross the street because it was too tired",
    "the animal did not cross the street because it was too wide",
)
BECAUSE_IT = re.compile(r"\bbecause it\b")
BECAUSE_PRONOUN = re.compile(r"\bparce qu' ?(ils?|elles?)\b")


def run_demo(folder: Path, device: str | None, say: Say) -> None:
    where = choose_device(device)
    say("Regard trains a small Transformer to translate English into French; it sees both sentences below only after training.")
    outcome = train_run(load_recipe("translate"), folder, where, say)
    if outcome.interrupted:
        say(f"saved step {outcome.progress.step:,} in {folder}; continue with: regard demo --out {folder}")
        raise SystemExit(outcome.interrupted)
    assert outcome.result is not None
    print("\nOn 1,000 test sentences, half of them with combinations of words that training never showed:")
    for line in outcome.result.lines():
        print(f"  {line}")
    right, total = pronoun_accuracy(outcome.prepared.test, outcome.result.outputs)
    print(f"  it -> il or elle   {right} of {total} right ({right / total:.1%})")
    translator = Translator.open(folder, str(where))
    print("\nWhat does 'it' refer to?")
    for sentence in SENTENCES:
        print(f"  {sentence}\n    {translator(sentence)}")
    _, alignment = translator.attention(SENTENCES[0])
    for name in ("attention.png", "attention.html"):
        save(alignment, folder / name)
    print(f"\nLook:     {folder}/attention.png, {folder}/attention.html (what each French word attended to), {folder}/curves.png")
    print(f'Try:      regard predict {folder} "the small cat sees the red house"')
    print("Your own: regard train translate-small data.train=a.en,a.de data.valid=b.en,b.de --out runs/mine")


def pronoun_of(pair: Pair) -> str | None:
    """Return the French for *it*, "il" or "elle", if the pair has a *because it* clause, else None."""
    if not BECAUSE_IT.search(pair.source):
        return None
    return _pronoun_in(pair.target)


def pronoun_accuracy(pairs: Sequence[Pair], outputs: Sequence[str]) -> tuple[int, int]:
    """Count the outputs with the right pronoun after *parce que*, and the pairs that need one."""
    asked = [(pronoun, out) for pair, out in zip(pairs, outputs, strict=True) if (pronoun := pronoun_of(pair))]
    return sum(_pronoun_in(output) == pronoun for pronoun, output in asked), len(asked)


def _pronoun_in(french: str) -> str | None:
    found = BECAUSE_PRONOUN.search(french)
    return found[1] if found else None

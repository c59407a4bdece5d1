"""The small files of a run are damaged, or the data it was begun with changes: `regard train` and `regard predict` must tell.

Each answers with one sentence and exit code 2 and touches nothing, or does exactly what it would have done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.command import contents, regard, write_tiny
from tests.faults.damage import Damage, file_damages
from tests.faults.tally import Tally, one_sentence

SEALED = ("recipe.toml", "tokenizer.json", "data.json")
METRICS = "metrics.jsonl"
HALF, LAST = "step-00000010", "step-00000020"
TEXTS = ("the cat sees the dog .", "the bird likes the horse .")
SETTINGS = ("train.log_every=2", "data.test=")


class Answer(NamedTuple):
    """What a command said; `code` is None if it ended as a traceback."""

    code: int | None
    out: str
    told: str

    @property
    def refused(self) -> bool:
        message = self.told.rpartition("regard: ")[2].replace("\n", " ")
        return self.code == 2 and self.told.count("regard: ") == 1 and one_sentence(message)


def ask(*arguments: object) -> Answer:
    try:
        result = regard(*arguments)
    except Exception as error:
        return Answer(None, "", f"broke: {error!r}")
    return Answer(*result)


@dataclass(frozen=True)
class Untouched:
    """A run of 20 steps, the same run stopped at step 10, and what that one predicts."""

    folder: Path
    recipe: Path
    weights: bytes
    predicted: str

    @classmethod
    def train(cls, folder: Path) -> Untouched:
        recipe = write_tiny(folder)
        whole = folder / "whole"
        assert regard("train", recipe, *SETTINGS, "--out", whole).code == 0
        weights = final_weights(whole)
        for path in (whole / "checkpoints").iterdir():
            if not path.name.endswith(HALF[-8:]):
                shutil.rmtree(path)
        return cls(folder, recipe, weights, regard("predict", whole, *TEXTS, "--json").out)

    def copy(self) -> Path:
        return Path(shutil.copytree(self.folder / "whole", self.folder / "run"))

    def original(self, name: str) -> Path:
        return self.folder / "whole" / name

    def predict(self, run: Path) -> tuple[Answer, bool]:
        """The answer, and whether it is the one of the untouched run."""
        answer = ask("predict", run, *TEXTS, "--json")
        return answer, answer.out == self.predicted

    def train_on(self, run: Path) -> tuple[Answer, bool]:
        """The answer, and whether training ended with the weights of the untouched run."""
        answer = ask("train", self.recipe, *SETTINGS, "--out", run)
        return answer, answer.code == 0 and final_weights(run) == self.weights


def final_weights(run: Path) -> bytes:
    return b"".join((run / "checkpoints" / LAST / f"{part}.safetensors").read_bytes() for part in ("model", "optimizer"))


def kept(run: Path, before: dict[str, bytes | None]) -> bool:
    """Whether what could be continued from is still there."""
    now = contents(run / "checkpoints")
    return all(now.get(name) == content for name, content in before.items() if name.startswith(HALF))


def damage_campaign(folder: Path, names: Sequence[str], flips: int, wanted: Callable[[str], bool] = lambda what: True) -> Tally:
    tally = Tally()
    untouched = Untouched.train(folder)
    for name in names:
        damages = file_damages(flips, seed=len(name))
        del damages["closed to us"]  # to root nothing is
        for what, damage in damages.items():
            for verb, use in (("predict", untouched.predict), ("train", untouched.train_on)):
                if wanted(f"{what}, {verb}"):
                    _one(tally, f"{name}: {what}, then {verb}", untouched, name, damage, use)
    return tally


def _one(
    tally: Tally, what: str, untouched: Untouched, name: str, damage: Damage, use: Callable[[Path], tuple[Answer, bool]]
) -> None:
    run = untouched.copy()
    damage(run / name)
    before, good_lines = contents(run / "checkpoints"), _good_lines(run / name, untouched.original(name))
    answer, same = use(run)
    if name == METRICS:
        same = same and good_lines <= _good_lines(run / name, untouched.original(name))
    detected = answer.refused or (name == METRICS and METRICS in answer.told)
    intact = kept(run, before)
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink(missing_ok=True)
    shutil.copy(untouched.original(name), run)
    recovered = intact and (answer.refused or same) and ask("predict", run, *TEXTS).code == 0
    tally.add(what, detected=detected, harmless=same, recovered=recovered, told=answer.told[-200:])
    shutil.rmtree(run)


def _good_lines(damaged: Path, original: Path) -> set[bytes]:
    """Lines up to the last checkpoint that the damage left as they were."""
    if not damaged.is_file():
        return set()
    lines = original.read_bytes().splitlines()
    lasting = [line for line in lines if b'"step": ' in line and int(line.split(b'"step": ')[1].split(b",")[0]) <= 10]
    return set(lasting) & set(damaged.read_bytes().splitlines())


# ------------------------------------------------------------------------------------------------------------------- its data


def _lines(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def _both(data: Path, change: Callable[[list[str]], list[str]]) -> None:
    for side in ("train.en", "train.fr"):
        _lines(data / side, change)


CHANGES: dict[str, Damage] = {
    "one word": lambda data: _lines(data / "train.en", lambda s: [s[0].replace("cat", "dog", 1), *s[1:]]),
    "one word that is new": lambda data: _lines(data / "train.fr", lambda s: [s[0].replace("chat", "chaton", 1), *s[1:]]),
    "the last word": lambda data: _lines(data / "train.fr", lambda s: [*s[:-1], s[-1].replace("cheval .", "chien .")]),
    "the order": lambda data: _both(data, lambda s: [s[1], s[0], *s[2:]]),
    "the order, reversed": lambda data: _both(data, lambda s: s[::-1]),
    "one side shifted": lambda data: _lines(data / "train.fr", lambda s: [*s[1:], s[0]]),
    "a line more": lambda data: _both(data, lambda s: [*s, s[0]]),
    "ten lines more": lambda data: _both(data, lambda s: [*s, *s[:10]]),
    "a line less": lambda data: _both(data, lambda s: s[:-1]),
    "a line twice instead of two": lambda data: _both(data, lambda s: [s[1], *s[1:]]),
}


def data_campaign(folder: Path, changes: Sequence[str] = tuple(CHANGES)) -> Tally:
    """The same command with other data is refused, and with the old data again it goes on as if nothing had been."""
    tally = Tally()
    untouched = Untouched.train(folder)
    for what in changes:
        run = untouched.copy()
        before = contents(run)
        CHANGES[what](folder)
        answer, _ = untouched.train_on(run)
        left_alone = contents(run) == before
        write_tiny(folder)
        _, same = untouched.train_on(run)
        detected = answer.refused and "the training data is not what" in answer.told
        tally.add(what, detected=detected, recovered=left_alone and same, told=answer.told[-300:])
        shutil.rmtree(run)
    return tally
